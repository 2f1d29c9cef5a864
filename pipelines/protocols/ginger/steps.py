"""The steps of protocol ``ginger`` without faults (chapter 3): lazy joins and windows over the rows of all nodes.

Module `dataflow` calls the steps in the order of a round. They compute subscriptions (sections 3.4 and 4.2.1), locks
and acknowledgements (section 3.5), turns of messages at brokers (`udfs.ginger.turns`), and the messages that brokers
send. A parameter name stands for one frame in all steps:

- ``neighbour``, ``subscriber``, ``member``, ``queue``: tables neighbour, subscriber, member and entry_queue
- ``message``: the frame of `handled`, due messages at their receivers
- ``subscribe``, ``subscribed``, ``ack``: the Subscribe, Subscribed and TotalAck messages at brokers in ``message``
- ``branch``, ``summary``, ``way``, ``lock``: the frames of `branches`, `branch_summaries`, `ways` and `broker_locks`
- ``pending``: the frame of `acknowledged`; ``decision``: the frame of `decided`
- ``turn``: the decisions of brokers about messages (columns `TURN`)
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.contract.rows import NODE, mapped, outbox, received, row_number
from pipelines.engines.frames import union
from pipelines.tables import BIGINT, LONGS, STRING
from udfs.ginger.node import POSITIONS
from udfs.ginger.turns import TURN as DECIDED, turns

STRINGS = T.ArrayType(T.StringType())
_FIELDS = {
    "topic": STRING, "guarantee": STRING, "keys": STRINGS, "issued_round": BIGINT, "hops": BIGINT, "covered": LONGS,
    "subscription_id": BIGINT, "edge": BIGINT, "directions": STRINGS, "way": LONGS,
}  # fmt: skip
PAYLOAD = T.StructType([T.StructField(name, kind) for name, kind in _FIELDS.items()])
"""The payload of messages. Column ``way`` of a Subscribe has the brokers that forwarded it, the edge broker first.

Column ``directions`` has the directions of the links between these brokers, the last link first.
"""
PATH = """transform(slice(sequence(1, size(directions) + 1), 1, size(directions)), i -> named_struct(
    'address', element_at(reverse(way), i), 'hop_count', i - 1, 'direction', element_at(directions, i)))"""
BODY = f"""case kind
    when 'Subscribe' then to_json(named_struct('topic', topic, 'subscription_id', subscription_id, 'edge', edge,
        'path', {PATH}, 'way', way))
    when 'Subscribed' then to_json(named_struct('subscription_id', subscription_id))
    when 'TotalProcessed' then to_json(named_struct('topic', topic, 'guarantee', guarantee, 'keys', keys,
        'issued_round', issued_round, 'hops', hops))
    else to_json(named_struct('topic', topic, 'guarantee', guarantee, 'keys', keys, 'issued_round', issued_round,
        'hops', hops, 'covered', covered)) end"""
TOPIC = [*NODE, "topic"]
ID = [*TOPIC, "source", "source_seq"]
"""The key of a client's message at a broker."""
ABOUT = [*ID, "guarantee", "keys", "issued_round"]
"""The columns that describe a client's message at a broker."""
TURN = DECIDED.names
"""The columns of turns; a turn is a decision of a broker about a message (`udfs.ginger.turns.TURN`).

Grain: a broker, message and ``what``. A message from a broker causes a turn with ``rank`` 0.
"""
FROM_BROKER = "relationship in ('parent', 'child')"
_NONE = "cast(array() as array<bigint>)"
_NOBODY = "cast(null as bigint)"


def _grown(known: str, new: str) -> str:
    """Returns the SQL of the ascending union of the lists `known`, which may be null, and `new`."""
    return f"array_sort(array_distinct(concat(coalesce({known}, {_NONE}), {new})))"


def handled(inbox: DataFrame, neighbour: DataFrame) -> DataFrame:
    """Returns the due messages of `inbox`, each with the ``relationship`` of its sender to its receiver."""
    came = received(inbox, *PAYLOAD.names).hint("shuffle_hash")
    near = neighbour.selectExpr("run_id", "node_id", "neighbour as sender", "relationship")
    return near.join(came, [*NODE, "sender"])


