-- A row is a node and a publication, with the round in which the node first had the publication. Copies that arrive
-- while the node has not joined the topic do not count (rule S9). A publisher may have two rows.
select m.run_id, m.dst as node_id, m.source, m.source_seq, min(m.due_round) as round
from sent_message m
join setting r on r.run_id = m.run_id
join node n on n.run_id = m.run_id and n.node_id = m.dst
left join subscribed s on s.run_id = m.run_id and s.node_id = m.dst and s.topic = get_json_object(m.body, '$.topic')
  and s.issued_round < m.due_round and m.due_round <= s.until_round
where m.kind in ('PUB', 'REPLY') and m.fate in ('delivered', 'duplicate')
  and (s.run_id is not null or (r.relay = 'true' and n.role = 'broker'))
group by m.run_id, m.dst, m.source, m.source_seq
union all
select run_id, source as node_id, source, source_seq, issued_round as round
from publication
