-- A row is a state of a node's ring of a topic, from the end of `round` to the start of `until_round`: the next change,
-- the crash of the node, or the end of the run. Column `peers` has the neighbours left, right and ring; columns with
-- prefix `before_` have the previous state.
with crashed as (
  select run_id, node_id, min(round) as crash_round from fault_event where kind = 'crash' group by run_id, node_id
), numbered as (
  select *, filter(array(`left`, `right`, ring), one -> one is not null) as peers,
    lead(round) over (partition by run_id, node_id, topic order by round) as next_round,
    lag(`left`) over (partition by run_id, node_id, topic order by round) as before_left,
    lag(`right`) over (partition by run_id, node_id, topic order by round) as before_right
  from state_configuration_change
)
select n.run_id, n.node_id, n.topic, n.round,
  least(coalesce(n.next_round, s.last_round + 1), coalesce(c.crash_round, s.last_round + 1)) as until_round, n.wants,
  n.label, n.`left`, n.`right`, n.ring, n.slots, n.peers, n.before_left, n.before_right,
  lag(n.peers) over (partition by n.run_id, n.node_id, n.topic order by n.round) as before_peers
from numbered n
join ring_setting s on s.run_id = n.run_id
left join crashed c on c.run_id = n.run_id and c.node_id = n.node_id
