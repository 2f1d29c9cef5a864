"""The commands ``roundtable list`` and ``doctor``."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from pipelines.cli.printing import print_lines, write_rows
from pipelines.engines.names import WITH_TESTED_SPARK, WITHOUT_JAVA, AskedEngine, check_java, check_launch, check_spark
from pipelines.engines.settings import heap_megabytes
from pipelines.errors import EngineError, RoundtableError

_MAX_INDENT = 32
"""The maximum indent of the continuation lines of a summary."""
Lines = Sequence[tuple[str, str]]
"""Pairs of a name and its description."""
_GIB = 1024**3
_LEAST_MEMORY_GIB = 4
_LEAST_DISK_GIB = 2
_TEST = "single_crash"


def _protocols() -> Lines:
    from pipelines.protocols import BROKEN, PROTOCOLS, origin

    own = [(name, f"{spec.summary} [{origin(name)}]") for name, spec in PROTOCOLS.items()]
    return own + [(name, f"not available: {reason}") for name, reason in BROKEN.items()]


def _scenarios() -> Lines:
    from pipelines.scenario.load import shipped

    return [(name, _summary(path)) for name, path in shipped().items()]


def _summary(path: Path) -> str:
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("# yaml-language-server")]
    comment = " ".join(line.removeprefix("#").strip() for line in takewhile(lambda line: line.startswith("#"), lines))
    return re.split(r"(?<=[.?!])\s+(?=[A-Z0-9δ])", comment, maxsplit=1)[0]


def _described(module: str) -> Lines:
    lines: Lines = import_module(module).describe()
    return lines


GROUPS: Mapping[str, Callable[[], Lines]] = {
    "protocols": _protocols,
    "overlays": partial(_described, "pipelines.inputs.overlay.build"),
    "workloads": partial(_described, "pipelines.inputs.workload.build"),
    "faults": partial(_described, "pipelines.inputs.faults.build"),
    "audits": partial(_described, "pipelines.audits.run"),
    "scenarios": _scenarios,
}


def print_groups(names: Sequence[str], form: str, out: TextIO) -> None:
    """Prints groups of names (keys of `GROUPS`) with their descriptions.

    Form ``table`` prints one line per name, with headings if there are several groups. The other forms are those of
    `printing.write_rows`.
    """
    if form != "table":
        found = [{"group": group, "name": name, "what": what} for group in names for name, what in GROUPS[group]()]
        write_rows(pa.Table.from_pylist(found), form, out)
        return
    for name in names:
        lines = GROUPS[name]()
        width = max(len(key) for key, _ in lines)
        if len(names) > 1:
            print_lines(f"{name}:", out=out)
        for key, summary in lines:
            margin = "  " if len(names) > 1 else ""
            print_lines(f"{margin}{key:{width}}  {summary}", indent=min(width + 2, _MAX_INDENT), out=out)


@dataclass(frozen=True)
class Check:
    """A check of the installation.

    Attributes:
        found: The result as a phrase, with the remedy if the check failed.
        is_needed: Whether every run needs the component; otherwise a failed check is a warning.
    """

    name: str
    is_well: bool
    found: str
    is_needed: bool = True


def checks() -> Iterator[Check]:
    """Runs the checks and yields their results.

    The last check executes scenario `_TEST`: on engine local, or on engine auto if pysail is not installed.
    """
    yield Check("python", True, f"{platform.python_version()}, {sys.executable}")
    has_local = find_spec("pysail") is not None
    if has_local:
        yield Check("engine local", True, f"pysail {version('pysail')}, needs no Java")
    else:
        found = "package pysail is not installed; run pip install 'roundtable-pubsub[local]' to run without Java"
        yield Check("engine local", False, found, is_needed=False)
    if find_spec("delta"):
        yield _spark()
        yield _jars()
    else:
        found = "package delta-spark is not installed; run pip install 'roundtable-pubsub[spark]' to use Spark"
        yield Check("engine spark", False, found, is_needed=False)
    yield _memory()
    yield _disk(Path.cwd())
    yield _self_test("local" if has_local else "auto")


def _spark() -> Check:
    from pipelines.engines.jars import check_delta

    try:
        java = check_java()
        check_launch()
        check_spark(version("pyspark"), "the installed PySpark", WITH_TESTED_SPARK)
        check_delta(version("pyspark"), version("delta-spark"))
    except EngineError as error:
        return Check("engine spark", False, str(error), is_needed=False)
    heap = heap_megabytes()
    return Check("engine spark", True, f"pyspark {version('pyspark')}, Java {java}, a heap of {heap or '?'} MB")


def _jars() -> Check:
    from pipelines.engines.jars import cache_folder, cached_jars

    jars, folder = cached_jars(), cache_folder()
    if not jars:
        first = next(one for one in (folder, *folder.parents) if one.exists())
        if not (first.is_dir() and os.access(first, os.W_OK)):
            found = f"not cached, and {first} cannot be written; correct its rights, {WITHOUT_JAVA}"
            return Check("spark's jars", False, found, is_needed=False)
        return Check("spark's jars", True, "not cached: the first run on spark downloads about 50 MB")
    size = sum(jar.stat().st_size for jar in jars) / 1024**2
    return Check("spark's jars", True, f"{len(jars)} files of {size:.0f} MB in {jars[0].parent}")


def _memory() -> Check:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    except (AttributeError, OSError, ValueError):
        return Check("memory", True, "unknown on this system")
    hint = "" if total >= _LEAST_MEMORY_GIB else f"; below {_LEAST_MEMORY_GIB} GiB take --engine local"
    return Check("memory", not hint, f"{total:.1f} GiB, {os.cpu_count()} cores{hint}", is_needed=False)


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free / _GIB
    writable = os.access(folder, os.W_OK)
    hint = "" if free >= _LEAST_DISK_GIB else "; free disk space: large stores take gigabytes"
    hint += "" if writable else "; it cannot be written: go to another folder, or name one with --store"
    return Check("disk", not hint, f"{free:.1f} GiB free in {folder}{hint}", is_needed=not writable)


def _self_test(asked: AskedEngine) -> Check:
    from pipelines.api import run

    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, run(_TEST, store=Path(folder, "store"), engine=asked) as result:
            verdict, engine = result.verdict, result.session.engine
    except RoundtableError as error:
        return Check("self-test", False, str(error))
    seconds = time.monotonic() - started
    return Check("self-test", verdict == "valid", f"{_TEST} on {engine}: {verdict}, in {seconds:.1f} s")


def print_checks(form: str, out: TextIO) -> bool:
    """Runs the checks and prints their results; returns whether all checks with ``is_needed`` passed.

    Form ``table`` prints a line after each check. The other forms are those of `printing.write_rows`.
    """
    made = []
    for one in checks():
        made.append(one)
        if form == "table":
            sign = "ok" if one.is_well else "--" if one.is_needed else "!"
            print_lines(f"{sign:3} {one.name:13} {one.found}", indent=18, out=out)
            out.flush()
    if form != "table":
        write_rows(pa.Table.from_pylist([asdict(one) for one in made]), form, out)
    return all(one.is_well or not one.is_needed for one in made)
