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
from pipelines.protocols.ginger.tables import ENTRY_QUEUE, PENDING
from udfs.ginger.items import FIELDS, OUT
from udfs.ginger.nodes import handle_nodes

_NODE = ["run_id", "node_id"]
_TYPES = {"string": "string", "int64": "bigint"}
APPLICATION = frozenset({"Metadata", "TotalAck", "TotalProcessed", "publish"})
"""Kinds of messages and calls that nodes handle one by one."""


def _sql_type(kind: object) -> str:
    text = str(kind)
    return f"array<{_TYPES[text[text.index(': ') + 2 : -1]]}>" if text.startswith("list") else _TYPES[text]


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
    message = inbox.where("kind in ('Metadata', 'TotalAck', 'TotalProcessed')").withColumnRenamed("dst", "node_id")
    return _items(
        message,
        "inbox",
        "message_id",
        "due_round",
        kind="kind",
        other="src",
        hops="hops",
        covered="covered",
        **_MESSAGE,
    )


def call_items(calls: DataFrame) -> DataFrame:
    """Publications that clients issue as items."""
    published = calls.where("kind = 'publish'")
    message = {**_MESSAGE, "source": "node_id", "keys": "array_sort(keys)", "issued_round": "round"}
    return _items(published, "inbox", CALL_TRIGGER, "round", kind="kind", **message)


def state_items(state: Mapping[str, DataFrame], touched: DataFrame, facts: Mapping[str, int]) -> list[DataFrame]:
    """The state of nodes that have something to handle, as items."""
    rows = {
        name: state[name].join(touched.hint("shuffle_hash"), _NODE, "left_semi")
        for name in ("neighbour", "subscriber", "pending", "entry_queue")
    }
    items = [
        _items(rows["neighbour"], "neighbour", "neighbour", kind="relationship", other="neighbour"),
        _items(
            rows["subscriber"], "subscriber", "neighbour", kind="relationship", other="neighbour", topic="topic"
        ),
    ]  # fmt: skip
    if facts.get("n_pending"):
        own = {name: name for name in ("hops", "covered", "acked", "sent")}
        items.append(_items(rows["pending"], "pending", "arrival", kind="came_from", **own, **_MESSAGE))
    if facts.get("n_queued"):
        own = {"other": "client", "hops": "hops"}
        items.append(_items(rows["entry_queue"], "entry_queue", "arrival", **own, **_MESSAGE))
    return items


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
        "round as sent_round", "source", "source_seq", "topic", "guarantee", "keys", "covered", "hops", "issued_round",
    )  # fmt: skip


def deliveries(rows: DataFrame) -> DataFrame:
    """The deliveries at clients."""
    return rows.where("relation = 'delivered'").selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "hops",
    )  # fmt: skip


def _kept(
    rows: DataFrame, relation: str, before: DataFrame | None, touched: DataFrame, columns: list[str]
) -> DataFrame:
    """Gives a relation as it is now: rows of nodes that handled something are new, the others stay."""
    names = {"arrival": "place as arrival", "came_from": "kind as came_from", "client": "other as client"}
    now = rows.where(f"relation = '{relation}'").selectExpr(*(names.get(name, name) for name in columns))
    if before is None:
        return now
    return before.join(touched.hint("shuffle_hash"), _NODE, "left_anti").select(columns).unionByName(now)


def queues(
    rows: DataFrame, state: Mapping[str, DataFrame], touched: DataFrame, facts: Mapping[str, int]
) -> dict[str, DataFrame]:  # fmt: skip
    """The entry queues, the pending messages, and the keys that these lock."""
    pending = _kept(
        rows, "pending", state["pending"] if facts.get("n_pending") else None, touched, PENDING.columns
    )  # fmt: skip
    queue = state["entry_queue"] if facts.get("n_queued") else None
    return {
        "pending": pending,
        "entry_queue": _kept(rows, "entry_queue", queue, touched, ENTRY_QUEUE.columns),
        "locked": pending.selectExpr(
            *_NODE, "topic", "source", "source_seq", "explode(keys) as key_item"
        ),
    }  # fmt: skip


def increments(rows: DataFrame) -> dict[str, DataFrame]:
    """What only grows: the buffers of brokers, and the deliveries of clients in order."""
    message = ("topic", "source", "source_seq")
    return {
        "metadata_buffer": rows.where("relation = 'history'").selectExpr(*_NODE, "place", "kind as event", *message),
        "delivered": rows.where("relation = 'delivered'").selectExpr(*_NODE, "place", *message),
    }
