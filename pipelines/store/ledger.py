"""The ledger of a store: it lists the complete rounds and, for each commit, the versions of all tables.

A commit writes the other tables first and the ledger last. If the program is killed during a commit, the ledger still
names the versions of the last complete round. Rows of later versions belong to no complete round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from pipelines.errors import QueryError
from pipelines.store.folder import no_round, resume_hint
from pipelines.store.roots import Root
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT


@dataclass(frozen=True)
class Commit:
    """A row of the ledger, table ``round_commit``: a commit of the rounds of one batch of runs."""

    first_run: int
    last_run: int
    n_later_runs: int
    last_round: int
    is_final: bool
    versions: Mapping[str, int]

    @property
    def own_runs(self) -> str:
        """SQL condition that selects the rows of the runs in this batch."""
        return f"run_id between {self.first_run} and {self.last_run}"

    def has_ended(self, run_id: int) -> bool:
        """Returns whether run ``run_id`` had ended at this commit, in this batch or in an earlier batch."""
        return run_id < self.first_run or (run_id <= self.last_run and self.is_final)


class Ledger:
    """The commits of a store, sorted by batch, then by last round."""

    def __init__(self, commits: Sequence[Commit], root: Root) -> None:
        """Sorts ``commits``, at least one. Error messages name ``root``, the folder of the store."""
        self._root = root
        self.commits = sorted(commits, key=lambda commit: (commit.first_run, commit.last_round, commit.is_final))

    @classmethod
    def read(cls, store: Store) -> Ledger:
        """Reads the ledger of a store.

        Raises:
            StoreError: The ledger has no commit, or the log of a table does not reach the version in the last commit.
        """
        if not store.is_committed():
            raise no_round(store.root)
        names = [field.name for field in fields(Commit)]
        rows = store.rows(ROUND_COMMIT.name, names)
        found = cls([Commit(**{**row, "versions": json.loads(row["versions"])}) for row in rows], store.root)
        store.check_versions(found.last.versions if rows else {})
        return found

    @property
    def last(self) -> Commit:
        """The newest commit."""
        return self.commits[-1]

    @property
    def is_finished(self) -> bool:
        """Whether all runs of all batches have ended."""
        return self.last.is_final and not self.last.n_later_runs

    @property
    def last_round(self) -> int:
        """The last committed round of the newest commit's batch if this batch has not ended, else of all batches."""
        return self.last.last_round if not self.last.is_final else max(commit.last_round for commit in self.commits)

    def history_round(self, round_: int | None) -> int | None:
        """Returns the last round whose history a query as of round ``round_`` reads; None stands for all rounds.

        Raises:
            QueryError: The round is negative, or not committed yet.
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
        """Returns the last commit of each batch up to a round. A commit names the versions of the state tables.

        Raises:
            QueryError: The round precedes the end of the first commit, is negative, or is not committed yet.
        """
        cut = self.history_round(round_)
        found = {commit.first_run: commit for commit in self.commits if cut is None or commit.last_round <= cut}
        if not found:
            first = min(commit.last_round for commit in self.commits)
            raise QueryError(
                f"no state tables were written by round {cut}; the first ones are those of round {first};"
                " a run with a smaller --commit-every writes them earlier"
            )
        return list(found.values())
