"""What a commit costs: CPU seconds of all threads of the program and of what it starts, and the files that it leaves.

    python tests/perf/commits.py [--engine spark] [--runs 2000] [--brokers 20] [--commit-every 50]

The sweep of `rounds.py`, medium size by default. A row is a commit. Columns: rounds in it; messages handled since the
last one; seconds; CPU seconds, those of threads that compile or collect garbage meanwhile among them; microseconds of
CPU a message; files that it added to table ``message``, and the mean size of one in MiB.
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
    """Has a function told of each commit: its rounds, seconds, CPU seconds."""
    commit = History.commit

    def measured(history: History, *given: Any) -> None:
        n_rounds, start, begun = history.n_rounds, time.perf_counter(), cpu_seconds(os.getpid())
        commit(history, *given)
        told(n_rounds, time.perf_counter() - start, cpu_seconds(os.getpid()) - begun)

    with patch.object(History, "commit", measured):
        yield


def added(table: str) -> tuple[int, float]:
    """Returns how many files the newest version of a table added, and the mean size of one in MiB."""
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
