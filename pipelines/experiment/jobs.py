"""How many rounds a job takes: one, or those up to the next commit where runs can be played whole."""

from __future__ import annotations

from dataclasses import dataclass

COMMIT_EVERY = 20
COMMIT_BLOCKS_EVERY = 200
"""Rounds between commits where several rounds are one job: these are over in less time than a commit takes."""
COMMIT_MANY_EVERY = 500
"""The same for many runs: to write all nodes, and to read them again, takes a third of the time of 200 rounds."""
MANY_RUNS = 16
"""With fewer runs, processes for them take longer to start, and jobs to be planned, than they save."""
MOST_NODES = 20_000
"""Nodes of a run that one core plays as fast as all cores do in a job for each round."""


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
    *, is_node_program: bool, n_nodes: int, n_runs: int, asked: int | None = None, commit_every: int | None = None
) -> Jobs:  # fmt: skip
    """Returns how rounds become jobs.

    Args:
        is_node_program: Whether the protocol is a node program: others are played round by round.
        n_nodes: Nodes of the largest run.
        n_runs: Runs that go through the rounds together.
        asked: Rounds of a job that the user asks for; None: as it suits.
        commit_every: Rounds between commits that the user asks for; None: as it suits.
    """
    fits = n_nodes <= MOST_NODES
    if not is_node_program or asked == 1 or (asked is None and not fits):
        reason = (
            "the protocol is no node program" if not is_node_program
            else f"runs have up to {n_nodes:,} nodes, more than {MOST_NODES:,}" if asked is None
            else "as asked for"
        )  # fmt: skip
        return Jobs(1, commit_every or COMMIT_EVERY, reason)
    every = commit_every or (COMMIT_BLOCKS_EVERY if n_runs < MANY_RUNS else COMMIT_MANY_EVERY)
    if asked is None:
        return Jobs(every, every, f"runs have up to {n_nodes:,} nodes, so that one core plays each")
    return Jobs(min(asked, every), every, "as asked for")
