"""The bound of protocol ``delta``: at most δ nodes are not OPERATIONAL at any time (rule R11).

In runs with crashes, messages also take no longer than the latencies of their links.

Faults and latencies determine how long a node may count as recovering, not its status. After the *grace* without a
crash or a recovery, each pending operation must have ended. A node that reports OPERATIONAL earlier counts as up from
that round on. A node that reports it later, or never, counts as up after the grace, and violates guarantee
``ends_in_time``.
"""

from __future__ import annotations

from pipelines.contract.audit import SLOW_CRASHING_RUN

SETTLED = """
scale as (
  select l.run_id, max(l.latency_rounds) as most, div(sum(l.latency_rounds), 2) as whole, div(count(1), 2) as n_links
  from link l
  group by l.run_id
), entry as (
  select run_id, count(1) as n_entries from subscription group by run_id
), setting as (
  select run_id, cast(get_json_object(parameters, "$['protocol.delta']") as bigint) as delta,
    cast(get_json_object(parameters, "$['protocol.detection_rounds']") as bigint) as detection_rounds,
    cast(get_json_object(parameters, "$['protocol.par_rows']") as bigint) as par_rows
  from run
), grace as (
  select s.run_id, s.delta,
    2 * (s.delta + 1) * (
      greatest(s.detection_rounds, (s.delta + 1) * c.most) + 2 * (s.delta + 1) * c.most
      + div(c.n_links + coalesce(e.n_entries, 0), s.par_rows)
    ) + 2 * c.whole as grace_rounds
  from setting s
  join scale c on c.run_id = s.run_id
  left join entry e on e.run_id = s.run_id
), disturbance as (
  select run_id, round, lead(round) over (partition by run_id order by round) as next_round
  from (select distinct run_id, round from fault_event where kind in ('crash', 'recovery')) fault
), calm as (
  select d.run_id, d.round, d.round + g.grace_rounds as settled_round
  from disturbance d
  join grace g on g.run_id = d.run_id
  where d.next_round is null or d.next_round > d.round + g.grace_rounds
)"""
"""SQL (parts of a WITH) for the grace of each run, and the ends of its disturbances.

``grace``: ``run_id, delta, grace_rounds``: 2(δ+1)(D + 2W + P) + 2T. W is the largest latency of δ+1 hops; D the
detection delay, at least W; P the rounds that all routing information waits at low priority; T the sum of all link
latencies. Without further faults a recovering node asks past at most δ nodes that are down, at a detection delay each.
It waits for at most δ other recovering nodes, at a question and an answer each. Its REJOIN is confirmed past these
nodes, over at most the whole tree.

``calm``: ``run_id, round, settled_round``: crashes and recoveries without another one within the grace.
"""

BOUND = f"""
with {SETTLED}, recovery as (
  select n.run_id, n.node_id, n.name, n.crash_round, n.operational_round,
    case when n.recovery_round is null then n.end_round
      else least(coalesce(n.end_round, min(c.settled_round)), min(c.settled_round)) end as end_round
  from node_recovery n
  left join calm c on c.run_id = n.run_id and c.round >= n.recovery_round
  group by n.run_id, n.node_id, n.name, n.crash_round, n.recovery_round, n.operational_round, n.end_round
), change as (
  select run_id, crash_round as round, 1 as n from recovery
  union all
  select run_id, end_round + case when operational_round = end_round then 1 else 0 end as round, -1 as n
  from recovery
  where end_round is not null
), changed as (
  select run_id, round, sum(n) as n from change group by run_id, round
), counted as (
  select run_id, round,
    sum(n) over (partition by run_id order by round rows between unbounded preceding and current row) as n_absent
  from changed
), exceeded as (
  select c.run_id, min(c.round) as round
  from counted c
  join grace g on g.run_id = c.run_id
  where c.n_absent > g.delta
  group by c.run_id
), absent as (
  select e.run_id, e.round, count(1) as n_nodes, array_join(array_sort(collect_list(n.name)), ', ') as names
  from exceeded e
  join recovery n on n.run_id = e.run_id and n.crash_round <= e.round
    and (n.end_round is null or n.end_round > e.round
      or (n.end_round = e.round and n.operational_round = e.round))
  group by e.run_id, e.round
)
select a.run_id, a.round, concat(
  a.n_nodes, if(a.n_nodes = 1, ' node', ' nodes'), ' not OPERATIONAL (', a.names,
  '), δ is ', get_json_object(r.parameters, "$['protocol.delta']")
) as reason
from absent a
join run r on r.run_id = a.run_id
union all
{SLOW_CRASHING_RUN}"""  # noqa: S608 - built of constants
"""Runs in which more than δ nodes were not OPERATIONAL at once, with the first such round.

Only runs with crashes depend on latencies: a failure detector reports a crash after a fixed time, and the last messages
of the node must arrive before the report (rule R21).
"""
