"""When executors are lost again and again, the program gives up; other errors it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import EngineError
from pipelines.rounds import execute
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
