"""Items: the one row form in which state, messages and outcomes of all nodes go through the Arrow function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from udfs.ginger.queue import Message

LONGS = pa.list_(pa.int64())
FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("relation", pa.string()),
    ("position", pa.int64()),
    ("kind", pa.string()),
    ("peer", pa.int64()),
    ("topic", pa.string()),
    ("source", pa.int64()),
    ("source_seq", pa.int64()),
    ("guarantee", pa.string()),
    ("keys", pa.list_(pa.string())),
    ("issued_round", pa.int64()),
    ("hops", pa.int64()),
    ("covered", LONGS),
    ("acked", LONGS),
    ("sent", LONGS),
    ("latency_rounds", pa.int64()),
    ("details", pa.string()),
)
"""Columns of an item; what a column means depends on the relation, see `broker` and `client`."""
NAMES = tuple(name for name, _ in FIELDS)
OUT = pa.schema([("run_id", pa.int64()), ("node_id", pa.int64()), ("round", pa.int64()), *FIELDS])


class Item(NamedTuple):
    """A row; fields in the order of `FIELDS`."""

    relation: str
    position: int
    kind: str | None = None
    peer: int | None = None
    topic: str | None = None
    source: int | None = None
    source_seq: int | None = None
    guarantee: str | None = None
    keys: Any = None
    issued_round: int | None = None
    hops: int | None = None
    covered: Any = None
    acked: Any = None
    sent: Any = None
    latency_rounds: int | None = None
    details: str | None = None

    @property
    def message(self) -> Message:
        """The client's message that it is about."""
        keys = tuple(self.keys or ())
        return Message(self.topic, self.source, self.source_seq, self.guarantee, keys, self.issued_round)  # type: ignore[arg-type]


def with_message(relation: str, position: int, message: Message | None, **others: Any) -> Item:  # noqa: ANN401
    """Makes an item, about a message if there is one."""
    if message is None:
        return Item(relation, position, **others)
    return Item(
        relation, position, topic=message.topic, source=message.source, source_seq=message.source_seq,
        guarantee=message.guarantee, keys=list(message.keys), issued_round=message.issued_round, **others,
    )  # fmt: skip


def node_rows(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, list[Item]]]:
    """Yields run, node, round and items of each row of a batch."""
    items = batch.column("items")
    values = items.values
    columns = [values.field(name).to_pylist() for name in NAMES]
    rows = [Item(*row) for row in zip(*columns, strict=True)]
    offsets = items.offsets.to_pylist()
    heads = zip(*(batch.column(name).to_pylist() for name in ("run_id", "node_id", "round")), strict=True)
    for position, (run, node, round_) in enumerate(heads):
        yield run, node, round_, rows[offsets[position] : offsets[position + 1]]
