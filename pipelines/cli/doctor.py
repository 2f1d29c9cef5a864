"""``roundtable doctor``: what this machine has for a run, and whether a small one works."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from pipelines.cli.lines import print_lines
from pipelines.cli.rows import write_rows
from pipelines.engines.names import check_java
from pipelines.engines.settings import heap_megabytes
from pipelines.errors import EngineError, RoundtableError

_GIB = 1024**3
_LEAST_MEMORY_GIB = 4
_LEAST_DISK_GIB = 2
_TEST = "single_crash"


@dataclass(frozen=True)
class Check:
    """What was looked at.

    Attributes:
        name: What.
        is_well: Whether it is as it should be.
        found: What was found, and what to do where it is not.
        is_needed: Whether no run works without it; otherwise its lack is a warning.
    """

    name: str
    is_well: bool
    found: str
    is_needed: bool = True

    @property
    def sign(self) -> str:
        """What stands before it in a list."""
        return "ok" if self.is_well else "--" if self.is_needed else "!"


def checks() -> Iterator[Check]:
    """Yields what is found, the self-test last."""
    yield Check("python", True, f"{platform.python_version()}, {sys.executable}")
    yield Check("engine local", True, f"pysail {version('pysail')}, needs no Java")
    yield _spark()
    yield _jars()
    yield _memory()
    yield _disk(Path.cwd())
    yield _self_test()


def _spark() -> Check:
    try:
        java = check_java()
    except EngineError as error:
        return Check("engine spark", False, str(error), is_needed=False)
    heap = heap_megabytes()
    return Check("engine spark", True, f"pyspark {version('pyspark')}, Java {java}, a heap of {heap or '?'} MB")


def _jars() -> Check:
    from pipelines.engines.jars import cached_jars

    jars = cached_jars()
    if not jars:
        return Check("spark's jars", True, "not here yet: the first run on spark fetches about 50 MB")
    size = sum(jar.stat().st_size for jar in jars) / 1024**2
    return Check("spark's jars", True, f"{len(jars)} files of {size:.0f} MB in {jars[0].parent}")


def _memory() -> Check:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    except (AttributeError, OSError, ValueError):
        return Check("memory", True, "cannot be told here")
    hint = "" if total >= _LEAST_MEMORY_GIB else f"; below {_LEAST_MEMORY_GIB} GiB take --engine local"
    return Check("memory", not hint, f"{total:.1f} GiB, {os.cpu_count()} cores{hint}", is_needed=False)


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free / _GIB
    writable = os.access(folder, os.W_OK)
    hint = "" if free >= _LEAST_DISK_GIB else "; make room: large stores take gigabytes"
    hint += "" if writable else "; it cannot be written: go to another folder, or name one with --store"
    return Check("disk", not hint, f"{free:.1f} GiB free in {folder}{hint}", is_needed=not writable)


def _self_test() -> Check:
    from pipelines.api import run

    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, run(_TEST, store=Path(folder, "store"), engine="local") as result:
            verdict = result.verdict
    except RoundtableError as error:
        return Check("self-test", False, str(error))
    seconds = time.monotonic() - started
    return Check("self-test", verdict == "valid", f"{_TEST} on local: {verdict}, in {seconds:.1f} s")


def print_checks(form: str, out: TextIO) -> bool:
    """Prints what is found.

    Args:
        form: ``table``: a line a check, as it is made; else as in `rows.write_rows`.
        out: Where to.

    Returns:
        Whether all that a run needs is well.
    """
    made = []
    for check in checks():
        made.append(check)
        if form == "table":
            print_lines(f"{check.sign:3} {check.name:13} {check.found}", indent=18, out=out)
            out.flush()
    if form != "table":
        write_rows(pa.Table.from_pylist([asdict(check) for check in made]), form, out)
    return all(check.is_well or not check.is_needed for check in made)
