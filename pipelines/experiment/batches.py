"""Batches: runs that go through the rounds together, one batch after the other, into the same store.

Runs of one batch have the same protocol, the same horizon and consecutive ids. What a batch leaves in the store is
what its runs leave without others, so how runs are cut into batches changes no row but those of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipelines.experiment.inputs import Inputs
from pipelines.scenario.expand import RunConfig

MAX_ROWS = 2_000_000
"""Rows of state that a batch is planned for; with what crashes and busy rounds add, some 3 KB each."""
_FEW_ROWS = 50_000


@dataclass(frozen=True)
class Batch:
    """Runs that go through the rounds together.

    Attributes:
        number: From 0.
        n_batches: How many there are.
        first_run: Id of its first run.
        last_run: Id of its last run.
        n_later_runs: Runs of the batches after it.
        horizon: The last round that may happen.
        protocol: The protocol of its runs.
    """

    number: int
    n_batches: int
    first_run: int
    last_run: int
    n_later_runs: int
    horizon: int
    protocol: str


def cut(runs: Sequence[RunConfig], at_most: int | None) -> list[Batch]:
    """Cuts runs into batches.

    Args:
        runs: All runs, by id.
        at_most: Runs of a batch; None for no limit.
    """
    pieces = list(_pieces(runs, at_most or len(runs)))
    return [
        Batch(number, len(pieces), runs[first].run_id, runs[last].run_id, len(runs) - last - 1,
              *_kind(runs[first]))
        for number, (first, last) in enumerate(pieces)
    ]  # fmt: skip


def _pieces(runs: Sequence[RunConfig], at_most: int) -> Iterator[tuple[int, int]]:
    """Yields the places of the first and the last run of each batch."""
    for _, group in groupby(range(len(runs)), key=lambda place: _kind(runs[place])):
        places = list(group)
        for start in range(0, len(places), at_most):
            part = places[start : start + at_most]
            yield part[0], part[-1]


def _kind(run: RunConfig) -> tuple[int, str]:
    """Returns the horizon and the protocol that all runs of a batch share."""
    return run.scenario.time.rounds, run.scenario.protocol.name


def fitting(n_runs: int, n_rows: int) -> int:
    """Returns the number of runs of a batch where all runs together have ``n_rows`` rows of state (`n_state_rows`)."""
    n_batches = -(-n_rows // MAX_ROWS)
    return -(-n_runs // max(n_batches, 1))


def n_state_rows(n_nodes: int, n_links: int, n_subscriptions: int, n_calls: int) -> int:
    """Returns about how many rows of state a run has: every node may know every subscription.

    Args:
        n_nodes: Nodes.
        n_links: Undirected links.
        n_subscriptions: Subscriptions.
        n_calls: All calls of applications, subscriptions among them.
    """
    return n_nodes * (n_subscriptions + 1) + 2 * n_links + n_calls


def is_small(inputs: Inputs) -> bool:
    """Returns whether the runs have so few rows of state that an engine has more work with its plans than with them."""
    n_runs = inputs.n_runs
    return n_runs * n_state_rows(*_mean_numbers(inputs, n_runs)) <= _FEW_ROWS


def fitting_inputs(inputs: Inputs, n_runs: int) -> int:
    """Returns how many runs a batch may have, by the means over all of them."""
    return fitting(n_runs, n_runs * n_state_rows(*_mean_numbers(inputs, n_runs)))


def _mean_numbers(inputs: Inputs, n_runs: int) -> tuple[int, int, int, int]:
    """Returns the mean numbers of nodes, links, subscriptions and calls of a run, rounded up."""
    numbers = (len(inputs.node), len(inputs.link) // 2, len(inputs.subscription), len(inputs.call))
    n_nodes, n_links, n_subscriptions, n_calls = (-(-number // n_runs) for number in numbers)
    return n_nodes, n_links, n_subscriptions, n_calls
