"""Estimates rounds, minutes, memory and disk space of a scenario, from measurements on two cores."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pipelines.contract.forms import Form
from pipelines.engines.names import Engine
from pipelines.experiment.plan import Combination

_FINAL_CROSSINGS = 4
"""Number of times that messages cross the overlay from end to end after the last call or fault.

A call and its confirmation cross the overlay once each. After a crash, both cross the overlay again on another path.
"""
_MESSAGES_PER_LINK = 2
"""Number of messages that a call sends over each link: one for the call and one for its confirmation."""
_ROW_GIB = 3e-6
_MESSAGE_MB = 60e-6
_STORE_MB = 0.7


@dataclass(frozen=True)
class _Measured:
    """Measurements of one engine with one form of protocols (program or dataflow).

    Attributes:
        start_s: Seconds for the start, the first tables and the audits.
        round_s: Seconds for a round with few messages.
        crash_s: Additional seconds for a round in which nodes crash.
        messages_per_s: Messages per second in rounds with many messages.
        memory_gib: Memory of the process before it holds rows, in GiB.
    """

    start_s: float
    round_s: float
    crash_s: float
    messages_per_s: float
    memory_gib: float


# Measured on two cores. Node programs of 300 runs of `delta` take 6.4 CPU seconds for 196,418 messages with history.
# The 408 rounds of 20 runs with 10,042 messages take 4.0 CPU seconds. Start and audits take 4.4 CPU seconds. A dataflow
# round takes 0.8 to 1.5 s in the driver.
_OF: dict[tuple[Engine, Form], _Measured] = {
    ("local", "program"): _Measured(4, 0.005, 0, 50_000, 0.6),
    ("spark", "program"): _Measured(20, 0.01, 0, 40_000, 2.0),
    ("connect", "program"): _Measured(20, 0.01, 0, 40_000, 0.6),
    ("local", "dataflow"): _Measured(5, 0.1, 0.2, 20_000, 0.6),
    ("spark", "dataflow"): _Measured(40, 1.2, 0.6, 25_000, 2.5),
    ("connect", "dataflow"): _Measured(40, 1.2, 0.6, 25_000, 0.3),
}


@dataclass(frozen=True)
class Costs:
    """The estimated costs of a scenario on one engine.

    Attributes:
        n_rounds: Number of rounds with a message, a call or a fault.
        minutes: Minutes of the run, including the start and the audits.
        memory_gib: Memory of the program and its engine, in GiB.
        disk_mb: Disk space of the store, in MB.
    """

    n_rounds: int
    minutes: float
    memory_gib: float
    disk_mb: float


def costs(
    rows: Sequence[Combination], n_seeds: int, horizon: int, engine: Engine, forms: Collection[Form], n_batches: int = 1
) -> Costs | None:  # fmt: skip
    """Returns the estimated costs of a scenario.

    Args:
        rows: The combinations of the grid.
        n_seeds: Number of runs of each combination.
        horizon: The last possible round of a run.
        engine: The engine that would execute the runs.
        forms: The forms of the protocols; if one is ``dataflow``, its (higher) costs are estimated for all runs.
        n_batches: Number of batches, which run one after another.

    Returns:
        The estimate; None if the protocol builds its own overlay, because it then sends messages without calls.
    """
    if not all(row.n_links for row in rows):
        return None
    last = max(row.last_round + _FINAL_CROSSINGS * row.diameter * row.most_latency for row in rows)
    n_rounds = min(horizon, last)
    n_messages = n_seeds * _MESSAGES_PER_LINK * sum(row.n_crossings for row in rows)
    n_rows = n_seeds * sum(row.n_state_rows for row in rows)
    measured = _OF[engine, "dataflow" if "dataflow" in forms else "program"]
    of_round = measured.round_s + (measured.crash_s if any(row.n_crashes for row in rows) else 0)
    seconds = measured.start_s + n_batches * n_rounds * of_round + n_messages / measured.messages_per_s
    memory = measured.memory_gib + _ROW_GIB * n_rows / n_batches
    return Costs(n_rounds, seconds / 60, memory, _STORE_MB + _MESSAGE_MB * n_messages)
