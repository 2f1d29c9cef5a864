"""How many rounds a job takes: one, or those up to the next commit where runs can be played whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.contract.forms import AskedForm, Form, chosen_form
from pipelines.protocols import PROTOCOLS

COMMIT_EVERY = 20
COMMIT_BLOCKS_EVERY = 200
"""Rounds between commits where several rounds are one job: these are over in less time than a commit takes."""
COMMIT_MANY_EVERY = 500
"""The same for many runs: to write all nodes, and to read them again, takes a third of the time of 200 rounds."""
MANY_RUNS = 16
"""With fewer runs, processes for them take longer to start, and jobs to be planned, than they save."""


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
    """Yields a line for each distinct text, with the names of its protocols where there are several texts.

    Args:
        told: A text a protocol.
        is_named: Whether a line names its protocols though there is one text only.
    """
    names: dict[str, list[str]] = {}
    for name, text in told.items():
        names.setdefault(text, []).append(name)
    for text, of in names.items():
        yield f"{', '.join(of)}: {text}" if is_named or len(names) > 1 else text
