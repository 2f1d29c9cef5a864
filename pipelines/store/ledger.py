"""The ledger of a store: which rounds are complete, and the version of each table that holds their end.

A commit writes many tables one after the other, and the ledger last. So a store says the truth at any instant, also
when its program is killed: what lies above the ledger's versions belongs to no complete round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from pipelines.errors import QueryError, StoreError
from pipelines.store.folder import resume_hint
from pipelines.store.roots import Root
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT


@dataclass(frozen=True)
class Commit:
    """A row of the ledger: the end of some rounds of a batch of runs.

    Attributes:
        first_run: First run of the batch.
        last_run: Its last run.
        n_later_runs: Runs of the batches after it.
        last_round: The last round that it holds.
        is_final: Whether the runs of the batch ended with it.
        versions: Delta version of each table that was written up to it.
    """

    first_run: int
    last_run: int
    n_later_runs: int
    last_round: int
    is_final: bool
    versions: Mapping[str, int]

    @property
    def own_runs(self) -> str:
        """SQL for the rows of its batch."""
        return f"run_id between {self.first_run} and {self.last_run}"

    def holds(self, run_id: int) -> bool:
        """Returns whether a run ended up to a round."""
        return run_id < self.first_run or (run_id <= self.last_run and self.is_final)


class Ledger:
    """The commits of a store, oldest first: those of a batch before those of the next."""

    def __init__(self, commits: Sequence[Commit], root: Root) -> None:
        """Sorts them; of several of a batch that end with the same round the later one counts.

        Args:
            commits: At least one.
            root: Folder of the store, for messages.
        """
        self._root = root
        self.commits = sorted(commits, key=lambda commit: (commit.first_run, commit.last_round, commit.is_final))

    @classmethod
    def read(cls, store: Store) -> Ledger:
        """Reads the ledger of a store.

        Raises:
            StoreError: Nothing was committed yet.
        """
        if not store.is_committed():
            raise StoreError(
                f"the store {str(store.root)!r} holds no complete round; wait, or if its program is gone, "
                f"{resume_hint(store.root)}"
            )
        names = [field.name for field in fields(Commit)]
        rows = store.rows(ROUND_COMMIT.name, names)
        return cls([Commit(**{**row, "versions": json.loads(row["versions"])}) for row in rows], store.root)

    @property
    def last(self) -> Commit:
        """The newest commit."""
        return self.commits[-1]

    @property
    def is_finished(self) -> bool:
        """Whether the runs of all batches ended."""
        return self.last.is_final and not self.last.n_later_runs

    @property
    def last_round(self) -> int:
        """The last round of the batch that is under way, or of all that ended."""
        return self.last.last_round if not self.last.is_final else max(commit.last_round for commit in self.commits)

    def cut(self, round_: int | None) -> int | None:
        """Returns the last round of history to read; None reads all rounds.

        Args:
            round_: The requested round; None for the newest. After the end of the runs, a later round means their last
                one.

        Raises:
            QueryError: No round has this number, or it is not committed yet.
        """
        last = self.last_round
        if round_ is not None and round_ < 0:
            raise QueryError(f"round {round_} is before the first round; allowed: 0 to {last}")
        if round_ is not None and not self.last.is_final and round_ > last:
            raise QueryError(
                f"round {round_} is not in the store yet; allowed: 0 to {last}, the last round committed;"
                f" the runs are not finished; if no program writes it, {resume_hint(self._root)}"
            )
        return None if self.last.is_final and round_ is not None and round_ >= last else round_

    def state_commits(self, round_: int | None) -> list[Commit]:
        """Returns the commits whose state tables answer for a round: of each batch the last one up to it.

        Raises:
            QueryError: The round is before the end of the first commit, or as in `cut`.
        """
        cut = self.cut(round_)
        found = {commit.first_run: commit for commit in self.commits if cut is None or commit.last_round <= cut}
        if not found:
            first = min(commit.last_round for commit in self.commits)
            raise QueryError(
                f"no state tables were written by round {cut}; the first ones are those of round {first};"
                " a run with a smaller --commit-every writes them earlier"
            )
        return list(found.values())
