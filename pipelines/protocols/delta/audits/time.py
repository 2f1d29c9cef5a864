"""What of protocol ``delta`` has to end: recoveries and calls, within the grace of `bound` after the last fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, SLOW_RUN, Evidence
from pipelines.protocols.delta.audits.members import NODE, unreachable
from pipelines.protocols.delta.bound import SETTLED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIMITS = f"""
with {SETTLED}, over as (
  select run_id, max(due_round) as last_round from message where fate <> 'in_flight' group by run_id
), late as (
  {SLOW_RUN}
), begun as (
  select run_id, node_id, cast(null as bigint) as source_seq, recovery_round as begin_round, end_round,
    'recovery' as what
  from node_recovery
  where recovery_round is not null
  union all
  select run_id, source as node_id, source_seq, issued_round as begin_round, confirmed_round as end_round,
    'publication' as what
  from publication
  union all
  select run_id, subscriber as node_id, cast(null as bigint) as source_seq, issued_round as begin_round,
    confirmed_round as end_round, 'subscription' as what
  from subscription
  union all
  select run_id, subscriber as node_id, cast(null as bigint) as source_seq, unsubscribed_round as begin_round,
    ended_round as end_round, 'unsubscription' as what
  from subscription
  where unsubscribed_round is not null
), followed as (
  select b.run_id, b.node_id, b.source_seq, b.begin_round, b.end_round, b.what, g.grace_rounds,
    min(case when d.round <= b.begin_round + g.grace_rounds then d.round end) as disturbed_round
  from begun b
  join grace g on g.run_id = b.run_id
  left join disturbance d on d.run_id = b.run_id and d.round > b.begin_round
  group by b.run_id, b.node_id, b.source_seq, b.begin_round, b.end_round, b.what, g.grace_rounds
), limited as (
  select f.run_id, f.node_id, f.source_seq, f.begin_round, f.end_round, f.what,
    case when f.disturbed_round is null then f.begin_round + f.grace_rounds else min(c.settled_round) end as limit_round
  from followed f
  left join calm c on c.run_id = f.run_id and c.round > f.begin_round
  group by f.run_id, f.node_id, f.source_seq, f.begin_round, f.end_round, f.what, f.disturbed_round, f.grace_rounds
)
select l.run_id, l.node_id, l.source_seq, l.begin_round, l.end_round, l.what, l.limit_round
from limited l
join over o on o.run_id = l.run_id and o.last_round >= l.limit_round
left join late a on a.run_id = l.run_id
where a.run_id is null
"""  # noqa: S608 - built of constants
"""What was begun, with the round by which it has to end; nothing that the run is too short to tell of."""

_LOST = """
select run_id, node_id, round as crash_round from fault_event where kind = 'crash'
"""


def ends_in_time(evidence: Evidence) -> DataFrame:
    """Within the grace after the last crash or recovery nodes are OPERATIONAL again, and calls are confirmed.

    A node that crashes before is held to nothing: its call goes with it, and its next recovery is another one. Neither
    is one that cannot join, as its join point is down for good.
    """
    lost = evidence.sql(_LOST)
    limits = evidence.sql(LIMITS)
    overdue = limits.where("coalesce(end_round > limit_round, true)")
    fallen = overdue.join(lost, NODE).where("crash_round > begin_round and crash_round <= limit_round")
    key = [*NODE, "what", "begin_round"]
    ended = "coalesce(concat('in round ', end_round), 'never')"
    detail = f"concat(what, ' of round ', begin_round, ' had to end by round ', limit_round, ', ended ', {ended})"
    return (
        overdue.join(fallen.select(key).distinct(), key, "left_anti")
        .join(unreachable(evidence), NODE, "left_anti")
        .selectExpr(
            *NODE, "begin_round as round", "case when source_seq is not null then node_id end as source", "source_seq",
            f"{detail} as detail",
        )
        .select(*FOUND)
    )  # fmt: skip
