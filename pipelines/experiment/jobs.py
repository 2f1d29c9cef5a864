"""Partitions an experiment into batches of runs, and the rounds of a batch into jobs.

A batch is a set of runs with consecutive ids, one protocol and one horizon. The runs of a batch are executed
concurrently; batches are executed one after another into the same store. A job executes a number of rounds of one
batch. The partition does not affect the history, only the ledger: table ``round_commit``, which has a row for each
commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipelines.contract.forms import AskedForm, Form, chosen_form
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.load import RunConfig

COMMIT_EVERY = 20
"""Rounds between commits if a job executes one round."""
COMMIT_BLOCKS_EVERY = 200
"""Rounds between commits if a job executes several rounds, for fewer than `MANY_RUNS` runs."""
COMMIT_MANY_EVERY = 500
"""Rounds between commits if a job executes several rounds, for `MANY_RUNS` runs or more.

Each commit saves and loads all nodes. With 1,000 runs, a commit takes a third of the time of 200 rounds.
"""
MANY_RUNS = 16
"""With this number of runs or more, parallel jobs save more time than it takes to start processes and plan jobs."""
MAX_ROWS: Mapping[Form, int] = {"program": 150_000, "dataflow": 2_000_000}
"""Maximal number of state rows of a batch, by form.

A row of form ``program`` and its messages take about 2 KB of the driver's memory, so a batch takes 0.3 GiB. Four
batches of 500 runs took as long as one batch of 2,000 runs. A row of form ``dataflow`` takes about 3 KB on the
executors. The limit of ``dataflow`` is higher, because each additional batch needs its own job for each round.
"""
FEW_ROWS = 50_000
"""With at most this number of state rows, planning a round takes longer than executing it."""


@dataclass(frozen=True)
class Jobs:
    """The maximal number of rounds of a job, the number of rounds between commits, and the reason for the user."""

    rounds_per_job: int
    commit_every: int
    reason: str


def jobs_of(*, form: Form, n_runs: int, asked: int | None = None, commit_every: int | None = None) -> Jobs:
    """Returns the number of rounds that a job executes, and the number of rounds between commits.

    ``n_runs`` is the number of runs in a batch. ``asked`` is the requested number of rounds per job; None stands for
    all rounds up to the next commit. ``commit_every`` is the requested number; None selects a default.
    """
    if form == "dataflow":
        return Jobs(1, commit_every or COMMIT_EVERY, "each dataflow job executes one round of all runs")
    every = commit_every or (COMMIT_BLOCKS_EVERY if n_runs < MANY_RUNS else COMMIT_MANY_EVERY)
    if asked is None:
        return Jobs(every, every, "each core executes a run up to the next commit")
    return Jobs(min(asked, every), every, "as asked for")


def forms_of(
    protocols: Sequence[str], asked: AskedForm, n_nodes: int, faults: Sequence[str]
) -> dict[str, tuple[Form, str]]:  # fmt: skip
    """Maps each protocol to its form (program or dataflow) and the reason for the choice.

    ``n_nodes`` is the number of nodes of the largest run. ``faults`` names the fault types in the runs, as
    `Inputs.faults` does.

    Raises:
        FormError: A protocol lacks the requested form.
    """
    refused = {name: PROTOCOLS[name].refused_faults(faults) for name in protocols}
    return {
        name: chosen_form(name, ("program",) if of else PROTOCOLS[name].forms, asked, n_nodes, of)
        for name, of in refused.items()
    }


def by_protocol(told: Mapping[str, str], *, is_named: bool = False) -> Iterable[str]:
    """Yields each distinct message in ``told`` once, preceded by its protocols if several messages are distinct.

    ``told`` maps a protocol to a message for the user. If ``is_named``, the protocols always precede the message.
    """
    names: dict[str, list[str]] = {}
    for name, text in told.items():
        names.setdefault(text, []).append(name)
    for text, of in names.items():
        yield f"{', '.join(of)}: {text}" if is_named or len(names) > 1 else text


@dataclass(frozen=True)
class Batch:
    """A batch of runs, which are executed concurrently.

    ``number`` is the index of the batch, from 0, among ``n_batches``. ``first_run`` and ``last_run`` are ids.
    ``n_later_runs`` is the number of runs in all later batches. ``horizon`` is the last possible round of the runs.
    """

    number: int
    n_batches: int
    first_run: int
    last_run: int
    n_later_runs: int
    horizon: int
    protocol: str


def batches_of(runs: Sequence[RunConfig], at_most: int | None) -> list[Batch]:
    """Partitions ``runs``, which are sorted by id, into batches of at most ``at_most`` runs; None sets no limit."""
    parts: list[tuple[tuple[int, str], list[int]]] = []  # horizon and protocol, and the ids of the runs
    for kind, group in groupby(runs, key=lambda run: (run.scenario.time.rounds, str(run.scenario.protocol.name))):
        ids, size = [run.run_id for run in group], at_most or len(runs)
        parts += [(kind, ids[start : start + size]) for start in range(0, len(ids), size)]
    batches, n_later = list[Batch](), len(runs)
    for number, (kind, ids) in enumerate(parts):
        n_later -= len(ids)
        batches.append(Batch(number, len(parts), ids[0], ids[-1], n_later, *kind))
    return batches


def runs_per_batch(n_runs: int, n_rows: int, forms: Iterable[Form]) -> int:
    """Returns the largest number of runs per batch; ``n_rows`` is the total number of state rows of ``n_runs`` runs.

    `MAX_ROWS` limits the state rows of a batch; if ``forms`` has several forms, the highest of their limits applies.
    """
    n_batches = -(-n_rows // max(MAX_ROWS[form] for form in forms))
    return -(-n_runs // max(n_batches, 1))


def has_small_load(forms: Iterable[Form], *, is_small: bool) -> bool:
    """Returns whether the load of a JVM is small: few rows (``is_small``), or programs in all ``forms``."""
    return is_small or all(form == "program" for form in forms)
