"""Kills the driver of a run, and compares the contents of its store with the store of an uninterrupted run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.cli.ends import DEBUG
from pipelines.engines.session import Session
from pipelines.store.ledger import Ledger
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT
from support.stored import stored_rows

SCENARIO = """name: killed
protocol: {name: delta, delta: 1}
overlay: {links: [[P, A], [A, B, 2], [B, S], [B, J]]}
workload:
  subscriptions: [{at: S, round: 0, topic: a}, {at: A, round: 2, where: x > 3, until: 18}, {at: J, round: 4, topic: a}]
  publications:
    - {at: P, round: 6, topic: a, content: {x: 5}}
    - {at: B, round: 7, topic: b}
    - {at: P, round: 19, topic: a}
  joins: [{node: J, to: B, round: 3}]
faults: [{kind: crash, node: A, round: 9, until: 13}]
time: {rounds: 60}
runs: {seeds: [0, 1]}
"""
_LIMIT = 1200
"""The seconds after which the test fails if a program neither ends nor reaches the number of commits."""
_POLL_SECONDS = 0.05
"""The seconds between two counts of commits. A count walks the folders of the store, which takes 10 ms."""


def contents(session: Session, root: Path) -> dict[str, list[str]]:
    """Returns the rows of all tables, and the rows of the state tables at each commit.

    The column of Delta versions in the ledger is omitted, because a resumed run creates additional versions. Each
    version is read once: a state table without changes keeps its version from commit to commit.
    """
    store = Store(root, session)

    @cache
    def stored(name: str, version: int | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = stored_rows(store, name, version).to_pylist()
        return found

    found = {name: sorted(map(str, stored(name))) for name in store.tables()}
    known = [{**row, "versions": None} for row in stored(ROUND_COMMIT.name)]
    found[ROUND_COMMIT.name] = sorted(map(str, known))
    for commit in Ledger.read(store).commits:
        for name in (name for name in store.tables() if name.startswith("state_")):
            state = stored(name, commit.versions[name])
            own = (str(row) for row in state if commit.first_run <= row["run_id"] <= commit.last_run)
            found[f"{name} at {commit.last_run}, {commit.last_round}"] = sorted(own)
    return found


def n_commits(root: Path) -> int:
    """Counts the Delta commits of all tables of a store, which a program may be writing."""
    return sum(
        file.endswith(".json") for folder, _, files in os.walk(root) if folder.endswith("_delta_log") for file in files
    )


def program(*arguments: str | Path) -> list[str]:
    """Returns the command line of ``roundtable`` with ``arguments``."""
    return [sys.executable, "-m", "pipelines", *map(str, arguments)]


def killed(command: Sequence[str], root: Path, commits: int, draw: random.Random) -> bool:
    """Starts a program, and kills it up to 0.1 s after a store has ``commits`` commits.

    Returns whether the program was killed; False if it ended before.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {DEBUG: "1"},
    ) as child:
        try:
            until = time.monotonic() + _LIMIT
            while child.poll() is None and n_commits(root) < commits:
                assert time.monotonic() < until, f"{n_commits(root)} commits after {_LIMIT} s"
                time.sleep(_POLL_SECONDS)
            time.sleep(draw.uniform(0, 0.1))
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
                return True
            assert child.stderr is not None
            if child.returncode:
                raise AssertionError(f"exit code {child.returncode}: {child.stderr.read().decode()}")
            return False
        finally:
            child.kill()
