"""What nodes keep between rounds, as one relation: rounds cost by the relation, not by the row.

Relation ``part`` has the form in which `udfs.ginger` reads and leaves the state of a node. For SQL over a store it is
shown as the tables that it stands for, which nobody reads while the runs go on.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.round import Derived, State
from pipelines.protocols.ginger.tables import (
    AWAIT,
    CLIENT_TOPIC,
    CONTACT,
    DELIVERED,
    DISCARDED,
    ENTRY_QUEUE,
    EXCEPTION,
    FAILED,
    GAP,
    HOLD,
    LOCKED,
    MEMBER,
    METADATA_BUFFER,
    NEIGHBOUR,
    PARKED,
    PART,
    PENDING,
    REPAIR_MEMORY,
    SUBSCRIBE,
    SUBSCRIBER,
    TREE_VIEW,
)
from pipelines.protocols.ginger.waits import CLIENT_WAITS, ENTRY_QUEUE_WAITS, GAP_WAITS, HOLD_WAITS, PENDING_WAITS
from pipelines.tables import Table
from udfs.ginger.items import FIELDS

_NODE = ["run_id", "node_id"]
_TYPES = {"string": "string", "int64": "bigint"}
_SHOWN = (
    NEIGHBOUR, SUBSCRIBER, TREE_VIEW, CLIENT_TOPIC, MEMBER, HOLD, AWAIT, FAILED, REPAIR_MEMORY, PENDING, ENTRY_QUEUE,
    DISCARDED, PARKED, GAP, EXCEPTION,
)  # fmt: skip
_WAITS = {
    "repair": CLIENT_WAITS, "entry_queue": ENTRY_QUEUE_WAITS, "hold": HOLD_WAITS, "pending": PENDING_WAITS,
    "gap": GAP_WAITS,
}  # fmt: skip
_NAMES = {
    "arrival": "position as arrival", "came_from": "kind as came_from", "client": "peer as client",
    "neighbour": "peer as neighbour", "relationship": "kind as relationship", "n_up": "hops as n_up",
    "n_down": "issued_round as n_down", "sender": "peer as sender",
    "partner": "peer as partner", "failed": "peer as failed", "memory": "details as memory",
    "role": "kind as role", "usage": "kind as usage", "members": "covered as members",
    "ids": "details as ids", "body": "details as body", "status": "kind as status", "lacking": "peer as lacking",
}  # fmt: skip
"""What columns of tables are called in parts."""


def sql_type(kind: object) -> str:
    """Returns the SQL type of an Arrow type of `FIELDS`."""
    text = str(kind)
    return f"array<{_TYPES[text[text.index(': ') + 2 : -1]]}>" if text.startswith("list") else _TYPES[text]


def parts(rows: DataFrame, relation: str, position: str, *others: str, **columns: str) -> DataFrame:
    """Returns rows as parts.

    Args:
        rows: ``run_id, node_id`` and what the expressions read.
        relation: Name of the relation.
        position: SQL.
        others: SQL of more columns.
        columns: SQL by column; the others are null.
    """
    given = {"relation": f"'{relation}'", "position": position, **columns}
    fields = [f"cast({given.get(name, 'null')} as {sql_type(kind)}) as {name}" for name, kind in FIELDS]
    return rows.selectExpr(*_NODE, *fields, *others)


def shown(table: Table, part: DataFrame) -> DataFrame:
    """Returns the parts of a relation as its table."""
    return part.where(f"relation = '{table.name}'").selectExpr(*(_NAMES.get(name, name) for name in table.columns))


def _locked(part: DataFrame) -> DataFrame:
    return shown(PENDING, part).selectExpr(*_NODE, "topic", "source", "source_seq", "explode(keys) as key_item")


def neighbour_parts(neighbour: DataFrame) -> DataFrame:
    """Returns rows of table ``neighbour`` as parts."""
    return parts(
        neighbour, "neighbour", "neighbour", kind="relationship", peer="neighbour", latency_rounds="latency_rounds"
    )  # fmt: skip


def tree_view_parts(tree_view: DataFrame) -> DataFrame:
    """Returns rows of table ``tree_view`` as parts."""
    columns = {
        "kind": "relationship",
        "peer": "peer",
        "hops": "n_up",
        "issued_round": "n_down",
        "latency_rounds": "latency_rounds",
    }
    return parts(tree_view, "tree_view", "peer", **columns)


def client_topic_parts(client_topic: DataFrame) -> DataFrame:
    """Returns rows of table ``client_topic`` as parts."""
    return parts(client_topic, "client_topic", "0", kind="usage", topic="topic")


def subscriber_parts(subscriber: DataFrame) -> DataFrame:
    """Returns rows of table ``subscriber`` as parts."""
    return parts(subscriber, "subscriber", "neighbour", kind="relationship", peer="neighbour", topic="topic")


def member_parts(member: DataFrame) -> DataFrame:
    """Returns rows of table ``member`` as parts."""
    return parts(member, "member", "0", topic="topic", covered="members")


def _grown(rows: DataFrame) -> DataFrame:
    return rows


def _bounded(rows: DataFrame) -> DataFrame:
    """Drops evicted events.

    A ``left`` row holds the last evicted position of a topic; for the client's own messages a ``collected`` row does.
    """
    key = [*_NODE, "topic"]
    marks = rows.where("event in ('left', 'collected')").groupBy(key)
    last = "max(case when event = '{0}' then position end) as last_{0}"
    mark = marks.agg(F.expr(last.format("left")), F.expr(last.format("collected")))
    inside = rows.join(mark.hint("shuffle_hash"), key, "left")
    gone = (
        "position <= case event when 'published' then last_collected when 'collected' then position else last_left end"
    )
    return inside.where(f"not coalesce({gone}, false)").select(METADATA_BUFFER.columns)


STATES = (
    State(PART),
    State(SUBSCRIBE),
    State(CONTACT, facts={"n_joining": "count_if(is_joining)"}, is_durable=True),
    State(METADATA_BUFFER, compact=_bounded),
    State(DELIVERED, compact=_grown),
    *(
        State(table, derived=Derived(PART.name, partial(shown, table)), waits=_WAITS.get(table.name))
        for table in _SHOWN
    ),
    State(LOCKED, derived=Derived(PART.name, _locked)),
)
"""All relations; buffers and deliveries come in increments."""
