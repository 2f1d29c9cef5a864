-- audit: a message that arrives at its own source is a duplicate
-- Rule R18. A crash deletes the duplicate detector, so it excuses the node for the messages that it sent before the crash.
with begun as (
  select run_id, source, source_seq, min(sent_round) as round
  from sent_message
  where src = source
  group by run_id, source, source_seq
)
select m.run_id, m.due_round as round, m.dst as node_id, m.source, m.source_seq,
  concat('takes its own ', m.kind, ' from node ', m.src, ' for a new one') as detail
from sent_message m
left join begun b on b.run_id = m.run_id and b.source = m.source and b.source_seq = m.source_seq
left join node_recovery n on n.run_id = m.run_id and n.node_id = m.dst
  and n.crash_round between coalesce(b.round, 0) and m.due_round
where m.kind in ('J', 'SUB', 'UNSUB', 'PUB') and m.dst = m.source and m.src <> m.dst and m.fate = 'delivered'
  and n.run_id is null
