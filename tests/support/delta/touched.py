"""Records the relations that the phases of `delta` read and write while jobs run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame

from pipelines.protocols.delta import dataflow
from pipelines.protocols.delta.work import Phase, Work

Touched = dict[str, tuple[set[str], set[str]]]
"""Maps the name of a phase to the relations that it reads and the relations that it writes."""


@contextmanager
def noted() -> Iterator[Touched]:
    """Records reads and writes inside the ``with`` block."""
    found: Touched = {phase.name: (set(), set()) for phase in dataflow.PHASES}
    now, change, running = Work.now, Work.change, list[str]()

    def read(work: Work, name: str) -> DataFrame:
        found[running[-1]][0].add(name)
        return now(work, name)

    def written(work: Work, name: str, frame: DataFrame) -> None:
        found[running[-1]][1].add(name)
        change(work, name, frame)

    def told(phase: Phase) -> Phase:
        def run(work: Work) -> None:
            running.append(phase.name)
            phase.run(work)
            running.pop()

        return replace(phase, run=run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "now", read)
        patch.setattr(Work, "change", written)
        patch.setattr(dataflow, "PHASES", tuple(map(told, dataflow.PHASES)))
        yield found
