"""How many rounds a job takes: one, or those up to the next commit where runs can be played whole."""

from __future__ import annotations

from dataclasses import dataclass

COMMIT_EVERY = 20
COMMIT_BLOCKS_EVERY = 200
"""Rounds between commits where several rounds are one job: these are over in less time than a commit takes."""
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


def jobs_of(*, is_node_program: bool, n_nodes: int, asked: int | None = None, commit_every: int | None = None) -> Jobs:
    """Returns how rounds become jobs.

    Args:
        is_node_program: Whether the protocol is a node program: others are played round by round.
        n_nodes: Nodes of the largest run.
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
    every = commit_every or COMMIT_BLOCKS_EVERY
    if asked is None:
        return Jobs(every, every, f"runs have up to {n_nodes:,} nodes, so that one core plays each")
    return Jobs(min(asked, every), every, "as asked for")
