"""The tables in which faults reach the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

CRASH = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64())])
"""One row a time for which a node is down: key (node_id, round), sorted by (round, node_id).

The node is down from ``round`` on and recovers in round ``end_round``; null: it stays down. Between two such times of a
node there is at least one round.
"""

LINK_FAULT = pa.schema([
    ("effect", pa.string()), ("src", pa.int64()), ("dst", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()),
    ("kinds", pa.list_(pa.string())), ("salt", pa.int64()), ("rate", pa.float64()), ("low", pa.int64()),
    ("high", pa.int64()), ("first_round", pa.int64()), ("last_round", pa.int64()),
])  # fmt: skip
"""One row a time for which a fault may strike the messages from ``src`` to ``dst``; both null: between any two nodes.

It may strike those sent from ``round`` on and before ``end_round``, of the given kinds (null: all), each with
probability ``rate``. Draws are hashes of ``salt`` and the message. ``effect`` says what then happens, ``low`` and
``high`` for how many rounds:

- ``lose``: the message is lost;
- ``reorder``: it is due later;
- ``delay``: all messages that its sender sends to its receiver in the round are due later, and no message that is sent
  after them is due before them. Draws are for rounds ``first_round`` to ``last_round``; what is sent after that may
  have to wait for what was sent before;
- ``duplicate``: a copy is due, so many rounds after the original.
"""

NTH_FAULT = pa.schema([
    ("effect", pa.string()), ("src", pa.int64()), ("dst", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()),
    ("kinds", pa.list_(pa.string())), ("nth", pa.int64()), ("salt", pa.int64()), ("low", pa.int64()),
    ("high", pa.int64()),
])  # fmt: skip
"""One row a fault that strikes one message: the ``nth`` between two nodes of those that its other columns describe.

Columns as in `LINK_FAULT`; ``src`` and ``dst`` may be null alone. Messages are counted in the order of their ids,
copies are not. ``effect`` is ``lose``, ``reorder`` or ``copy``: as ``duplicate``, but the copy's id is that of the
message plus 2^29, so that all other ids stay what they are without the fault.
"""

SIDE = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()), ("side", pa.int64())])
"""One row a node and time with partitions, the same times for all nodes: no message gets from one side to another.

It is the round of sending that counts, from ``round`` on and before ``end_round``.
"""

PAUSE = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64())])
"""One row a time for which a node is up and handles nothing, from ``round`` on and before ``end_round``; all apart."""

REPLACEMENT = pa.schema([
    ("round", pa.int64()), ("old_a", pa.int64()), ("old_b", pa.int64()), ("a", pa.int64()), ("b", pa.int64()),
    ("latency_rounds", pa.int64()),
])  # fmt: skip
"""One row a link that takes the place of another in a round: from then on the old one is no link, and the other is.

In the order in which they take effect, by round.
"""

EVENT = pa.schema([
    ("round", pa.int64()), ("kind", pa.string()), ("node_id", pa.int64()), ("src", pa.int64()), ("dst", pa.int64()),
])  # fmt: skip
"""One row of table ``fault_event``: a beginning or an end of a fault that is no crash, up to the horizon."""


@dataclass(frozen=True)
class Faults:
    """All that goes wrong in one run.

    Attributes:
        crash: Rows as in `CRASH`.
        link_fault: Rows as in `LINK_FAULT`.
        nth_fault: Rows as in `NTH_FAULT`.
        side: Rows as in `SIDE`.
        pause: Rows as in `PAUSE`.
        replacement: Rows as in `REPLACEMENT`.
        fault_event: Rows as in `EVENT`.
    """

    crash: pa.Table
    link_fault: pa.Table
    nth_fault: pa.Table
    side: pa.Table
    pause: pa.Table
    replacement: pa.Table
    fault_event: pa.Table


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Makes a table of rows."""
    if not rows:
        return schema.empty_table()
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in columns], schema)
