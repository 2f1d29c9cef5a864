"""Trying a mutant: tests in a process of its own, in which one module has the mutant's text.

The process is forked from one that has imported everything else, so it starts at once; an engine is opened behind the
fork. Nothing is written to the tree.
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
    """What the tests said.

    Attributes:
        is_found: Whether they failed, or did not end in time.
        by: The test that failed.
        seconds: What it took of a processor, whatever else runs on the machine.
    """

    is_found: bool
    by: str
    seconds: float


def preload() -> None:
    """Imports what no mutant changes."""
    for name in _PRELOADED:
        importlib.import_module(name)


def tried(mutant: Mutant | None, suite: Suite, tests: Sequence[str], timeout: float) -> Outcome:
    """Runs tests against a mutant, or against the program as it is.

    Args:
        mutant: The mutant.
        suite: Its suite.
        tests: The tests, in their order; the first that fails ends the trial.
        timeout: Seconds by the clock after which it is ended: a mutant that does not come to an end is found.
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
    """Returns the exit code of a process, or None if it had to be ended, and the seconds that it computed."""
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
    """Leaves out the tests that need another engine than the suite has."""

    def __init__(self, suite: Suite) -> None:
        self.other = {"spark", "connect"} if suite.has_engine else {"spark", "connect", "local"}
        self.order = {test.partition("::")[0]: place for place, test in reversed([*enumerate(suite.present)])}
        self.has_engine = suite.has_engine

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keeps the others, in the order of the suite; of runs of whole networks an engine's takes those with it."""
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
    """Returns one module the text of a mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = mutant.module.removesuffix(".py").replace("/", ".")
        if self.name in sys.modules:
            raise ValueError(f"{self.name} is there before its mutant: take out what imports it of what is preloaded")

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Finds the module."""
        if name != self.name:
            return None
        place = str(ROOT / self.mutant.module)
        return importlib.util.spec_from_file_location(name, place, loader=_Loader(name, place, self.mutant.source))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType | None:
        """Compiles the text of the mutant; no file is read or written for it."""
        return compile(self._source, self.path, "exec", dont_inherit=True)