def branches(subscriber: DataFrame, neighbour: DataFrame, topics: DataFrame) -> DataFrame:
    """Returns the neighbours of brokers in the sub-trees of topics: columns `TOPIC`, ``neighbour, relationship``.

    `topics` has the pairs of broker and topic (columns `TOPIC`).
    """
    inside = subscriber.selectExpr(*TOPIC, "neighbour").join(topics.distinct().hint("shuffle_hash"), TOPIC)
    return neighbour.selectExpr(*NODE, "neighbour", "relationship").join(
        inside.hint("shuffle_hash"), [*NODE, "neighbour"]
    ).selectExpr(*TOPIC, "neighbour", "relationship")  # fmt: skip


_MESSAGE = TURN[TURN.index("source") : TURN.index("covered") + 1]
"""The columns of a turn that describe its message."""


def brought(message: DataFrame) -> DataFrame:
    """Returns the Metadata messages in `message` that clients sent to their edge brokers."""
    return message.where("kind = 'Metadata' and relationship = 'client'")


def due_rows(message: DataFrame, lock: DataFrame, pending: DataFrame) -> DataFrame:
    """Returns the messages about which brokers decide: columns `TURN` except ``rank``, and ``is_ready``.

    Column ``what`` is the reason of the decision: ``came``, ``locked``, ``ready`` or ``processed``
    (`udfs.ginger.turns.turns`). Frame `pending` also has ``round``.
    """
    below = message.selectExpr("*", "'below' as came_from", "false as is_ready")
    came = brought(below).selectExpr("*", "'came' as what")
    locked = lock.selectExpr("*", "'locked' as what")
    ready = pending.where("ready_trigger is not null").selectExpr(
        "*", f"{_NOBODY} as sender", "ready_trigger as trigger", "'ready' as what", "true as is_ready"
    )
    processed = below.where("kind = 'TotalProcessed'").selectExpr("*", "'processed' as what")
    columns = [name for name in TURN if name != "rank"]
    return union([one.selectExpr(*columns, "is_ready") for one in (came, locked, ready, processed)])


def decided(due: DataFrame, queue: DataFrame, pending: DataFrame, summary: DataFrame) -> DataFrame:
    """Returns the decisions at each broker and topic of `due`, which is the result of `due_rows` (columns `TURN`).

    A decision depends on earlier decisions through chains of shared key items, so an Arrow function decides message by
    message.
    """
    about = ", ".join(_MESSAGE)
    own = due.groupBy(TOPIC).agg(
        F.expr("max(round) as round"), F.expr(f"collect_list(struct(trigger, what, is_ready, {about})) as due")
    )
    topics = own.selectExpr(*TOPIC).hint("shuffle_hash")
    waiting = queue.selectExpr("*", "client as sender", "'below' as came_from", f"{_NONE} as covered")
    locked = pending.selectExpr("*", f"{_NOBODY} as sender", "was_ready as is_ready", "sent is not null as is_sent")
    whole = own.join(summary.hint("shuffle_hash"), TOPIC)
    for name, rows, state in (("queue", waiting, "arrival"), ("pending", locked, "arrival, is_ready, is_sent")):
        lists = rows.join(topics, TOPIC).groupBy(TOPIC).agg(F.expr(f"collect_list(struct({state}, {about})) as {name}"))
        whole = whole.join(lists.hint("shuffle_hash"), TOPIC, "left")
    return mapped(whole, whole.columns, turns, DECIDED)


def broker_turns(message: DataFrame, lock: DataFrame) -> DataFrame:
    """Returns the turns of messages from brokers (columns `TURN`).

    An eventual or causal message has a turn ``passed``. A total-order message has a turn ``locked`` (rule G1). A
    TotalProcessed message causes a turn ``processed`` of the total-order message that it names.
    """
    named = message.selectExpr("*", "'below' as came_from", "cast(0 as bigint) as rank")
    passed = named.where(f"kind = 'Metadata' and guarantee <> 'total' and {FROM_BROKER}")
    found = {"passed": passed, "locked": lock, "processed": named.where("kind = 'TotalProcessed'")}
    return union([rows.selectExpr("*", f"'{what}' as what").selectExpr(*TURN) for what, rows in found.items()])


