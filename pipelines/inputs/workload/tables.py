"""The form in which one run's workload reaches the engine."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

SUBSCRIPTION = pa.schema(
    [("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()), ("predicate", pa.string())]
)
PUBLICATION = pa.schema([
    ("node_id", pa.int64()), ("round", pa.int64()), ("topic", pa.string()), ("content", pa.string()),
    ("guarantee", pa.string()), ("keys", pa.list_(pa.string())),
])  # fmt: skip
ATTRIBUTE = pa.schema(
    [
        ("publication", pa.int64()),
        ("attribute", pa.string()),
        ("number", pa.float64()),
        ("whole", pa.int64()),
        ("text", pa.string()),
    ]
)
JOIN = pa.schema([("node_id", pa.int64()), ("join_point", pa.int64()), ("round", pa.int64())])

OTHER_CALL = pa.schema([
    ("node_id", pa.int64()), ("round", pa.int64()), ("kind", pa.string()), ("topic", pa.string()),
    ("peer", pa.int64()), ("role", pa.string()),
])  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """The application calls of one run; rows in the order in which their source lists them.

    Attributes:
        subscription: One row a subscription. ``end_round`` is null where it stays; ``predicate`` is the
            canonical text of its conjunction (``topic = 'news' and price > 10``).
        publication: One row a publication; ``content`` is JSON with sorted keys, without the topic; ``guarantee`` and
            ``keys`` are null where none are given.
        attribute: One row an attribute of a publication, the topic among them (attribute ``topic``,
            text); ``publication`` is the row number in ``publication``; exactly one of ``number``
            and ``text`` is set, and ``whole`` where the number is a whole number of 64 bits.
        join: One row a node that joins while the run goes on.
        other_call: One row a call of another kind.
    """

    subscription: pa.Table
    publication: pa.Table
    attribute: pa.Table
    join: pa.Table
    other_call: pa.Table
