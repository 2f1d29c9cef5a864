"""Records the relations that the phases of `delta` read and write while jobs run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import DataFrame

from pipelines.protocols.delta.phases import faults, forward, joins
from pipelines.protocols.delta.work import Work

Touched = dict[str, tuple[set[str], set[str]]]
"""Maps the name of a phase's function to the relations that the phase reads and the relations that it writes."""
_PHASES = (
    (faults, "handle_faults"),
    (forward, "confirm"),
    (joins, "collect_copies"),
    (forward, "forward_copies"),
    (forward, "close"),
)


@contextmanager
def noted() -> Iterator[Touched]:
    """Records reads and writes inside the ``with`` block."""
    found: Touched = {name: (set(), set()) for _, name in _PHASES}
    now, running = Work.now, list[str]()

    def read(work: Work, name: str) -> DataFrame:
        found[running[-1]][0].add(name)
        return now(work, name)

    def writing(write: Callable[[Work, str, DataFrame], None]) -> Callable[[Work, str, DataFrame], None]:
        def written(work: Work, name: str, frame: DataFrame) -> None:
            found[running[-1]][1].add(name)
            write(work, name, frame)

        return written

    def told(name: str, phase: Callable[[Work], None]) -> Callable[[Work], None]:
        def run(work: Work) -> None:
            running.append(name)
            phase(work)
            running.pop()

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "now", read)
        patch.setattr(Work, "change", writing(Work.change))
        patch.setattr(Work, "add", writing(Work.add))
        for module, name in _PHASES:
            patch.setattr(module, name, told(name, getattr(module, name)))
        yield found
