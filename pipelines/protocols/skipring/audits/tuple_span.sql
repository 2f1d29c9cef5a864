-- A row is a tuple of a database, from the end of `round` to the start of `until_round`: the next change of its label,
-- the crash of the node, or the end of the run.
with crashed as (
  select run_id, node_id, min(round) as crash_round from fault_event where kind = 'crash' group by run_id, node_id
), numbered as (
  select *, lead(round) over (partition by run_id, node_id, topic, label order by round) as next_round
  from state_database_change
)
select n.run_id, n.node_id, n.topic, n.label, n.subscriber, n.round,
  least(coalesce(n.next_round, s.last_round + 1), coalesce(c.crash_round, s.last_round + 1)) as until_round
from numbered n
join ring_setting s on s.run_id = n.run_id
left join crashed c on c.run_id = n.run_id and c.node_id = n.node_id
where n.is_tuple
