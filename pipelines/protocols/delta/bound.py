"""What protocol ``delta`` promises to bear: at no time more than δ nodes that are not OPERATIONAL (settled rule 11).

And crashes only where messages take the time that their links take.
"""

from __future__ import annotations

BOUND = """
with exceeded as (
  select o.run_id, min(o.first_round) as round
  from outage o
  join run r on r.run_id = o.run_id
  where o.n_not_operational > cast(get_json_object(r.parameters, "$['protocol.delta']") as bigint)
  group by o.run_id
), absent as (
  select e.run_id, e.round, count(1) as n_nodes, array_join(array_sort(collect_list(n.name)), ', ') as names
  from exceeded e
  join node_recovery n on n.run_id = e.run_id and n.crash_round <= e.round
    and (n.until_round is null or n.until_round > e.round or n.operational_round = e.round)
  group by e.run_id, e.round
)
select a.run_id, a.round, concat(
  a.n_nodes, ' nodes not OPERATIONAL (', a.names, '), δ is ', get_json_object(r.parameters, "$['protocol.delta']")
) as reason
from absent a
join run r on r.run_id = a.run_id
union all
select c.run_id, greatest(min(c.round), min(l.round)) as round,
  'nodes crash, and messages take longer than links do or wait for nodes that pause' as reason
from fault_event c
join fault_event l on l.run_id = c.run_id and l.kind in ('delay', 'reorder', 'pause')
where c.kind = 'crash'
group by c.run_id
"""
"""Runs in which more than δ nodes were not OPERATIONAL at once, with the first round of it.

Without crashes it does not matter how long messages take. With them it does: a failure detector reports a crash after
a fixed time, and by then the node's last words have to be there (settled rule 21).
"""
