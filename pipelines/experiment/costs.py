"""About what a run takes: rounds, minutes, memory and disk, from figures that were measured on two cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.engines.names import Engine
from pipelines.experiment.plan import Combination

_SMALL_ROWS = 400_000
"""Rows of state of a batch that has few of them."""
_HANDSHAKES = 4
"""Times that the diameter is crossed after the last call or fault: there, confirmed, and once more around a crash."""
_KINDS = 2
"""Messages that cross a link for a call: the call and its confirmation."""
_ROW_GIB = 3e-6
_MESSAGE_MB = 60e-6
_STORE_MB = 0.7


@dataclass(frozen=True)
class _Measured:
    """What an engine takes.

    Attributes:
        start_s: Its start, the first tables and the audits, in seconds.
        round_s: A round in which little is due.
        crash_s: What a round takes more where nodes crash.
        messages_per_s: Of busy rounds.
        memory_gib: The process without rows.
    """

    start_s: float
    round_s: float
    crash_s: float
    messages_per_s: float
    memory_gib: float


_OF = {
    "local": _Measured(5, 0.05, 0.1, 20_000, 0.6),
    "spark": _Measured(40, 0.4, 0.3, 25_000, 2.5),
    "connect": _Measured(40, 0.4, 0.3, 25_000, 0.3),
}
_SMALL_ON_SPARK = _Measured(30, 0.05, 0.1, 10_000, 2.5)
"""Classic Spark with few rows; the JVM starts, and answers the audits."""


@dataclass(frozen=True)
class Costs:
    """About what a run takes.

    Attributes:
        n_rounds: Rounds in which something is due.
        minutes: On this engine, start and audits included.
        memory_gib: Of the program and its engine.
        disk_mb: Of the store.
    """

    n_rounds: int
    minutes: float
    memory_gib: float
    disk_mb: float


def costs(rows: Sequence[Combination], n_seeds: int, horizon: int, engine: Engine, n_batches: int = 1) -> Costs | None:
    """Returns about what a run takes.

    Args:
        rows: The combinations of the grid.
        n_seeds: Runs of each.
        horizon: The last round that may happen.
        engine: What runs it.
        n_batches: Batches that go through the rounds one after the other.

    Returns:
        None where that does not follow from the calls: protocols that make their overlay send messages without any.
    """
    if not all(row.n_links for row in rows):
        return None
    last = max(row.last_round + _HANDSHAKES * row.diameter * row.most_latency for row in rows)
    n_rounds = min(horizon, last)
    n_messages = n_seeds * _KINDS * sum(row.n_crossings for row in rows)
    n_rows = n_seeds * sum(row.n_state_rows for row in rows)
    is_small = engine == "spark" and n_rows / n_batches <= _SMALL_ROWS
    measured = _SMALL_ON_SPARK if is_small else _OF[engine]
    of_round = measured.round_s + (measured.crash_s if any(row.n_crashes for row in rows) else 0)
    seconds = measured.start_s + n_batches * n_rounds * of_round + n_messages / measured.messages_per_s
    memory = measured.memory_gib + _ROW_GIB * n_rows / n_batches
    return Costs(n_rounds, seconds / 60, memory, _STORE_MB + _MESSAGE_MB * n_messages)
