"""The guarantees of protocol ``ginger`` beside the general ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, IN_FLIGHT_RUN, SLOW_RUN, Audit, Evidence, aggregated, arrow_rows
from udfs.ginger.bank import BALANCES, replay
from udfs.ginger.tree import BROKEN, broken_trees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATION = """
with first as (
  select run_id, node_id, topic, source, source_seq, min(position) as position
  from state_delivered
  group by run_id, node_id, topic, source, source_seq
)
select f.run_id, f.node_id, f.topic, f.position, f.source, f.source_seq, p.guarantee, p.content,
  cast(get_json_object(r.parameters, "$['protocol.start_balance']") as bigint) as start_balance
from first f
join publication p on p.run_id = f.run_id and p.source = f.source and p.source_seq = f.source_seq
join run r on r.run_id = f.run_id
where get_json_object(p.content, '$.operation') is not null
"""
"""The bank operations that replicas delivered."""


def balances(evidence: Evidence) -> DataFrame:
    """All replicas have the same balances, after each totally ordered operation and at a quiescent end; none negative.

    What is refused at one replica is refused at all.
    """
    balance = evidence.keep("balance", lambda: _replayed(evidence))
    return _different(evidence, balance).unionByName(_negative(balance)).select(*FOUND)


def _replayed(evidence: Evidence) -> DataFrame:
    replica = ["run_id", "node_id", "topic", "start_balance"]
    delivered = "array_sort(collect_list(struct(position, source, source_seq, guarantee, content))) as operations"
    return arrow_rows(aggregated(evidence.sql(OPERATION), replica, delivered), replay, BALANCES)


def _different(evidence: Evidence, balance: DataFrame) -> DataFrame:
    busy = evidence.sql(IN_FLIGHT_RUN).selectExpr("*", "true as is_busy")
    settled = balance.join(busy, "run_id", "left").where("source is not null or is_busy is null")
    compared = aggregated(
        settled, ["run_id", "topic", "account", "source", "source_seq"],
        "min(struct(balance, node_id)) as least", "max(struct(balance, node_id)) as most",
        "min(is_refused) <> max(is_refused) as differs",
    )  # fmt: skip
    name = evidence.table("node").selectExpr("run_id", "node_id as peer", "name")
    wrong = compared.where("least.balance <> most.balance or coalesce(differs, false)")
    detail = """concat(account, ' of ', topic, ' holds ', most.balance, ', at ', name, ' ', least.balance,
        case when differs then '; refused at one only' else '' end) as detail"""
    return (
        wrong.selectExpr("*", "least.node_id as peer")
        .join(name, ["run_id", "peer"])
        .selectExpr(
            "run_id", "cast(null as bigint) as round", "most.node_id as node_id", "source", "source_seq", detail
        )
    )


def _negative(balance: DataFrame) -> DataFrame:
    detail = "concat(account, ' of ', topic, ' holds ', balance) as detail"
    return balance.where("balance < 0").selectExpr(
        "run_id", "cast(null as bigint) as round", "node_id", "source", "source_seq", detail
    )


_ITEM = """
with first as (
  select run_id, node_id, topic, source, source_seq, min(position) as position
  from state_delivered
  group by run_id, node_id, topic, source, source_seq
), item as (
  select f.run_id, f.node_id, f.topic, f.source, f.source_seq, f.position, p.guarantee, explode(p.keys) as key_item
  from first f
  join publication p on p.run_id = f.run_id and p.source = f.source and p.source_seq = f.source_seq
)"""

TOTAL_ORDER = f"""{_ITEM}, ranked as (
  select *, count_if(guarantee = 'total') over (
    partition by run_id, node_id, topic, key_item order by position rows between unbounded preceding and 1 preceding
  ) as n_before
  from item
), compared as (
  select run_id, topic, key_item, source, source_seq, min(struct(n_before, node_id)) as least,
    max(struct(n_before, node_id)) as most
  from ranked
  group by run_id, topic, key_item, source, source_seq
)
select c.run_id, cast(null as bigint) as round, c.most.node_id as node_id, c.source, c.source_seq,
  concat('key item ', c.key_item, ' of topic ', c.topic, ': delivered after ', c.most.n_before,
    ' total-order messages, at ', n.name, ' after ', c.least.n_before) as detail
from compared c
join node n on n.run_id = c.run_id and n.node_id = c.least.node_id
where c.least.n_before < c.most.n_before
"""  # noqa: S608 - built of constants
"""A message on different sides of a total-order message at different clients.

All is in one order, with its barrier, if every message comes after equally many total-order messages everywhere: for
these that number is their position in the order.
"""

CAUSAL_ORDER = f"""{_ITEM}, published as (
  select run_id, source as node_id, topic, source, source_seq, (issued_round + 1) * 1048576 - 1 as position,
    explode(keys) as key_item
  from publication
), log as (
  select run_id, node_id, topic, key_item, source, source_seq, position, 0 as is_own from item
  union all
  select run_id, node_id, topic, key_item, source, source_seq, position, 1 as is_own from published
), followed as (
  select l.run_id, l.node_id as publisher, l.topic, l.key_item, l.source, l.source_seq, l.is_own,
    i.node_id, i.position,
    max(i.position) over (
      partition by l.run_id, l.node_id, l.topic, l.key_item, i.node_id order by l.position, l.is_own, l.source_seq
      rows between unbounded preceding and 1 preceding
    ) as last_before
  from log l
  join item i on i.run_id = l.run_id and i.topic = l.topic and i.key_item = l.key_item
    and i.source = l.source and i.source_seq = l.source_seq
)
select f.run_id, cast(null as bigint) as round, f.node_id, f.source, f.source_seq,
  concat('key item ', f.key_item, ' of topic ', f.topic, ': delivered before ', n.name, ' ', b.source_seq,
    ', which its publisher knew') as detail
from followed f
join item b on b.run_id = f.run_id and b.node_id = f.node_id and b.topic = f.topic and b.key_item = f.key_item
  and b.position = f.last_before
join node n on n.run_id = b.run_id and n.node_id = b.source
where f.is_own = 1 and f.last_before > f.position
"""  # noqa: S608 - built of constants
"""A message delivered before one that its publisher had published or delivered before it, on a shared key item."""


def total_order(evidence: Evidence) -> DataFrame:
    """Total-order messages on a key item have one order everywhere; other messages on it are on one side of each."""
    return evidence.sql(TOTAL_ORDER).select(*FOUND)


def causal_order(evidence: Evidence) -> DataFrame:
    """What a publisher knew of a key item when it published comes before what it published, everywhere."""
    return evidence.sql(CAUSAL_ORDER).select(*FOUND)


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


AUDITS = (
    Audit("causal_order", "what a publisher knew of a key item comes before what it published on it", causal_order),
    Audit(
        "total_order", "total-order messages on a key item come in one order, with all else on one side", total_order
    ),
    Audit("balances", "all replicas of a bank have equal balances, and none below zero", balances),
    Audit("nothing_waiting", "when all is quiescent no key item is locked and no message waits", LEFT_OVER),
    Audit("one_tree", "when all is quiescent the brokers that are up are one tree", one_tree),
    Audit("nobody_alone", "whoever is up is taken in by somebody, or is the root of all that is left", nobody_alone),
    Audit("nothing_lost", "what has left all buffers and is lacking somewhere is published again", nothing_lost),
    Audit("subscribed", "subscriptions are confirmed before anything is published on their topic", subscribed),
)
