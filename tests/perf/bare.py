"""A busy round against the bare scan, join and write of the rows that it rewrites.

    python tests/perf/bare.py [--engine local] [--engine spark] [--size small|medium|large]

The sizes and the workload are those of `rounds.py`. Bare is one query for each relation that the round rewrites, in the
engine's own way to keep relations: all its rows as they were before, joined with the nodes that have mail, and written.
Columns: messages a round; seconds of a round without its commit; seconds of the bare work; the first by the second.
All are medians over the rounds in which all sources publish.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table
from rounds import SIZES, START, arguments, experiment

from pipelines.engines.materialise.base import Facts, Materialiser, Relation
from pipelines.engines.materialise.choose import materialiser_for
from pipelines.engines.session import Session, open_session
from pipelines.rounds.execute import execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store

LAST = START + 15
_Checkpointed = tuple[dict[str, Relation], dict[str, int | None]]


class Watch:
    """Times rounds, and repeats the bare part of each right after it.

    Attributes:
        rounds: Round, messages handled, its seconds, and those of the bare work.
    """

    def __init__(self, materialiser: Materialiser) -> None:
        self.rounds: list[tuple[int, int, float, float]] = []
        self._checkpoint = materialiser.checkpoint
        self._whole: dict[str, DataFrame] = {}
        self._bare = 0.0
        self._last = time.perf_counter()

    def checkpoint(self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]) -> _Checkpointed:
        """Checkpoints the relations of a round; then does the bare work in their place."""
        made = self._checkpoint(frames, facts)
        before = {name: self._whole[name] for name in frames if name in self._whole}
        self._whole |= {name: relation.frame for name, relation in made[0].items()}
        if "in_flight" in before:
            self._bare = self._again(before)
        return made

    def _again(self, before: Mapping[str, DataFrame]) -> float:
        mail = before["in_flight"].selectExpr("run_id", "dst as node_id").distinct()
        kept = self._checkpoint({"mail": mail}, {})[0]["mail"]
        start = time.perf_counter()
        again = {
            name: frame.join(kept.frame, ["run_id", "node_id"], "left").select(frame.columns)
            for name, frame in before.items()
            if name != "in_flight"
        }
        node = kept.frame.withColumnRenamed("node_id", "dst")
        flying = before["in_flight"]
        again["in_flight"] = flying.join(node, ["run_id", "dst"], "left").select(flying.columns)
        relations, _ = self._checkpoint(again, {})
        seconds = time.perf_counter() - start
        for relation in [kept, *relations.values()]:
            relation.release()
        return seconds

    def observe(self, progress: Progress) -> None:
        """Notes a round that is over."""
        now = time.perf_counter()
        self.rounds.append((progress.round, progress.n_handled, now - self._last - self._bare, self._bare))
        self._last, self._bare = now, 0.0


def measure(session: Session, size: str) -> list[str]:
    """Returns a row of the table."""
    watches: list[Watch] = []

    def watched(session: Session, *, is_small: bool, is_eventful: bool) -> Materialiser:
        materialiser = materialiser_for(session, is_small=is_small, is_eventful=is_eventful)
        watches.append(Watch(materialiser))
        materialiser.checkpoint = watches[0].checkpoint  # type: ignore[method-assign]
        return materialiser

    with tempfile.TemporaryDirectory() as folder, mock.patch("pipelines.rounds.execute.materialiser_for", watched):
        execute(
            experiment(*SIZES[size], 1.0, LAST), session, Store(Path(folder), session),
            lambda progress: watches[0].observe(progress),
        )  # fmt: skip
    busy = [row for row in watches[0].rounds if START + 5 <= row[0] <= LAST]
    handled, seconds, bare = (statistics.median(row[column] for row in busy) for column in (1, 2, 3))
    n_runs, n_nodes = SIZES[size]
    return [f"{n_runs:,} x {n_nodes}", f"{handled:,.0f}", f"{seconds:.3f}", f"{bare:.3f}", f"{seconds / bare:.1f}"]


def main() -> None:
    """Prints the table."""
    given = arguments(__doc__)
    table = Table("engine", "size", "messages a round", "round s", "bare s", "round / bare")
    for engine in given.engine:
        with open_session(engine) as session:
            session.activate()
            for size in given.size:
                table.add_row(engine, *measure(session, size))
                print(f"{engine} {size} done", file=sys.stderr)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
