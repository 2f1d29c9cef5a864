"""Measures the cost of commits: CPU seconds of the program and of the processes that it starts, and added files.

    python tests/perf/commits.py [--engine spark] [--runs 2000] [--brokers 20] [--commit-every 50]

The runs are those of `rounds.py`, by default in its medium size. A row of the table is a commit. Columns: rounds in the
commit; messages handled since the previous commit; seconds; CPU seconds, including concurrent threads that compile or
collect garbage; CPU microseconds per message; files that the commit added to table ``message``, and their mean size in
MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from compare import cpu_seconds
from rich.console import Console
from rich.table import Table
from rounds import START, experiment

from pipelines.engines.session import open_session
from pipelines.rounds.commit import History
from pipelines.rounds.execute import execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store


@contextmanager
def watched(told: Callable[[int, float, float], None]) -> Iterator[None]:
    """Calls ``told`` after each commit inside the block, with the commit's rounds, seconds and CPU seconds."""
    commit = History.commit

    def measured(history: History, *given: Any) -> None:
        n_rounds = 0 if history.first_round is None else given[0] - history.first_round + 1
        start, begun = time.perf_counter(), cpu_seconds(os.getpid())
        commit(history, *given)
        told(n_rounds, time.perf_counter() - start, cpu_seconds(os.getpid()) - begun)

    with patch.object(History, "commit", measured):
        yield


def added(table: str) -> tuple[int, float]:
    """Returns the number of files that the newest version of a table added, and their mean size in MiB."""
    newest = max(Path(table, "_delta_log").glob("*.json"))
    actions = map(json.loads, newest.read_text("utf-8").splitlines())
    sizes = [action["add"]["size"] for action in actions if "add" in action]
    return len(sizes), sum(sizes) / max(1, len(sizes)) / 2**20


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="spark", choices=["local", "spark"])
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--commit-every", type=int, default=50)
    given = parser.parse_args()
    table = Table("rounds", "messages", "seconds", "CPU s", "µs/message", "files", "MiB a file")
    what = experiment(given.runs, given.brokers, 1.0, START + 60, given.commit_every)
    handled = 0
    with tempfile.TemporaryDirectory() as folder, open_session(given.engine) as session:
        store = Store(Path(folder), session)
        session.activate()

        def observe(progress: Progress) -> None:
            nonlocal handled
            handled += progress.n_handled

        def told(n_rounds: int, seconds: float, cpu: float) -> None:
            nonlocal handled
            n_files, mean = added(str(store.path("message")))
            cells = (
                f"{n_rounds}",
                f"{handled:,}",
                f"{seconds:.1f}",
                f"{cpu:.1f}",
                f"{cpu / max(1, handled) * 1e6:.1f}",
            )
            table.add_row(*cells, f"{n_files}", f"{mean:.1f}")
            print(*cells, n_files, f"{mean:.1f}", file=sys.stderr, flush=True)
            handled = 0

        with watched(told):
            execute(what, session, store, observe)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
