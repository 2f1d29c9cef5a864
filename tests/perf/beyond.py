"""Counts lost deliveries if more than δ brokers crash: random schedules with delta (δ = 0 to 3) and with forwarding.

    python tests/perf/beyond.py [--first 0] [--schedules 150] [--batches 1] [--engine local]

All protocols and values of δ play the same schedules; each batch is one job per protocol. The first table contains, for
each number of crashes in a schedule, the share of wanted deliveries that happened: at all subscribers, and at the
subscribers that never crash. The second table counts the deliveries that did not happen, by the explanation of `why`.
The script prints each loss that no crash on the path explains, and each run that is not valid. If there is one, the
exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from support.beyond import Extent, Schedule, as_runs, explanations, protocols, ratios, schedule

from pipelines.audits.run import audit_store
from pipelines.engines.session import Session, open_session
from pipelines.protocols import protocol_named
from pipelines.sql.query import StoreReader
from pipelines.testing import run_all


class Measured:
    """The numbers of all batches. A column is a protocol with its δ.

    Attributes:
        wanted: Numbers of wanted deliveries, by column, number of crashes, and whether the subscriber crashes.
        made: Numbers of wanted deliveries that happened, keyed as in ``wanted``.
        told: Numbers of losses, by column and explanation.
        n_beyond: Numbers of runs beyond the bound, by column.
        wrong: A phrase for each loss without an explanation and for each run that is not valid.
    """

    def __init__(self) -> None:
        self.wanted: Counter[tuple[str, int, bool]] = Counter()
        self.made: Counter[tuple[str, int, bool]] = Counter()
        self.told: Counter[tuple[str, str]] = Counter()
        self.n_beyond: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, session: Session, schedules: Sequence[Schedule], settings: Sequence[dict[str, Any]]) -> None:
        """Plays each schedule with each of ``settings`` of one protocol, all in one job, and counts the outcomes."""
        name = settings[0]["name"]
        columns = [f"δ = {setting['delta']}" if "delta" in setting else name for setting in settings]
        with tempfile.TemporaryDirectory() as folder:
            store = run_all(as_runs(schedules, settings), session, Path(folder))
            reader = StoreReader(session, store.root)
            report = audit_store(reader, protocol_named(name))
            for run in report.runs:
                self.n_beyond[columns[run.run_id % len(columns)]] += not run.within_bound
                if run.verdict != "valid":
                    seed = schedules[run.run_id // len(columns)].seed
                    self.wrong.append(f"{columns[run.run_id % len(columns)]}, schedule {seed}: {run.verdict}")
            for run_id, is_down, n_wanted, n_made in ratios(reader):
                key = (columns[run_id % len(columns)], schedules[run_id // len(columns)].n_crashes, is_down)
                self.wanted[key] += n_wanted
                self.made[key] += n_made
            for story, what, fault in explanations(reader):
                column = columns[story.run_id % len(columns)]
                self.told[column, what] += 1
                if fault is not None:
                    seed = schedules[story.run_id // len(columns)].seed
                    self.wrong.append(f"{column}, schedule {seed}, {fault}: {story.verdict}")


def _ratio_table(measured: Measured, columns: Sequence[str]) -> Table:
    table = Table("crashes", *columns, title="delivered / wanted: all subscribers (those that never crash)")
    for n_crashes in sorted({key[1] for key in measured.wanted}):
        cells = []
        for column in columns:
            down, up = ((column, n_crashes, is_down) for is_down in (True, False))
            every = (measured.made[down] + measured.made[up]) / (measured.wanted[down] + measured.wanted[up])
            cells.append(f"{every:.3f} ({measured.made[up] / max(1, measured.wanted[up]):.3f})")
        table.add_row(str(n_crashes), *cells)
    return table


def main() -> int:
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--schedules", type=int, default=150)
    parser.add_argument("--batches", type=int, default=1)
    given = parser.parse_args()
    measured = Measured()
    with open_session(given.engine) as session:
        session.activate()
        for batch in range(given.batches):
            first = given.first + batch * given.schedules
            schedules = [schedule(seed, Extent()) for seed in range(first, first + given.schedules)]
            for name in ("forwarding", "delta"):
                measured.add(session, schedules, [one for one in protocols() if one["name"] == name])
    columns = list(measured.n_beyond)
    told = Table("losses", *columns)
    told.add_row("runs beyond the bound", *(f"{measured.n_beyond[column]:,}" for column in columns))
    for what in sorted({what for _, what in measured.told}):
        told.add_row(what, *(f"{measured.told[column, what]:,}" for column in columns))
    console = Console(width=140)
    console.print(_ratio_table(measured, columns))
    console.print(told)
    console.print(f"{len(measured.wrong):,} losses without a crash that explains them, or runs within δ not valid")
    for line in measured.wrong:
        print(line)
    return 1 if measured.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
