"""The jobs of an experiment: batches of runs, and the rounds of a job.

Runs of a batch go through the rounds together; batches are played one after the other into the same store. They have
the same protocol, the same horizon and consecutive ids. Batches change no row but those of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipelines.contract.forms import AskedForm, Form, chosen_form
from pipelines.experiment.inputs import Inputs
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.expand import RunConfig

COMMIT_EVERY = 20
COMMIT_BLOCKS_EVERY = 200
"""Rounds between commits where a job plays several rounds: they take less time than a commit."""
COMMIT_MANY_EVERY = 500
"""As COMMIT_BLOCKS_EVERY, for many runs: writing and reading all nodes takes a third of the time of 200 rounds."""
MANY_RUNS = 16
"""With fewer runs, processes for them take longer to start, and jobs to be planned, than they save."""
MAX_ROWS: Mapping[Form, int] = {"program": 150_000, "dataflow": 2_000_000}
"""Rows of state of a batch by form. Programs: a row, with its messages, takes 2 KB of the driver, so a batch takes 0.3
GiB; batches of 500 runs took as long as one of 2,000. Dataflow: rows are on the executors, 3 KB each, and each batch
costs its own jobs for each round."""
_FEW_ROWS = 50_000


@dataclass(frozen=True)
class Jobs:
    """How rounds become jobs.

    Attributes:
        rounds_per_job: Rounds of a job at most.
        commit_every: Rounds between commits.
        reason: Why, in words.
    """

    rounds_per_job: int
    commit_every: int
    reason: str


def jobs_of(
    *, form: Form, n_runs: int, asked: int | None = None, commit_every: int | None = None
) -> Jobs:  # fmt: skip
    """Returns how rounds become jobs.

    Args:
        form: The form in which the protocol is played: dataflow steps are played round by round.
        n_runs: Runs that go through the rounds together.
        asked: Rounds of a job that the user asks for; None: as it suits.
        commit_every: Rounds between commits that the user asks for; None: as it suits.
    """
    if form == "dataflow":
        return Jobs(1, commit_every or COMMIT_EVERY, "dataflow steps play all runs at once")
    every = commit_every or (COMMIT_BLOCKS_EVERY if n_runs < MANY_RUNS else COMMIT_MANY_EVERY)
    if asked is None:
        return Jobs(every, every, "a core plays each run up to the next commit")
    return Jobs(min(asked, every), every, "as asked for")


def forms_of(
    protocols: Sequence[str], asked: AskedForm, n_nodes: int, faults: Sequence[str]
) -> dict[str, tuple[Form, str]]:  # fmt: skip
    """Returns the form that plays the runs of each protocol, with the reason.

    Args:
        protocols: The protocols of the runs.
        asked: The form that is asked for.
        n_nodes: The number of nodes of the largest run.
        faults: The kinds of faults that the runs have; joins are among them.

    Raises:
        FormError: A protocol lacks the form that is asked for.
    """
    refused = {name: PROTOCOLS[name].refused_faults(faults) for name in protocols}
    return {
        name: chosen_form(name, ("program",) if of else PROTOCOLS[name].forms, asked, n_nodes, of)
        for name, of in refused.items()
    }


def by_protocol(told: Mapping[str, str], *, is_named: bool = False) -> Iterable[str]:
    """Yields a line for each distinct message, with its protocols where the messages differ.

    Args:
        told: The message of each protocol.
        is_named: Whether a single message names its protocols, too.
    """
    names: dict[str, list[str]] = {}
    for name, text in told.items():
        names.setdefault(text, []).append(name)
    for text, of in names.items():
        yield f"{', '.join(of)}: {text}" if is_named or len(names) > 1 else text


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
    """Yields the indexes of the first and the last run of each batch."""
    for _, group in groupby(range(len(runs)), key=lambda index: _kind(runs[index])):
        indexes = list(group)
        for start in range(0, len(indexes), at_most):
            part = indexes[start : start + at_most]
            yield part[0], part[-1]


def _kind(run: RunConfig) -> tuple[int, str]:
    """Returns the horizon and the protocol that all runs of a batch share."""
    return run.scenario.time.rounds, run.scenario.protocol.name


def fitting(n_runs: int, n_rows: int, forms: Iterable[Form]) -> int:
    """Returns the number of runs of a batch.

    Args:
        n_runs: Runs of the experiment.
        n_rows: Rows of state of all runs (`n_state_rows`).
        forms: The forms that play them; the largest limit of `MAX_ROWS` counts.
    """
    n_batches = -(-n_rows // max(MAX_ROWS[form] for form in forms))
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
    """Returns whether the runs have few rows of state: planning a round then takes an engine longer than running it."""
    n_runs = inputs.n_runs
    return n_runs * n_state_rows(*_mean_numbers(inputs, n_runs)) <= _FEW_ROWS


def fitting_inputs(inputs: Inputs, n_runs: int, forms: Iterable[Form]) -> int:
    """Returns the number of runs of a batch as `fitting` does, from the mean rows of the built runs."""
    return fitting(n_runs, n_runs * n_state_rows(*_mean_numbers(inputs, n_runs)), forms)


def _mean_numbers(inputs: Inputs, n_runs: int) -> tuple[int, int, int, int]:
    """Returns the mean numbers of nodes, links, subscriptions and calls of a run, rounded up."""
    numbers = (len(inputs.node), len(inputs.link) // 2, len(inputs.subscription), len(inputs.call))
    n_nodes, n_links, n_subscriptions, n_calls = (-(-number // n_runs) for number in numbers)
    return n_nodes, n_links, n_subscriptions, n_calls
