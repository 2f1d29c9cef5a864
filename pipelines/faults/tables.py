"""The tables in which faults reach the engine."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

CRASH = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("until", pa.int64())])
"""One row a time for which a node is down: key (node_id, round), sorted by (round, node_id).

The node is down from ``round`` on and recovers in round ``until``; null: it stays down. Between two such times of a
node there is at least one round.
"""

LINK_FAULT = pa.schema([
    ("effect", pa.string()), ("src", pa.int64()), ("dst", pa.int64()), ("round", pa.int64()), ("until", pa.int64()),
    ("kinds", pa.list_(pa.string())), ("salt", pa.int64()), ("rate", pa.float64()),
])  # fmt: skip
"""One row a time for which a fault may strike the messages from ``src`` to ``dst``; both null: between any two nodes.

It may strike those sent from ``round`` on and before ``until``, of the given kinds (null: all), each with probability
``rate``; ``effect`` says what then happens (``lose``). Draws are hashes of ``salt`` and the message.
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
        fault_event: Rows as in `EVENT`.
    """

    crash: pa.Table
    link_fault: pa.Table
    fault_event: pa.Table
