"""Tries a mutant: runs tests in a separate process, in which one module has the source of the mutant.

The process is forked from a process that has imported all other modules, so it starts without delay. An engine is
started after the fork. The files of the project are not changed.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from mutation.mutants import ROOT, Mutant
from mutation.suites import Suite

_PRELOADED = (
    "pyspark.sql.connect.session", "pyspark.sql.connect.functions", "pyarrow.compute", "deltalake", "networkx",
    "hypothesis", "pandas", "pipelines.rounds.execute", "pipelines.audits.run", "pipelines.engines.session",
)  # fmt: skip
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial.

    Attributes:
        is_found: Whether a test failed, or the tests exceeded the time limit.
        by: The test that failed, ``timeout``, or the exit code of the tests.
        seconds: The CPU seconds of the trial.
    """

    is_found: bool
    by: str
    seconds: float


def preload() -> None:
    """Imports modules that no mutant changes."""
    for name in _PRELOADED:
        importlib.import_module(name)


def tried(mutant: Mutant | None, suite: Suite, tests: Sequence[str], timeout: float) -> Outcome:
    """Runs tests against a mutant, or against the program as it is.

    Args:
        mutant: The mutant; None for the unchanged program.
        suite: The suite of the mutant.
        tests: The tests in the order of execution; the first failing test ends the trial.
        timeout: Wall seconds after which the trial is killed. The mutant of a killed trial counts as found.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        child = os.fork()
        if child == 0:
            _child(mutant, suite, tests, Path(folder))
        try:
            status, seconds = _waited(child, timeout)
        except BaseException:
            os.killpg(child, signal.SIGKILL)
            raise
        text = output.read_text(errors="replace") if output.exists() else ""
    failed = _FAILED.search(text)
    by = "timeout" if status is None else failed[1] if failed else f"exit {status}"
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise ValueError(f"there are no tests for {suite.name}: {text[-2000:]}")
    if mutant is None and status != 0:
        raise ValueError(f"the tests of {suite.name} fail without a mutant: {text[-4000:]}")
    return Outcome(status != 0, by, seconds)


def _waited(child: int, timeout: float) -> tuple[int | None, float]:
    """Waits for a process; returns its exit code, or None if it was killed after ``timeout`` s, and its CPU seconds."""
    end = time.monotonic() + timeout
    done = 0
    while not done and time.monotonic() < end:
        time.sleep(0.02)
        done, status, used = os.wait4(child, os.WNOHANG)
    if not done:
        os.killpg(child, signal.SIGKILL)
        done, status, used = os.wait4(child, 0)
        return None, used.ru_utime + used.ru_stime
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _child(mutant: Mutant | None, suite: Suite, tests: Sequence[str], folder: Path) -> None:
    code = 1
    try:
        os.setsid()
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        patience = [f"--timeout={suite.patience}", "--timeout-method=signal"]
        options = [
            *patience,
            "-x",
            "-q",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--rootdir",
            str(ROOT),
        ]
        chosen = [str(ROOT / test) for test in tests]
        code = int(pytest.main([*options, f"--basetemp={folder / 'tmp'}", *chosen], plugins=[_Chosen(suite)]))
    finally:
        sys.stdout.flush()
        os._exit(code)


class _Chosen:
    """A pytest plugin that removes the tests that need an engine other than the suite's."""

    def __init__(self, suite: Suite) -> None:
        self.other = {"spark", "connect"} if suite.has_engine else {"spark", "connect", "local"}
        self.order = {test.partition("::")[0]: place for place, test in reversed([*enumerate(suite.present)])}
        self.has_engine = suite.has_engine

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sorts the remaining tests in the order of the suite.

        If the suite has an engine, and a file outside of ``spec`` contains tests with and without an engine, only the
        tests with an engine remain.
        """
        mixed = {item.path for item in items if "local" in self._fixtures(item) and "spec" not in item.path.parts}
        kept = [
            item for item in items
            if self._fixtures(item).isdisjoint(self.other)
            and not (self.has_engine and item.path in mixed and "local" not in self._fixtures(item))
        ]  # fmt: skip
        items[:] = sorted(kept, key=lambda item: self.order[str(item.path.relative_to(ROOT))])

    @staticmethod
    def _fixtures(item: pytest.Item) -> set[str]:
        return set(getattr(item, "fixturenames", ()))


class _Finder:
    """An import hook that loads one module from the source of a mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = mutant.module.removesuffix(".py").replace("/", ".")
        if self.name in sys.modules:
            raise ValueError(f"{self.name} is there before its mutant: take out what imports it of what is preloaded")

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Returns the import specification of the mutated module; None for other modules."""
        if name != self.name:
            return None
        place = str(ROOT / self.mutant.module)
        return importlib.util.spec_from_file_location(name, place, loader=_Loader(name, place, self.mutant.source))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType | None:
        """Compiles the source of the mutant without reading or writing a file."""
        return compile(self._source, self.path, "exec", dont_inherit=True)
