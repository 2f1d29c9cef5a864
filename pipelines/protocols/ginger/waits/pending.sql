-- Messages in table pending wait for an earlier message on a key item, or for an acknowledgement. At the topic's root
-- they also wait for members that have not locked the key items.
with needed as (
  select p.run_id, p.node_id, p.topic, p.source, p.source_seq, p.acked, p.covered, explode(m.members) as member
  from state_pending p
  join state_member m on m.run_id = p.run_id and m.node_id = p.node_id and m.topic = p.topic
)
select p.run_id, p.node_id, p.source, p.source_seq,
  concat('call ', e.source_seq, ' of ', n.name, ' precedes it on a key item') as reason
from state_pending p
join state_pending e on e.run_id = p.run_id and e.node_id = p.node_id and e.topic = p.topic
  and e.arrival < p.arrival and arrays_overlap(e.keys, p.keys)
join node n on n.run_id = e.run_id and n.node_id = e.source
union all
select p.run_id, p.node_id, p.source, p.source_seq, concat('TotalAck from ', n.name, ' has not arrived') as reason
from state_pending p
join state_subscriber s on s.run_id = p.run_id and s.node_id = p.node_id and s.topic = p.topic
join state_neighbour c on c.run_id = p.run_id and c.node_id = p.node_id and c.neighbour = s.neighbour
  and c.relationship = 'child'
join node n on n.run_id = p.run_id and n.node_id = s.neighbour
where not array_contains(p.acked, s.neighbour)
union all
select w.run_id, w.node_id, w.source, w.source_seq, concat(n.name, ' has not locked its key items') as reason
from needed w
join node n on n.run_id = w.run_id and n.node_id = w.member
left join state_failed f on f.run_id = w.run_id and f.node_id = w.node_id and f.failed = w.member
left join state_neighbour u on u.run_id = w.run_id and u.node_id = w.node_id and u.relationship = 'parent'
left join state_subscriber s on s.run_id = w.run_id and s.node_id = w.node_id and s.topic = w.topic
  and s.neighbour = u.neighbour
where f.failed is null and s.neighbour is null and not array_contains(w.covered, w.member)
