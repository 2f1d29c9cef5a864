-- A row is a node, one of its neighbours, and a topic that the neighbour has announced to the node. The node knows of
-- the announcement from `since_round` on. The neighbour does not leave the topic, and neither of the two has a fault.
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
