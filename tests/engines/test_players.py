"""The processes that play runs start while these are built, if there will be work for them."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from pipelines.contract.forms import AskedForm
from pipelines.engines import workers
from pipelines.errors import EngineError
from pipelines.experiment.jobs import MANY_RUNS
from pipelines.rounds import blocks
from pipelines.scenario.load import RunConfig
from pipelines.testing import run_configs, scenario
from udfs.batches import Mapped

GINGER = scenario(
    protocol={"name": "ginger"}, overlay={"links": [["A", "B"]], "clients": [{"name": "C", "at": "A"}]}, workload={}
)
DELTA = scenario(protocol={"name": "delta", "delta": 1}, overlay={"links": [["A", "B"]]}, workload={})


def runs(**n_runs: int) -> list[RunConfig]:
    """Returns so many runs of protocols."""
    return run_configs([GINGER] * n_runs.get("ginger", 0) + [DELTA] * n_runs.get("delta", 0))


@pytest.mark.parametrize(
    ("n_runs", "engine", "form", "n_started"),
    [
        ({"ginger": MANY_RUNS}, "local", "auto", os.cpu_count()),
        ({"delta": 1, "ginger": MANY_RUNS}, "local", "program", os.cpu_count()),
        ({"ginger": MANY_RUNS}, "spark", "auto", 0),
        ({"delta": MANY_RUNS}, "local", "dataflow", None),
        ({"ginger": MANY_RUNS - 1, "delta": 1}, "local", "auto", None),
        ({"delta": MANY_RUNS}, "local", "auto", os.cpu_count()),
    ],
)
def test_who_has_processes_start(
    monkeypatch: pytest.MonkeyPatch, n_runs: dict[str, int], engine: str, form: AskedForm, n_started: int | None
) -> None:  # fmt: skip
    told: list[int] = []

    def starting(make: Callable[[], Mapped], n_workers: int) -> AbstractContextManager[None]:
        told.append(n_workers)
        return nullcontext()

    monkeypatch.setattr(blocks, "starting", starting)
    with blocks.players(runs(**n_runs), engine, form):
        assert told == ([] if n_started is None else [n_started])


def _make() -> Mapped:
    return iter


def test_processes_end_if_the_runs_cannot_be_built() -> None:
    with workers.starting(_make, 2):
        executor = workers._pools[2].executor
    assert workers._pools[2].executor is executor
    with pytest.raises(ValueError, match="no such overlay"), workers.starting(_make, 2):
        raise ValueError("no such overlay")
    assert 2 not in workers._pools
    with pytest.raises(RuntimeError):
        executor.submit(print)


def test_no_process_starts_for_one_core() -> None:
    workers.stop_workers()
    with pytest.raises(ValueError, match="no such overlay"), workers.starting(_make, 1):
        raise ValueError("no such overlay")
    assert not workers._pools


END = {"exit": lambda: os._exit(3), "kill": lambda: os.kill(os.getpid(), signal.SIGKILL)}


def _make_ending(way: str, folder: Path) -> Mapped:
    """Returns an Arrow function that ends its process for run 5, and before that adds a file to ``folder``."""

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 5 in batch["run_id"].to_pylist():
                (folder / uuid4().hex).touch()
                END[way]()
            yield batch

    return play


@pytest.mark.parametrize(
    ("way", "error", "told"),
    [
        ("exit", PySparkException, "ProgramError: run 5: a handler ends its process with exit code 3; allowed: raise"),
        ("kill", EngineError, "run 5: the process that executes it ended by SIGKILL; a process also ends if memory is"),
    ],
)
def test_a_run_that_ends_its_process_is_named(way: str, error: type[Exception], told: str, tmp_path: Path) -> None:
    """Before the error, a second process executes each run of the batch alone."""
    rows = pa.table({"run_id": range(20)})
    play = workers.in_workers(partial(_make_ending, way, tmp_path), 2)
    try:
        with pytest.raises(error) as raised:
            workers.mapped_here(rows, play, rows.schema, 2)
    finally:
        workers.stop_workers()
    assert str(raised.value).startswith(told)
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EROFS, errno.ENOSPC])
def test_without_semaphores_no_process_starts(
    code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine without /dev/shm, or with a read-only or full one: sem_open fails with each of these errors."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("loky.backend.synchronize._SemLock", fail)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    workers._has_semaphores.cache_clear()
    try:
        assert [workers.n_workers_of("local") for _ in range(2)] == [0, 0]
    finally:
        workers._has_semaphores.cache_clear()
    told = "one core executes all runs: the system creates no semaphores for worker processes"
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [told]


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ('java.io.IOException: Cannot run program "/no/python": error=2', "the program '/no/python' cannot be started"),
        (
            "EOFException occurred while reading the port number from pyspark.daemon's stdout",
            "the program is no Python",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.12, PySpark "
            "cannot run with different minor versions.\nPlease check",
            "Python in worker has different version: 3.9 than that in driver: 3.12, PySpark cannot run with different "
            "minor versions; PYSPARK_PYTHON",
        ),
        ("Traceback\nModuleNotFoundError: No module named 'pyarrow'\n", "module pyarrow is not installed; PYSPARK_P"),
        ("ProgramError: run 0, node 1: ModuleNotFoundError: No module named 'own'", None),
        ("Job aborted", None),
    ],
)
def test_workers_that_cannot_execute_the_runs_are_an_error_of_the_engine(told: str, cause: str | None) -> None:
    error, spark = RuntimeError(f"An error occurred.\n{told}"), MagicMock()
    tasks = spark.createDataFrame.return_value.coalesce.return_value.repartition.return_value
    tasks.mapInArrow.return_value.toArrow.side_effect = error
    with pytest.raises(RuntimeError if cause is None else EngineError) as raised:
        workers.mapped_on_executors(spark, pa.table({"run_id": [0]}), iter, pa.schema([]), 1)
    if cause is None:
        assert raised.value is error
    else:
        assert str(raised.value).startswith(f"the Python workers of Spark cannot execute the runs: {cause}")
