"""The state when no message is in flight any more: no lock, no waiting message, and one tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, IN_FLIGHT_RUN, SLOW_RUN, Evidence, aggregated, arrow_rows
from udfs.ginger.tree import BROKEN, broken_trees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUIET = f"""
select r.run_id from run r left join ({IN_FLIGHT_RUN}) busy on busy.run_id = r.run_id where busy.run_id is null
"""  # noqa: S608 - built of constants

LEFT_OVER = f"""
with waiting as (
  select run_id, node_id, source, source_seq, concat('still pending on topic ', topic) as detail
  from state_pending
  union all
  select run_id, node_id, source, source_seq, concat('still waits to enter topic ', topic) as detail
  from state_entry_queue
  union all
  select run_id, node_id, source, source_seq, concat('still holds ', kind) as detail
  from state_hold
  union all
  select a.run_id, a.node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('still awaits what ', n.name, ' has to say') as detail
  from state_awaited a join node n on n.run_id = a.run_id and n.node_id = a.partner
  union all
  select p.run_id, p.node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('still waits for messages that have left the buffer of ', n.name) as detail
  from state_parked p join node n on n.run_id = p.run_id and n.node_id = p.partner
  union all
  select run_id, node_id, source, source_seq, 'never got what has left the buffers' as detail
  from state_gap where status = 'given_up'
  union all
  select run_id, node_id, source, source_seq, concat('still locks key item ', key_item, ' of topic ', topic) as detail
  from state_locked
)
select w.run_id, cast(null as bigint) as round, w.node_id, w.source, w.source_seq, w.detail
from waiting w
join ({_QUIET}) q on q.run_id = w.run_id
"""  # noqa: S608 - built of constants
"""At a quiescent end no key item is locked, and no message is pending or waits to enter."""

_UP = f"""
with last as (
  select run_id, node_id, max_by(kind, round) as kind
  from fault_event
  where kind in ('crash', 'recovery')
  group by run_id, node_id
)
select n.run_id, n.node_id, n.role, t.neighbour as above
from node n
join ({_QUIET}) q on q.run_id = n.run_id
left join last d on d.run_id = n.run_id and d.node_id = n.node_id
left join state_neighbour t on t.run_id = n.run_id and t.node_id = n.node_id and t.relationship in ('parent', 'edge')
where coalesce(d.kind, 'recovery') = 'recovery'
"""  # noqa: S608 - built of constants
"""The nodes that are up, in any state, with their parents or edge brokers."""
ALONE = f"""
select run_id, round, node_id, 'found nobody to take it in' as detail from node_status where status = 'ISOLATED'
union all
select run_id, cast(null as bigint) as round, node_id, 'has no edge broker' as detail
from ({_UP}) up
where role <> 'broker' and above is null
"""  # noqa: S608 - built of constants
LOST = """
select run_id, round, node_id, 'gave up messages that had left the buffers' as detail
from node_status
where status = 'MESSAGE_LOST'
"""
UNCONFIRMED = f"""
with slow as (
  {SLOW_RUN}
), asked as (
  select s.run_id, s.subscriber, p.text as topic, s.confirmed_round
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
), first as (
  select run_id, topic, min(issued_round) as round from publication group by run_id, topic
)
select a.run_id, f.round, a.subscriber as node_id, concat('its subscription to ', a.topic,
  coalesce(concat(' was confirmed in round ', a.confirmed_round), ' was never confirmed')) as detail
from asked a
left join first f on f.run_id = a.run_id and f.topic = a.topic
left join slow w on w.run_id = a.run_id
left join ({_QUIET}) q on q.run_id = a.run_id
where (a.confirmed_round is null and q.run_id is not null) or (a.confirmed_round > f.round and w.run_id is null)
"""  # noqa: S608 - built of constants
"""A scenario has no publication that links could bring before the subscriptions of its topic stand."""
_NO_MESSAGE = ("cast(null as bigint) as source", "cast(null as bigint) as source_seq")


def one_tree(evidence: Evidence) -> DataFrame:
    """At a quiescent end the brokers that are up are one tree: one root, and every broker's parents lead there."""
    broker = evidence.sql(_UP).where("role = 'broker'").withColumnRenamed("above", "parent")
    run = aggregated(broker, ["run_id"], "array_sort(collect_list(struct(node_id, parent))) as nodes")
    broken = arrow_rows(run, broken_trees, BROKEN)
    return broken.selectExpr("run_id", "node_id", "detail", "cast(null as bigint) as round", *_NO_MESSAGE).select(
        *FOUND
    )


def nobody_alone(evidence: Evidence) -> DataFrame:
    """A node that is up finds a node that takes it in, or is the root of the remainder."""
    return evidence.sql(ALONE).selectExpr("*", *_NO_MESSAGE).select(*FOUND)


def nothing_lost(evidence: Evidence) -> DataFrame:
    """A message that has left all buffers, and that a node lacks, is published again."""
    return evidence.sql(LOST).selectExpr("*", *_NO_MESSAGE).select(*FOUND)


def subscribed(evidence: Evidence) -> DataFrame:
    """Subscriptions are confirmed, and before anything is published on their topic: else nothing would be owed."""
    return evidence.sql(UNCONFIRMED).selectExpr("*", *_NO_MESSAGE).select(*FOUND)
