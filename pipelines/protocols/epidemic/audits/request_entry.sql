-- The entries of requests: one row per REQUEST and event that its digest lists.
select run_id, src, dst, sent_round, due_round, fate, of.source as source, of.number as source_seq
from (
  select run_id, src, dst, sent_round, due_round, fate, explode(
    from_json(get_json_object(body, '$.digest'), 'array<struct<source:bigint,number:bigint>>')) as of
  from sent_message
  where kind = 'REQUEST'
) listed
