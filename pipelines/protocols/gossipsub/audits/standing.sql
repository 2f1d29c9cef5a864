-- A row is a directed link and a topic that its far end has announced, with the round since which the near end knows of
-- the announcement. The far end does not leave the topic, and neither end has a fault.
with unsteady as (
  select distinct run_id, node_id from fault_event where node_id is not null
  union
  select distinct run_id, dst as node_id
  from sent_message
  where kind in ('ANNOUNCE', 'HELLO') and fate <> 'delivered'
)
select m.run_id, m.topic, l.dst as node_id, m.node_id as neighbour, m.first_round + l.latency_rounds as since_round
from member m
join link l on l.run_id = m.run_id and l.src = m.node_id
left join unsteady u on u.run_id = l.run_id and u.node_id in (l.src, l.dst)
where m.n_ended = 0 and u.run_id is null
