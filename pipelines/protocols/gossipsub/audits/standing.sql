-- A row is a node, one of its neighbours, and a topic that the neighbour has announced to the node. The neighbour does
-- not leave the topic. The node knows of the announcement from `since_round` on. Before `until_round` neither of the two
-- has a fault. Pairs of nodes between which an announcement was lost have no rows.
with announced as (
  select run_id, src as neighbour, dst as node_id, max(due_round) as due_round,
    sum(case when fate = 'delivered' then 0 else 1 end) as n_lost
  from sent_message
  where kind = 'ANNOUNCE'
  group by run_id, src, dst
)
select m.run_id, m.topic, l.dst as node_id, m.node_id as neighbour,
  greatest(m.first_round + l.latency_rounds, coalesce(a.due_round, -1)) as since_round,
  coalesce(least(u.round, v.round), 9223372036854775807) as until_round
from member m
join link l on l.run_id = m.run_id and l.src = m.node_id
left join announced a on a.run_id = l.run_id and a.neighbour = l.src and a.node_id = l.dst
left join first_fault u on u.run_id = l.run_id and u.node_id = l.src
left join first_fault v on v.run_id = l.run_id and v.node_id = l.dst
where m.n_ended = 0 and coalesce(a.n_lost, 0) = 0
