"""When executors are lost again and again, the program gives up; other errors it leaves alone."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import EngineError
from pipelines.rounds import execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store

LOST = "Job aborted due to stage failure: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_12_0 not found!"
KILLED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'spark.python"


def play(monkeypatch: pytest.MonkeyPatch, root: Path, error: Exception) -> list[str]:
    """Returns the lines that are printed while each execution fails; nothing is committed."""

    def fail(*_: Any) -> None:
        raise error

    said: list[str] = []
    nothing: Any = None
    monkeypatch.setattr(execute, "execute", fail)
    with pytest.raises(type(error)) if not execute.is_executor_lost(error) else pytest.raises(EngineError) as caught:
        execute.execute_and_survive(nothing, nothing, lambda: Store(root, nothing), nothing, nothing, said.append)
    return [*said, str(caught.value)]


@pytest.mark.parametrize("error", [LOST, KILLED])
def test_losses_without_a_commit_between_them_end_it(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *said, told = play(monkeypatch, tmp_path, RuntimeError(error))
    assert said == ["an executor or its Python worker died: resuming from the beginning"] * 4
    assert told == (
        "executors or their Python workers died 5 times without a commit between: give them more memory, commit more "
        "often (--commit-every), or correct the handler that ends its process; nothing was committed"
    )


def test_other_errors_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(monkeypatch, tmp_path, ValueError("a row is wrong")) == ["a row is wrong"]


@pytest.mark.parametrize(
    ("committed", "totals"),
    [
        ((0, 20), [10, 30, 60, 70, 110]),  # the job of rounds 21 to 30 is executed again
        (None, [10, 30, 60, 10, 50]),
        ((-9, 20), [10, 30, 60, 10, 50]),  # the commit of another batch
    ],
)
def test_messages_of_rounds_that_are_executed_again_count_once(
    committed: tuple[int, int] | None, totals: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch: Any = SimpleNamespace(first_run=0)
    last = committed and SimpleNamespace(first_run=committed[0], last_round=committed[1], is_final=False)
    again = (30, 40) if committed == (0, 20) else (10, 10)
    jobs = [[(10, 10), (20, 20), (30, 30)], [again]]
    handled: list[int] = []

    def execute_jobs(_: Any, __: Any, ___: Any, observe: Any, start: Any) -> None:
        start(batch)
        for round_, n_handled in jobs.pop(0):
            observe(Progress(round_, 0, n_handled, 40))
        if jobs:
            raise RuntimeError(LOST)
        observe(Progress(40, 0, 40, 40))

    monkeypatch.setattr(execute, "execute", execute_jobs)
    monkeypatch.setattr(execute, "last_commit", lambda _: last)
    nothing: Any = None
    execute.execute_and_survive(
        nothing, nothing, lambda: Store(tmp_path, nothing), lambda told: handled.append(told.n_handled),
        lambda _: None, lambda _: None,
    )  # fmt: skip
    assert [*accumulate(handled)] == totals
