"""``roundtable list``: what there is, a line each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from pipelines.cli.lines import print_lines

_FARTHEST = 32
"""Spaces before what goes on in the next line, at most."""
Lines = Sequence[tuple[str, str]]


def _protocols() -> Lines:
    from pipelines.protocols import BROKEN, PROTOCOLS, origin

    own = [(name, f"{spec.summary} [{origin(name)}]") for name, spec in PROTOCOLS.items()]
    return own + [(name, f"not there: {reason}") for name, reason in BROKEN.items()]


def _scenarios() -> Lines:
    from pipelines.scenario.load import shipped

    return [(name, _summary(path)) for name, path in shipped().items()]


def _summary(path: Path) -> str:
    """Returns the first sentence of the comment at the top of a scenario file."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("# yaml-language-server")]
    comment = " ".join(line.removeprefix("#").strip() for line in takewhile(lambda line: line.startswith("#"), lines))
    return re.split(r"(?<=[.?!])\s+(?=[A-Z0-9δ])", comment, maxsplit=1)[0]


def _overlays() -> Lines:
    from pipelines.inputs.overlay.build import describe

    return describe()


def _workloads() -> Lines:
    from pipelines.inputs.workload.build import describe

    return describe()


def _faults() -> Lines:
    from pipelines.inputs.faults.build import describe

    return describe()


def _audits() -> Lines:
    from pipelines.audits.run import describe

    return describe()


GROUPS: Mapping[str, Callable[[], Lines]] = {
    "protocols": _protocols,
    "overlays": _overlays,
    "workloads": _workloads,
    "faults": _faults,
    "audits": _audits,
    "scenarios": _scenarios,
}


def print_groups(names: Sequence[str], form: str, out: TextIO) -> None:
    """Prints groups of names with what they are.

    Args:
        names: The groups.
        form: ``table``: a line each, below a heading where there are several groups; else as in `rows.write_rows`.
        out: Where to.
    """
    if form != "table":
        from pipelines.cli.rows import write_rows

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
            print_lines(f"{margin}{key:{width}}  {summary}", indent=min(width + 2, _FARTHEST), out=out)
