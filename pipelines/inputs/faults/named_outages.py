"""Reads outages of named nodes from tables (columns node, down and up), and state profiles of SimGrid."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.errors import DataFileError, nearest
from pipelines.inputs.faults.timeline import FOR_GOOD, MAX_OUTAGES, Outage, OutageLimitError
from pipelines.inputs.faults.traces import readable
from pipelines.inputs.overlay.nodes import ids_by_name
from pipelines.inputs.text_rows import cached_until_changed, open_data, split
from pipelines.inputs.timestamps import Moments, moments_of
from pipelines.scenario.faults import CrashTrace
from pipelines.scenario.times import Clock

_NODE = ("node", "host", "name", "node_name", "broker")
_DOWN = ("down", "start", "begin", "from", "crash", "failed", "down_at")
_UP = ("up", "end", "until", "stop", "to", "recovery", "recovered", "up_at")
_MS = {"ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6}
_PROFILE = ("PERIODICITY", "LOOPAFTER")
_SHOWN = 5
_HEAD = 65_536


@dataclass(frozen=True, eq=False)
class NamedOutages:
    """The outages that a table lists, one for each row.

    Attributes:
        places: The position of each row in the file, for error messages.
        nodes: The name of the node of each row.
        down: The time of the crash of each row.
        up: The time of the recovery of each row; NaN if the node stays down.
        is_rounds: Whether `down` and `up` contain rounds instead of milliseconds.
    """

    places: tuple[str, ...]
    nodes: tuple[str, ...]
    down: Moments
    up: Moments
    is_rounds: bool


@dataclass(frozen=True)
class Profile:
    """A state profile of SimGrid.

    Attributes:
        seconds: The times of state changes, ascending.
        is_up: For each entry of `seconds`, whether the node is up from this time on.
        period: Seconds after which the profile repeats; None if the profile does not repeat.
    """

    seconds: tuple[float, ...]
    is_up: tuple[bool, ...]
    period: float | None


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
        first = split(stream.read(_HEAD).decode("utf-8-sig", "replace")).first
    if first and first[0].split()[0] in _PROFILE:
        return "simgrid"
    column_names = [name.lower() for name in first]
    return "named" if all(any(name in column_names for name in names) for names in (_NODE, _DOWN)) else None


def outages_of_file(
    path: Path, spec: CrashTrace, overlay: Overlay, nodes: Ints, rounds: tuple[int, int], clock: Clock
) -> list[Outage]:
    """Returns the outages of `nodes` that a file describes, in the rounds from ``rounds[0]`` to ``rounds[1]``.

    A table names its nodes; rows of nodes that are not in `nodes` are skipped. A profile applies to all of `nodes`.

    Raises:
        DataFileError: The file cannot be used; the message names the rows.
        OutageLimitError: The file has more than `MAX_OUTAGES` crashes.
    """
    if named_format(path, spec.format) == "simgrid":
        spans = _of_profile(_profile(path), spec.unit or "s", clock, rounds[1])
        found = [Outage(node, *span) for node in nodes.tolist() for span in spans]
    else:
        found = _of_table(path, _table(path, spec.unit), overlay, {*nodes.tolist()}, clock)
    first, last = rounds
    chosen = [one._replace(start=max(one.start, first)) for one in found if one.start <= last and one.end > first]
    if len(chosen) > MAX_OUTAGES:
        raise OutageLimitError(f"it makes {len(chosen)} crashes, more than {MAX_OUTAGES}")
    return chosen


def outage_notes(path: Path, spec: CrashTrace, clock: Clock) -> list[str]:
    """Returns notes for the user on how the times in a table of outages become rounds, one for each column of times.

    The list is empty for a file of another format, and for a table of rounds. `path` must be readable.
    """
    if named_format(path, spec.format) != "named":
        return []
    table = _table(path, spec.unit)
    times = () if table.is_rounds else (("down", table.down), ("up", table.up))
    return [moments.note(f"{title} of {path.name}", _on_clock(table, clock)) for title, moments in times]


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
            rows = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"{path} cannot be read as Parquet: {error}; check the file") from error
        places = tuple(f"row {number + 1}" for number in range(rows.num_rows))
    else:
        lines = split(_text(path))
        table = lines.table(lines.first, skip=1)
        rows, places = table.rows, tuple(table.place(row) for row in range(table.rows.num_rows))
    column_names = [name.lower() for name in rows.column_names]
    columns = []
    for wanted, known in (("node", _NODE), ("down", _DOWN), ("up", _UP)):
        place = next((column_names.index(name) for name in known if name in column_names), None)
        if place is None:
            shown = ", ".join(map(repr, rows.column_names[:20]))
            raise DataFileError(f"{path} has no column {wanted!r}, which format named needs; its columns: {shown}")
        columns.append(rows.column(place))
    names = pc.utf8_normalize(pc.utf8_trim_whitespace(pc.cast(columns[0], pa.string())), form="NFC").to_pylist()
    given = unit if unit in ("ms", "s") else None
    down, up = (moments_of(column, given) for column in columns[1:])
    scale = _MS.get(unit or "", 1.0) if unit in ("min", "h") else 1.0
    down, up = (Moments(of.ms * scale, of.is_wrong, of.origin_ms, of.form) for of in (down, up))
    is_rounds = unit in (None, "round") and down.origin_ms is None
    for title, times in (("down", down), ("up", up)):
        is_wrong = times.is_wrong | ((times.ms % 1 != 0) & ~np.isnan(times.ms) if is_rounds else False)
        is_wrong |= np.isnan(times.ms) if title == "down" else False
        if is_wrong.any():
            row = int(np.flatnonzero(is_wrong)[0])
            what = "round; rounds are whole numbers, and unit: ms or s counts otherwise" if is_rounds else "time"
            cell = columns[1 if title == "down" else 2][row].as_py()
            raise DataFileError(f"{path}, {places[row]}: {title} is {cell!r}, which is no {what}")
    return NamedOutages(places, tuple(name or "" for name in names), down, up, is_rounds)


def _on_clock(table: NamedOutages, clock: Clock) -> Clock:
    return clock if clock.origin_ms is not None else Clock(clock.round_ms, clock.speed, table.down.origin_ms)


def _of_table(path: Path, table: NamedOutages, overlay: Overlay, nodes: set[int], clock: Clock) -> list[Outage]:
    ids = ids_by_name(overlay)
    unknown = [row for row, name in enumerate(table.nodes) if name not in ids]
    if unknown:
        shown = ", ".join(f"{table.places[row]}: {table.nodes[row]!r}" for row in unknown[:_SHOWN])
        hint = nearest(table.nodes[unknown[0]], overlay.names)
        message = f"{path}: {len(unknown)} rows are of no node of the overlay, {shown};{hint} allowed: nodes of the"
        raise DataFileError(f"{message} overlay, or format: fta or lanl for nodes that are drawn")
    clock = _on_clock(table, clock)
    start, end = (
        of.ms.copy() if table.is_rounds else of.rounds(clock).astype(np.float64) for of in (table.down, table.up)
    )
    is_open = np.isnan(table.up.ms)
    backwards = np.flatnonzero(~is_open & (table.up.from_start(clock) <= table.down.from_start(clock)))
    if len(backwards):
        where = table.places[int(backwards[0])]
        raise DataFileError(f"{path}, {where}: up is not after down; {len(backwards)} in all; mend or remove them")
    end = np.where(is_open, FOR_GOOD, np.maximum(end, start + 1)).astype(np.int64)
    rows = zip(table.nodes, start.astype(np.int64).tolist(), end.tolist(), strict=True)
    return [Outage(ids[name], max(down, 0), up) for name, down, up in rows if ids[name] in nodes and up > 0]


@cached_until_changed(maxsize=32)
def _profile(path: Path) -> Profile:
    period, seconds, is_up = None, list[float](), list[bool]()
    for number, line in enumerate(_text(path).splitlines(), start=1):
        fields = line.split("#")[0].split()
        try:
            if not fields:
                continue
            if fields[0] in _PROFILE:
                period = float(fields[1])
            else:
                seconds.append(float(fields[0]))
                is_up.append(float(fields[1]) > 0)
        except (ValueError, IndexError) as error:
            message = f"{path}, line {number}: {line.strip()[:60]!r} is no line of a state profile"
            raise DataFileError(f"{message}; allowed: time and state 0 or 1, or PERIODICITY and seconds") from error
    if not seconds or any(later <= one for one, later in pairwise(seconds)):
        raise DataFileError(f"{path} has no times, or they do not ascend; a state profile has one or more, ascending")
    is_loop_short = period is not None and 0 < period < seconds[-1] - seconds[0]
    if is_loop_short:
        raise DataFileError(f"{path} repeats after {period:g} s, before its last time; give a longer period")
    return Profile(tuple(seconds), tuple(is_up), period if period is not None and period > 0 else None)


def _of_profile(profile: Profile, unit: str, clock: Clock, last: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    down: int | None = None
    offset = 0.0
    while True:
        for time, is_up in zip(profile.seconds, profile.is_up, strict=True):
            exact = offset + time if unit == "round" else clock.exact((offset + time) * _MS[unit])
            round_ = int(np.floor(exact + 0.5))
            if is_up and down is not None:
                spans.append((down, max(round_, down + 1)))
                down = None
            elif not is_up and down is None:
                down = round_
            if round_ > last or len(spans) > MAX_OUTAGES:
                return spans if down is None else [*spans, (down, FOR_GOOD)]
        if profile.period is None:
            return spans if down is None else [*spans, (down, FOR_GOOD)]
        offset += profile.period
