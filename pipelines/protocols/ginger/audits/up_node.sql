-- The live nodes at the end of quiescent runs, with their parents or edge brokers.
with last as (
  select run_id, node_id, max_by(kind, round) as kind
  from fault_event
  where kind in ('crash', 'recovery')
  group by run_id, node_id
)
select n.run_id, n.node_id, n.role, t.neighbour as above
from node n
join quiet_run q on q.run_id = n.run_id
left join last d on d.run_id = n.run_id and d.node_id = n.node_id
left join state_neighbour t on t.run_id = n.run_id and t.node_id = n.node_id and t.relationship in ('parent', 'edge')
where coalesce(d.kind, 'recovery') = 'recovery'
