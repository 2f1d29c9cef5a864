"""Kills the driver at random times, resumes the run, and compares its store with the store of an uninterrupted run.

    python tests/perf/kills.py [--engine local|spark] [--kills 60] [--seed 0] [--commit-every 4]

The time of a kill is a random number of Delta commits (an uninterrupted run makes some hundreds, over all tables) plus
a random delay of up to 0.1 s. A resumed run is killed again, up to eight times in total, or until the run ends before
the time of the kill. Then the script compares all tables, and the state tables at each commit. The output counts the
kills by the state of the store after the kill.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from support.kills import SCENARIO, contents, killed, n_commits, program

from pipelines.engines.session import Session, open_session
from pipelines.store.folder import MANIFEST
from pipelines.store.ledger import Ledger
from pipelines.store.store import Store

MOST = 8
"""The maximum number of kills of a run."""


def left_behind(session: Session, root: Path) -> str:
    """Returns a phrase for the state in which a killed program left its store."""
    store = Store(root, session)
    if not (root / MANIFEST).is_file():
        return "nothing yet"
    if not store.is_committed():
        return "tables without a complete round"
    last = Ledger.read(store).last
    above = [name for name, version in last.versions.items() if store.version(name) > version]
    if last.is_final:
        return "all rounds, before or within the audit"
    return "a commit of some tables above the ledger" if above else "complete rounds only"


class Kills:
    """Kills and resumes runs, and counts the kills by the state of the store, and the stores that differ."""

    def __init__(self, session: Session, folder: Path, options: argparse.Namespace) -> None:
        """Plays the uninterrupted run in a child process, and reads its tables."""
        self._session = session
        self._folder = folder
        self._file = folder / "s.yaml"
        self._file.write_text(f"{SCENARIO}engine: {options.engine}\n")
        self._every = options.commit_every
        self._draw = random.Random(options.seed)
        whole = folder / "whole"
        if killed(self._run(whole), whole, sys.maxsize, self._draw):
            raise AssertionError("the undisturbed run was killed")
        self._wanted = contents(session, whole)
        self._n_commits = n_commits(whole)
        self.found: Counter[str] = Counter()
        self.n_stores = 0
        self.n_different = 0

    def _run(self, root: Path) -> list[str]:
        return program("run", self._file, "--store", root, "--commit-every", str(self._every), "--quiet")

    def store(self, n_kills: int) -> None:
        """Plays one run, kills it up to ``n_kills`` times, and compares its store with the uninterrupted run's."""
        root = self._folder / f"store{self.n_stores}"
        command = self._run(root)
        for n_left in range(n_kills, -1, -1):
            ahead = self._draw.randint(1, self._n_commits // (2 if n_left == n_kills else 4))
            if not killed(command, root, n_commits(root) + ahead if n_left else sys.maxsize, self._draw):
                break
            self.found[left_behind(self._session, root)] += 1
            if (root / MANIFEST).is_file():
                command = program("resume", root, "--quiet")
        self.n_stores += 1
        found = contents(self._session, root)
        different = [name for name in {*found, *self._wanted} if found.get(name) != self._wanted.get(name)]
        self.n_different += bool(different)
        print(
            f"store {self.n_stores}: {self.found.total()} kills, different: {different or 'nothing'}", file=sys.stderr
        )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commit-every", type=int, default=4)
    options = parser.parse_args()
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    with open_session("local") as session:
        kills = Kills(session, folder, options)
        while (n_left := options.kills - kills.found.total()) > 0:
            kills.store(min(n_left, MOST))
    table = Table("what the kill left", "kills", title=f"{options.engine}: {kills.found.total()} kills")
    for what, count in sorted(kills.found.items()):
        table.add_row(what, str(count))
    Console(width=100).print(table)
    print(f"{kills.n_stores} stores, {kills.n_different} differ from the undisturbed run", end="; ")
    print(f"{time.monotonic() - started:.0f} s")
    if kills.n_different:
        sys.exit(f"the stores stay in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
