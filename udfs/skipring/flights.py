"""The messages of a topic as the history has them: which were in flight at the end of a round.

A run has very many messages, and few rounds ask for them: they stay as columns until then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from udfs.nodes.world import Flight

MESSAGE = pa.struct([
    ("message_id", pa.int64()), ("kind", pa.string()), ("src", pa.int64()), ("dst", pa.int64()),
    ("sent_round", pa.int64()), ("due_round", pa.int64()), ("topic", pa.string()), ("body", pa.string()),
])  # fmt: skip
"""What the history has of a message; body is JSON."""


class Flights:
    """The messages of one topic, those without that met a node which was down."""

    def __init__(self, rows: pa.StructArray) -> None:
        """Takes the messages, ascending; fields of `MESSAGE`."""
        self._rows = rows
        self._sent = rows.field("sent_round")
        self._due = rows.field("due_round")

    def at(self, round_: int) -> list[Flight]:
        """Returns the messages in flight at the end of a round, ascending."""
        is_there = pc.and_(pc.less_equal(self._sent, round_), pc.greater(self._due, round_))
        return [_flight(row) for row in self._rows.filter(is_there).to_pylist()]


def flights_of(rows: pa.StructArray, down: Mapping[int, int]) -> Iterator[tuple[str, Flights]]:
    """Yields each topic with its messages.

    Args:
        rows: The messages of a run, ascending; fields of `MESSAGE`.
        down: The nodes that crash, and when.
    """
    for node, round_ in down.items():
        is_met = pc.and_(pc.equal(rows.field("dst"), node), pc.greater_equal(rows.field("due_round"), round_))
        rows = rows.filter(pc.invert(is_met))
    topic = rows.field("topic")
    for name in sorted(topic.unique().to_pylist()):
        yield name, Flights(rows.filter(pc.equal(topic, name)))


def _flight(row: Mapping[str, Any]) -> Flight:
    head = (row["message_id"], row["kind"], row["src"], row["dst"], row["sent_round"], row["due_round"])
    return Flight(*head, None, json.loads(row["body"]))
