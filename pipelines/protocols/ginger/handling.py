"""The messages of a round at the nodes that get any: rows for the Arrow function, and what comes back.

What a broker does with one message depends on what it did with those before, so a round is no join: every node that has
something to handle is one row with its state and its inbox, `udfs.ginger` works through it in order, and the rows that
come back are relations again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, functions as F

from pipelines.contract import CALL_TRIGGER
from pipelines.protocols.ginger.tables import (
    APPLICATION,
    AWAIT,
    ENTRY_QUEUE,
    FAILED,
    HOLD,
    NEIGHBOUR,
    PENDING,
    REPAIR,
    REPAIR_MEMORY,
    SUBSCRIBER,
    TREE_VIEW,
)
from pipelines.tables import Table
from udfs.ginger.items import FIELDS, OUT
from udfs.ginger.nodes import handle_nodes

_NODE = ["run_id", "node_id"]
_TYPES = {"string": "string", "int64": "bigint"}
_REPAIRED = (NEIGHBOUR, SUBSCRIBER, TREE_VIEW, HOLD, AWAIT, FAILED, REPAIR_MEMORY)
"""Relations that change only where nodes may crash."""


def _sql_type(kind: object) -> str:
    text = str(kind)
    return f"array<{_TYPES[text[text.index(': ') + 2 : -1]]}>" if text.startswith("list") else _TYPES[text]


_MODE = """to_json(named_struct('total_degree', total_degree, 'max_hops', max_hops, 'timer', timer_rounds))"""
_KINDS = {name: _sql_type(kind) for name, kind in FIELDS}
_SCHEMA = ", ".join(f"{name} {_sql_type(kind)}" for name, kind in zip(OUT.names, OUT.types, strict=True))
_MESSAGE = {name: name for name in ("topic", "source", "source_seq", "guarantee", "keys", "issued_round")}


def _items(rows: DataFrame, relation: str, place: str, round_: str = "null", **columns: str) -> DataFrame:
    """Gives rows as items: ``run_id, node_id, round`` and one struct."""
    given = {"relation": f"'{relation}'", "place": place, **columns}
    fields = ", ".join(f"cast({given.get(name, 'null')} as {kind}) as {name}" for name, kind in _KINDS.items())
    return rows.selectExpr(*_NODE, f"cast({round_} as bigint) as round", f"struct({fields}) as item")


def inbox_items(inbox: DataFrame) -> DataFrame:
    """Due messages as items."""
    message = inbox.where(f"kind in {(*APPLICATION, *REPAIR)}").withColumnRenamed("dst", "node_id")
    own = {name: name for name in ("kind", "hops", "covered", "details")}
    return _items(
        message, "inbox", "message_id", "due_round", other="src", wait="due_round - sent_round", **own, **_MESSAGE
    )


def call_items(calls: DataFrame) -> DataFrame:
    """Publications that clients issue as items."""
    published = calls.where("kind = 'publish'")
    message = {**_MESSAGE, "source": "node_id", "keys": "array_sort(keys)", "issued_round": "round"}
    return _items(published, "inbox", CALL_TRIGGER, "round", kind="kind", **message)


def _near(state: Mapping[str, DataFrame], touched: DataFrame) -> dict[str, DataFrame]:
    return {name: rows.join(touched.hint("shuffle_hash"), _NODE, "left_semi") for name, rows in state.items()}


def state_items(state: Mapping[str, DataFrame], touched: DataFrame, facts: Mapping[str, int]) -> list[DataFrame]:
    """The state of nodes that have something to handle, as items."""
    rows = _near(state, touched)
    subscriber = {"kind": "relationship", "other": "neighbour", "topic": "topic"}
    items = [
        _items(
            rows["neighbour"], "neighbour", "neighbour", kind="relationship", other="neighbour", wait="latency_rounds"
        ),
        _items(rows["subscriber"], "subscriber", "neighbour", **subscriber),
    ]
    if facts.get("n_pending"):
        own = {name: name for name in ("hops", "covered", "acked", "sent")}
        items.append(_items(rows["pending"], "pending", "arrival", kind="came_from", **own, **_MESSAGE))
    if facts.get("n_queued"):
        own = {"other": "client", "hops": "hops"}
        items.append(_items(rows["entry_queue"], "entry_queue", "arrival", **own, **_MESSAGE))
    return items


def repair_items(state: Mapping[str, DataFrame], touched: DataFrame, setting: DataFrame) -> list[DataFrame]:
    """What nodes know that is needed where nodes may crash, and the settings for it, as items."""
    rows = _near(state, touched)
    mode = touched.join(setting, "run_id").withColumn("mode", F.expr(_MODE))
    hold = {name: name for name in ("kind", "hops", "covered", "details")}
    view = {"kind": "relationship", "other": "other", "hops": "up", "issued_round": "down", "wait": "latency_rounds"}
    return [
        _items(mode, "mode", "0", details="mode"),
        _items(rows["tree_view"], "tree_view", "other", **view),
        _items(rows["client_topic"], "client_topic", "0", kind="usage", topic="topic"),
        _items(rows["member"], "member", "0", topic="topic", covered="members"),
        _items(rows["hold"], "hold", "place", other="sender", **hold, **_MESSAGE),
        _items(rows["await"], "await", "partner", other="partner"),
        _items(rows["failed"], "failed", "failed", other="failed"),
        _items(rows["repair"], "repair", "0", details="memory"),
        _items(rows["metadata_buffer"], "history", "place", kind="event", hops="hops", **_MESSAGE),
    ]


def handled(items: list[DataFrame]) -> DataFrame:
    """Lets every node work through its items: rows of `udfs.ginger.items.OUT`."""
    node = (
        reduce(DataFrame.unionByName, items)
        .groupBy(_NODE)
        .agg(F.expr("max(round) as round"), F.expr("array_sort(collect_list(item)) as items"))
    )
    return node.mapInArrow(handle_nodes, _SCHEMA)


def sent(rows: DataFrame) -> DataFrame:
    """The outbox."""
    return rows.where("relation = 'out'").selectExpr(
        "run_id", "place as trigger", "cast(0 as bigint) as rank", "kind", "node_id as src", "other as dst",
        "round as sent_round", "source", "source_seq", "topic", "guarantee", "keys", "covered", "hops",
        "issued_round", "details", "wait as latency_rounds",
    )  # fmt: skip


def deliveries(rows: DataFrame) -> DataFrame:
    """The deliveries at clients."""
    return rows.where("relation = 'delivered'").selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "hops",
    )  # fmt: skip


_NAMES = {
    "arrival": "place as arrival", "came_from": "kind as came_from", "client": "other as client",
    "neighbour": "other as neighbour", "relationship": "kind as relationship", "up": "hops as up",
    "down": "issued_round as down", "latency_rounds": "wait as latency_rounds", "sender": "other as sender",
    "partner": "other as partner", "failed": "other as failed", "memory": "details as memory",
    "event": "kind as event",
}  # fmt: skip
"""What columns of relations are called in items."""


def _kept(rows: DataFrame, table: Table, before: DataFrame | None, touched: DataFrame) -> DataFrame:
    """Gives a relation as it is now: rows of nodes that handled something are new, the others stay."""
    now = rows.where(f"relation = '{table.name}'").selectExpr(*(_NAMES.get(name, name) for name in table.columns))
    if before is None:
        return now
    return before.join(touched.hint("shuffle_hash"), _NODE, "left_anti").select(table.columns).unionByName(now)


def queues(
    rows: DataFrame, state: Mapping[str, DataFrame], touched: DataFrame, facts: Mapping[str, int]
) -> dict[str, DataFrame]:
    """The entry queues, the pending messages, and the keys that these lock."""
    pending = _kept(rows, PENDING, state["pending"] if facts.get("n_pending") else None, touched)
    locked = pending.selectExpr(*_NODE, "topic", "source", "source_seq", "explode(keys) as key_item")
    queue = state["entry_queue"] if facts.get("n_queued") else None
    return {"pending": pending, "entry_queue": _kept(rows, ENTRY_QUEUE, queue, touched), "locked": locked}


def repaired(rows: DataFrame, state: Mapping[str, DataFrame], touched: DataFrame) -> dict[str, DataFrame]:
    """What nodes know of the tree and of repairs."""
    return {table.name: _kept(rows, table, state[table.name], touched) for table in _REPAIRED}


def increments(rows: DataFrame) -> dict[str, DataFrame]:
    """What only grows: the buffers of brokers, and the deliveries of clients in order."""
    message = ("topic", "source", "source_seq")
    event = (*message, "guarantee", "keys", "issued_round", "hops")
    return {
        "metadata_buffer": rows.where("relation = 'history'").selectExpr(*_NODE, "place", "kind as event", *event),
        "delivered": rows.where("relation = 'delivered'").selectExpr(*_NODE, "place", *message),
    }


def statuses(rows: DataFrame) -> DataFrame:
    """Nodes that nobody takes in."""
    return rows.where("relation = 'status'").selectExpr(*_NODE, "round", "kind as status")


def detections(crashed: DataFrame, neighbour: DataFrame, setting: DataFrame) -> DataFrame:
    """Neighbours of crashed nodes hear of it when all that these sent has come, and a delay after: the outbox."""
    down = crashed.selectExpr("run_id", "node_id as neighbour", "round").hint("shuffle_hash")
    noticed = neighbour.join(down, ["run_id", "neighbour"]).join(setting.select("run_id", "detection_rounds"), "run_id")
    return noticed.selectExpr(
        "run_id", "neighbour as trigger", "cast(0 as bigint) as rank", "'NeighborDown' as kind", "node_id as src",
        "node_id as dst", "round as sent_round", "cast(null as bigint) as source", "cast(null as bigint) as source_seq",
        "cast(neighbour as string) as details", "latency_rounds + detection_rounds as latency_rounds",
    )  # fmt: skip
