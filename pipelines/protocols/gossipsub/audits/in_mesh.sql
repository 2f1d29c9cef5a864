-- A row is a neighbour that a node has grafted, or whose GRAFT it has not refused. The neighbour is in the node's mesh
-- in all rounds after `from_round` and before `until_round`. The rows end before the first fault of either node.
with taken as (
  select g.run_id, g.topic, g.node_id, g.peer, g.round,
    coalesce(least(u.round, v.round), 9223372036854775807) as fault_round
  from grafted g
  left join first_fault u on u.run_id = g.run_id and u.node_id = g.node_id
  left join first_fault v on v.run_id = g.run_id and v.node_id = g.peer
  left join sent_message p on p.run_id = g.run_id and p.kind = 'PRUNE' and p.src = g.node_id and p.dst = g.peer
    and p.sent_round = g.round and get_json_object(p.body, '$.topic') = g.topic
  left join joined j on j.run_id = g.run_id and j.node_id = g.node_id and j.topic = g.topic
    and j.issued_round < g.round and g.round < j.until_round
  where g.is_sent or (p.run_id is null and j.run_id is not null)
)
select t.run_id, t.topic, t.node_id, t.peer, t.round as from_round,
  least(t.fault_round, coalesce(min(p.round), 9223372036854775807)) as until_round
from taken t
left join parted p on p.run_id = t.run_id and p.topic = t.topic and p.node_id = t.node_id and p.peer = t.peer
  and p.round >= t.round
where t.round < t.fault_round
group by t.run_id, t.topic, t.node_id, t.peer, t.round, t.fault_round
