"""The ledger of a store: which rounds are complete, and the version of each table that holds their end.

A commit writes many tables one after the other, and the ledger last. So a store says the truth at any instant, also
when its program is killed: what lies above the ledger's versions belongs to no complete round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import QueryError, StoreError
from pipelines.folder import to_go_on
from pipelines.store import Store
from pipelines.tables import ROUND_COMMIT


@dataclass(frozen=True)
class Commit:
    """A row of the ledger.

    Attributes:
        last_round: The last round that it holds.
        is_final: Whether the runs ended with it.
        versions: Delta version of each table that was written up to it.
    """

    last_round: int
    is_final: bool
    versions: Mapping[str, int]


class Ledger:
    """The commits of a store, oldest first."""

    def __init__(self, commits: Sequence[Commit], root: Path) -> None:
        """Sorts them; of several that end with the same round the later one counts.

        Args:
            commits: At least one.
            root: Folder of the store, for messages.
        """
        self._root = root
        self.commits = sorted(commits, key=lambda commit: (commit.last_round, commit.is_final))

    @classmethod
    def read(cls, store: Store) -> Ledger:
        """Reads the ledger of a store.

        Raises:
            StoreError: Nothing was committed yet.
        """
        if not store.is_committed():
            raise StoreError(
                f"the store {str(store.root)!r} holds no complete round; wait, or if its program is gone, "
                f"{to_go_on(store.root)}"
            )
        rows = store.read(ROUND_COMMIT.name).select("last_round", "is_final", "versions").collect()
        return cls([Commit(row.last_round, row.is_final, json.loads(row.versions)) for row in rows], store.root)

    @property
    def last(self) -> Commit:
        """The newest commit."""
        return self.commits[-1]

    def cut(self, round_: int | None) -> int | None:
        """Gives the round that history is cut after; None where nothing is to be cut.

        Args:
            round_: The round that was asked for; None for the newest. In a store whose runs are over, every round after
                their last one is as that one.

        Raises:
            QueryError: No round has this number, or it is not committed yet.
        """
        last = self.last
        if round_ is not None and round_ < 0:
            raise QueryError(f"round {round_} is before the first round; allowed: 0 to {last.last_round}")
        if round_ is not None and not last.is_final and round_ > last.last_round:
            raise QueryError(
                f"round {round_} is not in the store yet; allowed: 0 to {last.last_round}, the last round committed;"
                f" the runs are not finished; if no program writes it, {to_go_on(self._root)}"
            )
        if round_ is None or round_ >= last.last_round:
            return None if last.is_final else last.last_round
        return round_

    def state_commit(self, round_: int | None) -> Commit:
        """Gives the commit whose state tables answer for a round: the last one that ended by then.

        Raises:
            QueryError: The round is before the end of the first commit, or as in `cut`.
        """
        cut = self.cut(round_)
        found = [commit for commit in self.commits if cut is None or commit.last_round <= cut]
        if not found:
            first = self.commits[0].last_round
            raise QueryError(
                f"no state tables were written by round {cut}; the first ones are those of round {first};"
                " a run with a smaller --commit-every writes them earlier"
            )
        return found[-1]
