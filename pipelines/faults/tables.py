"""The tables in which faults reach the engine."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

CRASH = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("until", pa.int64())])
"""One row a time for which a node is down: key (node_id, round), sorted by (round, node_id).

The node is down from ``round`` on and recovers in round ``until``; null: it stays down. Between two such times of a
node there is at least one round.
"""


@dataclass(frozen=True)
class Faults:
    """All that goes wrong in one run.

    Attributes:
        crash: Rows as in `CRASH`.
    """

    crash: pa.Table
