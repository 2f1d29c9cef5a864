-- The entries of digests: one row per gossip message and event that its digest lists.
select run_id, message_id, src, dst, sent_round, due_round, fate, style, initiator, of_pattern, of.source as event_source,
  of.pattern_id as pattern_id, of.number as number
from (
  select run_id, message_id, src, dst, sent_round, due_round, fate, style, initiator, pattern_id as of_pattern,
    explode(from_json(digest, 'array<struct<source:bigint,pattern_id:bigint,number:bigint>>')) as of
  from gossip
) listed