_SUBSCRIPTION = [*NODE, "subscription_id"]


def flooded(subscribe: DataFrame, neighbour: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns the Subscribe messages that brokers forward, to all neighbouring brokers except the sender.

    `setting` has ``max_hops`` of each run, the maximum number of hops in a path.
    """
    brokers = neighbour.where(FROM_BROKER).selectExpr(*NODE, "neighbour", "relationship as towards")
    onward = brokers.join(subscribe.hint("shuffle_hash"), NODE).where("neighbour <> sender")
    direction = "array(case towards when 'child' then 'down' else 'up' end)"
    return outbox(
        onward.join(setting.selectExpr("run_id", "max_hops"), "run_id"), PAYLOAD, trigger="trigger",
        kind="'Subscribe'", src="node_id", dst="neighbour", sent_round="round", source="source",
        source_seq="source_seq", topic="topic", subscription_id="subscription_id", edge="coalesce(edge, node_id)",
        directions=f"slice(concat({direction}, directions), 1, cast(max_hops as int))",
        way="concat(way, array(node_id))",
    )  # fmt: skip


def new_subscribe(subscribe: DataFrame, neighbour: DataFrame) -> DataFrame:
    """Returns the new rows of table subscribe, with ``trigger`` and ``round`` of the received Subscribe."""
    degree = neighbour.where(FROM_BROKER).groupBy(NODE).agg(F.expr("count(neighbour) as degree"))
    from_broker = f"case when {FROM_BROKER} then 1 else 0 end"
    return subscribe.join(degree.hint("shuffle_hash"), NODE, "left").selectExpr(
        *_SUBSCRIPTION, "topic", "source", "source_seq", "coalesce(edge, node_id) as edge", "sender as next_hop",
        f"coalesce(degree, 0) - {from_broker} as n_waiting", "trigger", "round",
    )  # fmt: skip


def answered(subscribed: DataFrame, table: DataFrame) -> DataFrame:
    """Returns the rows of table subscribe that Subscribed messages change, with their new values.

    ``trigger`` and ``round`` are those of the last Subscribed for the row. `table` is table subscribe at the start of
    the round.
    """
    came = subscribed.groupBy(_SUBSCRIPTION).agg(
        F.expr("count(sender) as n_came"), F.expr("max(trigger) as trigger"), F.expr("max(round) as round")
    )
    return table.join(came.hint("shuffle_hash"), _SUBSCRIPTION).selectExpr(
        *_SUBSCRIPTION, "topic", "source", "source_seq", "edge", "next_hop", "n_waiting - n_came as n_waiting",
        "trigger", "round",
    )  # fmt: skip


def answers(changed: DataFrame) -> DataFrame:
    """Returns the Subscribed messages that brokers send.

    A broker answers a Subscribe when all its neighbours except the sender have answered. `changed` has the rows of
    `new_subscribe` and `answered`.
    """
    return outbox(
        changed.where("n_waiting = 0"), PAYLOAD, trigger="trigger", rank="1", kind="'Subscribed'", src="node_id",
        dst="next_hop", sent_round="round", source="source", source_seq="source_seq",
        subscription_id="subscription_id",
    )  # fmt: skip


def ways(subscribe: DataFrame, member: DataFrame) -> DataFrame:
    """Returns the paths from brokers to edge brokers of new subscribers: `TOPIC`, ``source, way, n_shared, approach``.

    ``way`` is the path from the broker to the edge broker of subscriber ``source``. ``approach`` is the path from the
    broker to the nearest broker of the topic's sub-tree before the round; null if the broker does not know the topic.
    All these paths of a broker and topic share their first ``n_shared`` brokers.
    """
    own = subscribe.selectExpr(*TOPIC, "source", "trigger", "concat(array(node_id), reverse(way)) as way")
    first = row_number("subscriptions at a broker", ", ".join(TOPIC), "trigger")
    own = own.selectExpr("*", f"{first} as number")
    known = member.selectExpr(*TOPIC, "approach").join(own.selectExpr(*TOPIC).distinct().hint("shuffle_hash"), TOPIC)
    led = own.join(known.hint("shuffle_hash"), TOPIC, "left")
    led = led.join(own.where("number = 1").selectExpr(*TOPIC, "way as first_way").hint("shuffle_hash"), TOPIC)
    led = led.selectExpr(*TOPIC, "source", "way", "approach", "coalesce(approach, first_way) as leading")
    same = "size(filter(sequence(1, least(size(way), size(leading))), i -> slice(way, 1, i) = slice(leading, 1, i)))"
    common = led.selectExpr(*TOPIC, f"{same} as n_common").groupBy(TOPIC).agg(F.expr("min(n_common) as n_shared"))
    return led.join(common.hint("shuffle_hash"), TOPIC).selectExpr(*TOPIC, "source", "way", "n_shared", "approach")


def new_members(way: DataFrame, member: DataFrame) -> DataFrame:
    """Returns the rows of table member that Subscribe messages change or add.

    A Subscribe adds the subscriber, and the brokers on the paths between edge brokers, to ``members``.
    """
    inside = "slice(way, n_shared, size(way))"
    before = f"coalesce(slice(approach, n_shared, size(approach)), {_NONE})"
    found = way.selectExpr(
        *TOPIC,
        "source",
        f"concat(array(source), {inside}, {before}) as part",
        "slice(coalesce(approach, way), 1, n_shared) as top",
    )
    grown = found.groupBy(TOPIC).agg(
        F.expr("flatten(collect_list(part)) as part"), F.expr("collect_list(source) as sources"),
        F.expr("get(collect_list(top), 0) as approach"),
    )  # fmt: skip
    known = member.selectExpr(*TOPIC, "members", "clients").hint("shuffle_hash")
    return grown.join(known, TOPIC, "left").selectExpr(
        *TOPIC, f"{_grown('members', 'part')} as members", "approach", f"{_grown('clients', 'sources')} as clients"
    )


def new_subscribers(subscribe: DataFrame, way: DataFrame) -> DataFrame:
    """Returns the rows of table subscriber that follow from Subscribe messages, including rows that exist already."""
    client = subscribe.where("relationship = 'client'").selectExpr(
        *TOPIC, "sender as neighbour", "'client' as relationship"
    )
    # A broker is in the sub-tree if it is the last broker that all paths share: the paths separate or end there.
    inside = way.where("n_shared = 1")
    hops = union([inside.selectExpr(*TOPIC, f"get({name}, 1) as neighbour") for name in ("way", "approach")])
    broker = hops.where("neighbour is not null").selectExpr(*TOPIC, "neighbour", "'broker' as relationship")
    return union([client, broker]).distinct()


def replaced(table: DataFrame, changed: DataFrame, key: list[str]) -> DataFrame:
    """Returns `table` with the rows of `changed` added, in place of rows with equal values in columns `key`."""
    kept = table.join(changed.selectExpr(*key).hint("shuffle_hash"), key, "left_anti")
    return kept.unionByName(changed.selectExpr(*table.columns))


def branch_summaries(branch: DataFrame) -> DataFrame:
    """Returns one row per broker and topic: `TOPIC`, ``n_children``, ``is_root`` (rule G2) and the list ``clients``."""
    return branch.groupBy(TOPIC).agg(
        F.expr("count_if(relationship = 'child') as n_children"),
        F.expr("count_if(relationship = 'parent') = 0 as is_root"),
        F.expr("collect_list(case when relationship = 'client' then neighbour end) as clients"),
    )


def broker_locks(message: DataFrame, summary: DataFrame) -> DataFrame:
    """Returns the new locks for total-order messages that arrive from brokers.

    The columns are the columns of table pending except ``arrival`` and ``sent``, and ``sender, trigger, rank, round,
    is_ready``. ``is_ready`` states that all children in the sub-tree have acknowledged the message.
    """
    came = message.where(f"kind = 'Metadata' and guarantee = 'total' and {FROM_BROKER}").hint("shuffle_hash")
    acked = f"case relationship when 'child' then array(sender) else {_NONE} end as acked"
    came = came.selectExpr(
        *ABOUT, "case relationship when 'parent' then 'above' else 'below' end as came_from", "hops",
        "covered as told", acked, "sender", "trigger", "round",
    )  # fmt: skip
    return summary.join(came, TOPIC).selectExpr(
        *ABOUT, "came_from", "hops", f"{_grown('told', 'concat(array(node_id), clients)')} as covered", "acked",
        "sender", "trigger", "round",
        "size(acked) >= n_children as is_ready", "cast(0 as bigint) as rank",
    )  # fmt: skip


def acknowledged(pending: DataFrame, ack: DataFrame, summary: DataFrame) -> DataFrame:
    """Returns the rows of `pending` after the TotalAck messages of a round, with two more columns.

    ``was_ready`` states that all children had acknowledged the message before the round. ``ready_trigger`` is the id of
    the TotalAck of the last child if it arrives in this round, else null. `pending` has only brokers and topics with
    due messages.
    """
    number = row_number("acknowledgements of a message", ", ".join(ID), "trigger")
    numbered = ack.selectExpr(*ID, "sender", "covered as told", "trigger as ack_trigger", f"{number} as number")
    wanted = pending.join(summary.selectExpr(*TOPIC, "n_children").hint("shuffle_hash"), TOPIC)
    wanted = wanted.selectExpr("*", "n_children - size(acked) as n_missing")
    of = numbered.join(wanted.selectExpr(*ID, "n_missing").hint("shuffle_hash"), ID).groupBy(ID).agg(
        F.expr("collect_list(sender) as senders"), F.expr("flatten(collect_list(told)) as told"),
        F.expr("max(case when number = n_missing then ack_trigger end) as ready_trigger"),
    )  # fmt: skip
    return wanted.join(of.hint("shuffle_hash"), ID, "left").selectExpr(
        *ABOUT, "arrival", "came_from", "hops",
        f"{_grown('told', 'covered')} as covered", f"{_grown('senders', 'acked')} as acked", "sent",
        "n_missing <= 0 as was_ready", "ready_trigger",
    )  # fmt: skip


def arrivals(taken: list[DataFrame]) -> DataFrame:
    """Numbers the new rows of tables entry_queue and pending in the order of arrival at each broker.

    Args:
        taken: The new rows of each table: `ID`, ``trigger, rank, round``.

    Returns:
        `ID`, ``rank`` and the number ``arrival``.
    """
    rows = union([one.selectExpr(*ID, "trigger", "rank", "round") for one in taken])
    number = row_number("arrivals at a broker", ", ".join(NODE), "trigger, rank")
    return rows.selectExpr(*ID, "rank", f"round * {POSITIONS} + {number} as arrival")


_GOES = """case what
    when 'passed' then relationship = 'client' or neighbour <> sender
    when 'locked' then relationship = 'child' and neighbour <> sender
    when 'sent' then relationship = 'parent'
    else relationship = 'client' or sender is null or neighbour <> sender end"""
"""SQL condition: the message of a turn is sent to this neighbour in the sub-tree."""
_KIND = """case
    when what = 'processed' and relationship <> 'client' then 'TotalProcessed'
    when what = 'sent' and came_from = 'above' then 'TotalAck'
    else 'Metadata' end"""


def sent_onward(turn: DataFrame, branch: DataFrame) -> DataFrame:
    """Returns the messages that brokers send at turns (section 3.5).

    At a turn ``passed`` the broker sends the message to all neighbours in the sub-tree except the sender. At a turn
    ``locked`` it sends the message to the children except the sender, and at a turn ``sent`` to the parent. At a turn
    ``processed`` it sends Metadata to clients, and TotalProcessed to brokers.
    """
    to = branch.join(turn.hint("shuffle_hash"), TOPIC).where(_GOES)
    return outbox(
        to, PAYLOAD, trigger="trigger", kind=_KIND, src="node_id", dst="neighbour", sent_round="round",
        rank="2 * rank + case when what = 'processed' and relationship <> 'client' then 1 else 0 end",
        source="source", source_seq="source_seq", topic="topic", guarantee="guarantee", keys="keys",
        issued_round="issued_round", hops="hops + 1", covered="case what when 'sent' then covered else array() end",
    )  # fmt: skip
