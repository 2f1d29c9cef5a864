"""Reads outages of named nodes from tables (columns node, down and up), and state profiles of SimGrid."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.errors import DataFileError, nearest
from pipelines.inputs.faults.timeline import FOR_GOOD, MAX_OUTAGES, Outage, OutageLimitError
from pipelines.inputs.faults.traces import readable
from pipelines.inputs.overlay.nodes import ids_by_name
from pipelines.inputs.text_rows import FileTable, cached_until_changed, is_number, names_of, open_data, split
from pipelines.inputs.timestamps import Moments, moments_of
from pipelines.scenario.faults import CrashTrace
from pipelines.scenario.times import MS_OF, TimeSpec

R = TypeVar("R")
_COLUMNS = {
    "node": ("node", "host", "name", "node_name", "broker"),
    "down": ("down", "start", "begin", "from", "crash", "failed", "down_at"),
    "up": ("up", "end", "until", "stop", "to", "recovery", "recovered", "up_at"),
}
_LOOP = re.compile(r"^[ \t]*(PERIODICITY|LOOPAFTER)[ \t]+([^\s#%]+)[ \t\r]*(?:[#%].*)?$", re.MULTILINE)
"""The line that repeats a profile of SimGrid.

PERIODICITY is the time between the starts of two iterations. LOOPAFTER is the time from the last state change of an
iteration to the start of the next iteration.
"""
_SHOWN = 5
_HEAD = 65_536


@dataclass(frozen=True, eq=False)
class NamedOutages:
    """The outages that a table lists, one for each row.

    Attributes:
        table: The rows of the file.
        nodes: The name of the node of each row.
        down: The time of the crash of each row.
        up: The time of the recovery of each row; NaN if the node stays down.
        is_rounds: Whether `down` and `up` contain rounds instead of milliseconds.
    """

    table: FileTable
    nodes: tuple[str, ...]
    down: Moments
    up: Moments
    is_rounds: bool


def named_format(path: Path, given: str | None) -> str | None:
    """Returns the format of a file: ``named`` for a table, ``simgrid`` for a profile, and None for any other format.

    Raises:
        DataFileError: The file cannot be read.
    """
    if given is not None:
        return given if given in ("named", "simgrid") else None
    if path.suffix in (".parquet", ".pq"):
        return "named"
    with readable(path), open_data(path) as stream:
        head = stream.read(_HEAD).decode("utf-8-sig", "replace")
    if _LOOP.search(head):
        return "simgrid"
    column_names = [name.lower() for name in split(head).first]
    wanted = (_COLUMNS["node"], _COLUMNS["down"])
    return "named" if all(any(name in column_names for name in names) for names in wanted) else None


def outages_of_file(
    path: Path, spec: CrashTrace, overlay: Overlay, nodes: Ints, rounds: tuple[int, int], time: TimeSpec
) -> list[Outage]:
    """Returns the outages of `nodes` that a file describes, in the rounds from ``rounds[0]`` to ``rounds[1]``.

    A table names its nodes; rows of nodes that are not in `nodes` are skipped. A profile applies to all of `nodes`.

    Raises:
        DataFileError: The file cannot be read, or rows are invalid. The message names the rows.
        OutageLimitError: The file has more than `MAX_OUTAGES` crashes.
    """
    if named_format(path, spec.format) == "simgrid":
        spans = _of_profile(path, spec.unit or "s", time, rounds[1])
        found = [Outage(node, *span) for node in nodes.tolist() for span in spans]
    else:
        found = _of_table(path, _table(path, spec.unit), overlay, {*nodes.tolist()}, time)
    first, last = rounds
    chosen = [one._replace(start=max(one.start, first)) for one in found if one.start <= last and one.end > first]
    if len(chosen) > MAX_OUTAGES:
        raise OutageLimitError(f"it makes {len(chosen)} crashes, more than {MAX_OUTAGES}")
    return chosen


def outage_notes(path: Path, spec: CrashTrace, time: TimeSpec) -> list[str]:
    """Returns notes for the user on how the times in a table of outages become rounds, one for each column of times.

    The list is empty for a file of another format, and for a table of rounds. `path` must be readable.
    """
    if named_format(path, spec.format) != "named":
        return []
    table = _table(path, spec.unit)
    times = () if table.is_rounds else (("down", table.down), ("up", table.up))
    return [moments.note(f"{title} of {path.name}", time.with_origin(table.down.origin_ms)) for title, moments in times]


def has_timestamps(path: Path, spec: CrashTrace) -> bool:
    """Returns whether a file is a table of outages whose times are timestamps; `path` must be readable."""
    return named_format(path, spec.format) == "named" and _table(path, spec.unit).down.origin_ms is not None


def _text(path: Path) -> str:
    with readable(path), open_data(path) as stream:
        return stream.read().decode("utf-8-sig")


@cached_until_changed(maxsize=4)
def _table(path: Path, unit: str | None) -> NamedOutages:
    if path.suffix in (".parquet", ".pq"):
        try:
            table = FileTable(pq.read_table(path))
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"{path} cannot be read as Parquet: {error}; check the file") from error
    else:
        lines = split(_text(path))
        table = lines.table(lines.first, skip=1)
    rows = table.rows
    if not rows.num_rows:
        raise DataFileError(f"{path} has no rows; give a table with one outage or more")
    node, down, up = (_column(path, rows, wanted, known) for wanted, known in _COLUMNS.items())
    names = tuple(name or "" for name in _converted(path, node, names_of).to_pylist())
    given = None if unit == "round" else unit
    times = [_converted(path, column, lambda cells: moments_of(cells, given)) for column in (down, up)]
    kinds = {of.origin_ms is None for of in times if not np.isnan(of.ms).all()}
    if len(kinds) > 1:
        raise DataFileError(f"{path} has timestamps in one of its columns down and up only; give both as timestamps")
    is_rounds = unit in (None, "round") and times[0].origin_ms is None
    for title, of, column in zip(("down", "up"), times, (down, up), strict=True):
        is_wrong = of.is_wrong | ((of.ms % 1 != 0) & ~np.isnan(of.ms) if is_rounds else False)
        is_wrong |= np.isnan(of.ms) if title == "down" else False
        if is_wrong.any():
            row = int(np.flatnonzero(is_wrong)[0])
            what = "round; rounds are whole numbers, and unit: ms or s counts otherwise" if is_rounds else "time"
            cell = pc.cast(column, pa.string())[row].as_py()
            raise DataFileError(f"{path}, {table.place(row)}: {title} is {cell!r}, which is not a {what}")
    _refuse_down_again(path, table, names, *times)
    return NamedOutages(table, names, times[0], times[1], is_rounds)


def _column(path: Path, rows: pa.Table, wanted: str, known: tuple[str, ...]) -> pa.ChunkedArray:
    column_names = [name.lower() for name in rows.column_names]
    name = next((name for name in known if name in column_names), None)
    if name is None:
        shown = ", ".join(map(repr, rows.column_names[:20]))
        raise DataFileError(f"{path} has no column {wanted!r}, which format named needs; its columns: {shown}")
    if column_names.count(name) > 1:
        raise DataFileError(f"{path} has {column_names.count(name)} columns called {name!r}; rename all but one")
    return rows.column(column_names.index(name))


def _converted(path: Path, column: pa.ChunkedArray, convert: Callable[[pa.ChunkedArray], R]) -> R:
    try:
        return convert(column)
    except pa.ArrowException as error:
        message = f"{path} has a column of type {column.type} for node, down or up"
        raise DataFileError(f"{message}; give names as strings, and times as numbers or timestamps") from error


def _refuse_down_again(path: Path, table: FileTable, names: tuple[str, ...], down: Moments, up: Moments) -> None:
    # A row without a recovery must be the last outage of its node.
    last: dict[str, int] = {}
    for row in np.lexsort((~np.isnan(up.ms), down.ms)).tolist():
        if names[row] in last:
            message = (
                f"{names[row]!r} is down for good from {table.place(last[names[row]])} on; remove one of the two rows"
            )
            raise DataFileError(f"{path}, {table.place(row)}: {message}")
        if np.isnan(up.ms[row]):
            last[names[row]] = row


def _of_table(path: Path, listed: NamedOutages, overlay: Overlay, nodes: set[int], time: TimeSpec) -> list[Outage]:
    ids = ids_by_name(overlay)
    unknown = [row for row, name in enumerate(listed.nodes) if name not in ids]
    if unknown:
        shown = ", ".join(f"{listed.table.place(row)}: {listed.nodes[row]!r}" for row in unknown[:_SHOWN])
        hint = nearest(listed.nodes[unknown[0]], overlay.names)
        message = f"{path}: {len(unknown)} rows are of no node of the overlay, {shown};{hint} allowed: nodes of the"
        raise DataFileError(f"{message} overlay, or format: fta or lanl for nodes that are drawn")
    time = time.with_origin(listed.down.origin_ms)
    start, end = (
        of.ms.copy() if listed.is_rounds else of.rounds(time).astype(np.float64) for of in (listed.down, listed.up)
    )
    is_open = np.isnan(listed.up.ms)
    backwards = np.flatnonzero(~is_open & (listed.up.from_start(time) <= listed.down.from_start(time)))
    if len(backwards):
        where = listed.table.place(int(backwards[0]))
        raise DataFileError(f"{path}, {where}: up is not after down; {len(backwards)} in all; correct or remove them")
    end = np.where(is_open, FOR_GOOD, np.maximum(end, start + 1)).astype(np.int64)
    rows = zip(listed.nodes, start.astype(np.int64).tolist(), end.tolist(), strict=True)
    return [Outage(ids[name], max(down, 0), up) for name, down, up in rows if ids[name] in nodes and up > 0]


@cached_until_changed(maxsize=32)
def _profile(path: Path) -> tuple[list[tuple[float, bool]], float | None]:
    """Returns the state changes of a profile, and the seconds after which it repeats, or None if it does not repeat.

    A state change is a pair of its time in seconds, ascending, and whether the node is up from this time on.
    """
    text = _text(path)
    changes = list[tuple[float, bool]]()
    for number, line in enumerate(_LOOP.sub("", text).splitlines(), start=1):
        fields = re.split("[#%]", line)[0].split()
        if not fields:
            continue
        if len(fields) != 2 or not all(is_number(field) and math.isfinite(float(field)) for field in fields):
            message = f"{path}, line {number}: {line.strip()[:60]!r} is not a line of a state profile"
            raise DataFileError(f"{message}; allowed: time and state 0 or 1, or PERIODICITY and seconds")
        changes.append((float(fields[0]), float(fields[1]) > 0))
    if not changes or any(later < one for (one, _), (later, _) in pairwise(changes)):
        raise DataFileError(f"{path} has no times, or they do not ascend; a state profile has one or more, ascending")
    loop, (last, _) = _LOOP.search(text), changes[-1]
    word, given = loop.groups() if loop else ("", "0")
    delay = float(given) if is_number(given) else math.nan
    if delay <= 0:
        return changes, None
    period = delay + (last if word == "LOOPAFTER" else 0.0)
    if not last <= period < math.inf:
        message = f"{path} repeats after {given} s, before its last time or never"
        raise DataFileError(f"{message}; give a period that is finite, and the last time or longer")
    return changes, period


def _of_profile(path: Path, unit: str, time: TimeSpec, last: int) -> list[tuple[int, int]]:
    changes, period = _profile(path)
    spans: list[tuple[int, int]] = []
    down: int | None = None
    for iteration in range(MAX_OUTAGES + 1):
        offset = iteration * (period or 0.0)
        for second, is_up in changes:
            exact = offset + second if unit == "round" else time.in_rounds((offset + second) * MS_OF[unit])
            round_ = int(np.floor(exact + 0.5))
            if is_up and down is not None:
                spans.append((down, max(round_, down + 1)))
                down = None
            elif not is_up and down is None:
                down = round_
            if round_ > last or len(spans) > MAX_OUTAGES:
                return spans if down is None else [*spans, (down, FOR_GOOD)]
        if period is None:
            return spans if down is None else [*spans, (down, FOR_GOOD)]
    raise OutageLimitError(f"its profile repeats more than {MAX_OUTAGES} times in the run")
