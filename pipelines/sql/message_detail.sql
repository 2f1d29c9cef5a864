-- From which node to which node was each message sent, when, with which fate, and for which call?
-- One row per message.
-- :* message
select m.run_id, m.message_id, m.kind, m.src, sn.name as src_name, m.dst, dn.name as dst_name, m.sent_round, m.due_round,
  m.fate, m.source, pn.name as source_name, m.source_seq, m.body
from message m
join node sn on sn.run_id = m.run_id and sn.node_id = m.src
join node dn on dn.run_id = m.run_id and dn.node_id = m.dst
left join node pn on pn.run_id = m.run_id and pn.node_id = m.source
