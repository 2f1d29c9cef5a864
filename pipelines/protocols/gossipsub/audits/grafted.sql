-- A row is a GRAFT that a node sends, or that arrives while the node has joined the topic. If the node answers an
-- arriving GRAFT by PRUNE in that round, it has refused the GRAFT.
select run_id, get_json_object(body, '$.topic') as topic, src as node_id, dst as peer, sent_round as round,
  true as is_sent
from sent_message
where kind = 'GRAFT'
union all
select distinct m.run_id, j.topic, m.dst as node_id, m.src as peer, m.due_round as round, false as is_sent
from sent_message m
join joined j on j.run_id = m.run_id and j.node_id = m.dst and j.topic = get_json_object(m.body, '$.topic')
  and j.issued_round <= m.due_round and m.due_round <= j.until_round
where m.kind = 'GRAFT' and m.fate = 'delivered'
