-- Which messages were dropped as duplicates, and when was the first copy handled?
-- One row per dropped message. The copies of a message are the messages of the same type to the same node that the same
-- call caused.
-- :* message
-- :first_round round in which the receiver handled the first copy; null: table message has no handled copy
with first_copy as (
  select run_id, dst, kind, source, source_seq, min(due_round) as first_round
  from message
  where fate = 'delivered'
  group by run_id, dst, kind, source, source_seq
)
select m.run_id, m.message_id, m.kind, m.src, sn.name as src_name, m.dst, dn.name as dst_name,
  m.source, pn.name as source_name, m.source_seq, m.sent_round, m.due_round, f.first_round
from message m
join node sn on sn.run_id = m.run_id and sn.node_id = m.src
join node dn on dn.run_id = m.run_id and dn.node_id = m.dst
left join node pn on pn.run_id = m.run_id and pn.node_id = m.source
left join first_copy f on f.run_id = m.run_id and f.dst = m.dst and f.kind = m.kind
  and f.source = m.source and f.source_seq = m.source_seq
where m.fate = 'duplicate'
