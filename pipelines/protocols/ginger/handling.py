"""The messages of a round at the nodes that get any: rows for the Arrow function, and what comes back.

What a broker does with one message depends on what it did with those before, so a round is no join: every node that has
something to handle is one row with its state and its inbox, `udfs.ginger` works through it in order, and the rows that
come back are relations again.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.contract.round import CALL_TRIGGER
from pipelines.contract.rows import outbox
from pipelines.protocols.ginger.parts import parts
from pipelines.protocols.ginger.tables import APPLICATION, DELIVERED, METADATA_BUFFER, PART, PAYLOAD, REPAIR
from udfs.ginger.items import FIELDS, OUT
from udfs.ginger.nodes import handle_nodes

_NODE = ["run_id", "node_id"]
_MODE = """to_json(named_struct('total_degree', total_degree, 'max_hops', max_hops, 'timer', timer_rounds,
    'buffer_size', buffer_size, 'collect_every', collect_every))"""
_SCHEMA = from_arrow_schema(OUT)
_ITEM = f"struct({', '.join(name for name, _ in FIELDS)}) as item"
_MESSAGE = {name: name for name in ("topic", "source", "source_seq", "guarantee", "keys", "issued_round")}
_FIXED = "relation in ('client_topic', 'member')"
_FIXED_UNLESS_MENDED = "relation in ('client_topic', 'member', 'neighbour', 'subscriber', 'tree_view')"
_GONE = ("out", "delivered", "history", "connected", "status")
"""What comes back of a node and is no part of it."""


def inbox_items(inbox: DataFrame) -> DataFrame:
    """Due messages as parts, with their ``round``."""
    message = inbox.where(f"kind in {(*APPLICATION, *REPAIR)}").withColumnRenamed("dst", "node_id")
    own = {name: name for name in ("kind", "hops", "covered", "details")}
    latency = "due_round - sent_round"
    return parts(
        message, "inbox", "message_id", "due_round as round", peer="src", latency_rounds=latency, **own, **_MESSAGE
    )


def call_items(calls: DataFrame) -> DataFrame:
    """Publications that clients issue, in the same form."""
    published = calls.where("kind = 'publish'")
    message = {**_MESSAGE, "source": "node_id", "keys": "array_sort(keys)", "issued_round": "round"}
    return parts(published, "inbox", CALL_TRIGGER, "round", kind="kind", **message)


def join_items(contact: DataFrame, who: DataFrame, status: str) -> DataFrame:
    """Brokers that join or recover, with those that they may ask, the nearest first: before all else of the round.

    Args:
        contact: Table ``contact``.
        who: ``run_id, node_id, round``.
        status: What they are until they have a parent.
    """
    near = "array_sort(collect_list(struct(latency_rounds, contact))) as near"
    known = contact.join(who.hint("shuffle_hash"), _NODE).groupBy(*_NODE, "round").agg(F.expr(near))
    columns = {"covered": "transform(near, n -> n.contact)", "acked": "transform(near, n -> n.latency_rounds)"}
    return parts(known, "inbox", "-1", "round", kind="'Join'", details=f"'{status}'", **columns)


def joined(rows: DataFrame) -> DataFrame:
    """The join of a broker, its first call, is confirmed when it has a parent: call events."""
    operational = rows.where("relation = 'status' and kind = 'OPERATIONAL'")
    return operational.selectExpr(
        "run_id", "node_id as source", "cast(1 as bigint) as source_seq", "round", "'confirmed' as event"
    )


def known(part: DataFrame, touched: DataFrame) -> DataFrame:
    """The state of nodes that have something to handle; of their view of the tree only where they may need it."""
    near = part.join(touched.hint("shuffle_hash"), _NODE)
    return near.where("is_mended or relation not in ('tree_view', 'client_topic', 'member')")


def memory(buffer: DataFrame, touched: DataFrame, setting: DataFrame) -> list[DataFrame]:
    """What nodes need beside their parts where the tree may be mended: the settings, and what they have handled."""
    mode = touched.where("is_mended").join(setting, "run_id").withColumn("mode", F.expr(_MODE))
    near = buffer.join(touched.hint("shuffle_hash"), _NODE, "left_semi")
    return [
        parts(mode, "mode", "0", details="mode"),
        parts(near, "history", "position", kind="event", hops="hops", **_MESSAGE),
    ]


def handled_rows(due: DataFrame, state: list[DataFrame]) -> DataFrame:
    """Lets every node work through its inbox: rows of `udfs.ginger.items.OUT`.

    Args:
        due: What `inbox_items` and `call_items` give.
        state: Parts of these nodes.
    """
    items = [due.selectExpr(*_NODE, "round", _ITEM)]
    items += [rows.selectExpr(*_NODE, "cast(null as bigint) as round", _ITEM) for rows in state]
    node = (
        reduce(DataFrame.unionByName, items)
        .groupBy(_NODE)
        .agg(F.expr("max(round) as round"), F.expr("array_sort(collect_list(item)) as items"))
    )
    return node.mapInArrow(handle_nodes, _SCHEMA)


def parts_after(rows: DataFrame, part: DataFrame, touched: DataFrame) -> DataFrame:
    """Parts of nodes that handled something are new, but for what never changes; the others stay."""
    flagged = part.join(touched.hint("shuffle_hash"), _NODE, "left")
    fixed = f"case when is_mended then {_FIXED} else {_FIXED_UNLESS_MENDED} end"
    others = flagged.where(f"is_mended is null or {fixed}").select(PART.columns)
    return others.unionByName(rows.where(f"relation not in {_GONE}").select(PART.columns))


def sent(rows: DataFrame) -> DataFrame:
    """The outbox."""
    fields = ("topic", "guarantee", "keys", "covered", "hops", "issued_round", "details")
    return outbox(
        rows.where("relation = 'out'"), PAYLOAD, kind="kind", src="node_id", dst="peer", trigger="position",
        sent_round="round", source="source", source_seq="source_seq", latency_rounds="latency_rounds",
        **{name: name for name in fields},
    )  # fmt: skip


def deliveries(rows: DataFrame) -> DataFrame:
    """The deliveries at clients."""
    return rows.where("relation = 'delivered'").selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "hops",
    )  # fmt: skip


def delivered(rows: DataFrame) -> DataFrame:
    """The deliveries of clients in order: an increment of table ``delivered``."""
    return rows.where("relation = 'delivered'").select(DELIVERED.columns)


def buffered(rows: DataFrame) -> DataFrame:
    """What goes into buffers, and out of them: an increment of table ``metadata_buffer``."""
    history = rows.where("relation = 'history'").withColumnRenamed("kind", "event")
    return history.select(METADATA_BUFFER.columns)


def statuses(rows: DataFrame) -> DataFrame:
    """Nodes that nobody takes in, and those that recover or join."""
    return rows.where("relation = 'status'").selectExpr(*_NODE, "round", "kind as status")


def detections(crashed: DataFrame, neighbour: DataFrame, setting: DataFrame) -> DataFrame:
    """Neighbours of crashed nodes hear of it when all that these sent has come, and a delay after: the outbox."""
    down = crashed.selectExpr("run_id", "node_id as neighbour", "round").hint("shuffle_hash")
    return _news(neighbour.join(down, ["run_id", "neighbour"]), setting)


def failed_connections(rows: DataFrame, down: DataFrame, setting: DataFrame) -> DataFrame:
    """Who connects to a node that is down hears of it as its neighbours did: the outbox."""
    connected = rows.where("relation = 'connected'").selectExpr(*_NODE, "peer as neighbour", "latency_rounds", "round")
    gone = down.selectExpr("run_id", "node_id as neighbour").hint("shuffle_hash")
    return _news(connected.join(gone, ["run_id", "neighbour"]), setting)


def _news(noticed: DataFrame, setting: DataFrame) -> DataFrame:
    return outbox(
        noticed.join(setting.select("run_id", "detection_rounds"), "run_id"), PAYLOAD, kind="'NeighborDown'",
        src="node_id", dst="node_id", trigger="neighbour", sent_round="round", details="neighbour",
        latency_rounds="latency_rounds + detection_rounds",
    )  # fmt: skip
