-- A row is a node and a publication, with the round in which the node first had the publication. Copies that arrive
-- while the node has not joined the topic do not count (rule S9). A publisher has a second row if a copy returns to it.
select m.run_id, m.dst as node_id, m.source, m.source_seq, min(m.due_round) as round
from sent_message m
join joined j on j.run_id = m.run_id and j.node_id = m.dst and j.topic = get_json_object(m.body, '$.topic')
  and j.issued_round < m.due_round and m.due_round <= j.until_round
where m.kind in ('PUB', 'REPLY') and m.fate in ('delivered', 'duplicate')
group by m.run_id, m.dst, m.source, m.source_seq
union all
select run_id, source as node_id, source, source_seq, issued_round as round
from publication
