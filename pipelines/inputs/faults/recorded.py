"""Reads recorded outages and maps them to nodes and rounds of a run.

The files are tables of outages of named nodes, state profiles of SimGrid, and traces of the Failure Trace Archive (FTA)
and of LANL.
"""

from __future__ import annotations

import csv
import lzma
import math
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.contract.run_inputs import Floats, Ints, Overlay, index_in_group
from pipelines.errors import DataFileError, nearest
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.timeline import FOR_GOOD, MAX_OUTAGES, Outage
from pipelines.inputs.overlay.build import ids_by_name
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
_PARQUET = (".parquet", ".pq")
_DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, csv.Error, pd.errors.ParserWarning)
_FTA = ("platform_id", "node_id", "event_type", "event_start_time", "event_stop_time")
_LANL = ("System", "nodenumz", "Prob Started", "Prob Fixed")
_LANL_TIME = "%m/%d/%Y %H:%M"
_FTA_DOWN = 0
_OPEN = ("NULL", "NA", "NONE", "\\N")
"""The strings that stand for an unknown stop time.

An event with an unknown stop time lasts until the next event of its node, or until the end of the trace.
"""
_SECONDS = 3600.0
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class NamedOutages:
    """The outages that a table lists, one for each row.

    Attributes:
        down: The time of the crash of each row.
        up: The time of the recovery of each row; NaN if the node stays down.
        is_rounds: Whether `down` and `up` contain rounds instead of milliseconds.
    """

    table: FileTable
    nodes: tuple[str, ...]
    down: Moments
    up: Moments
    is_rounds: bool


@cached_until_changed(maxsize=32)
def _format_of(path: Path, given: str | None) -> tuple[str, list[str]]:
    if path.suffix in _PARQUET or given in ("named", "simgrid"):
        return given or "named", []
    with readable(path), open_data(path) as stream:
        head = stream.read(_HEAD)
        first = head.partition(b"\n")[0].decode("utf-8-sig").strip()
        # The Failure Trace Archive separates column names by blanks after "#", LANL by commas.
        is_fta = first.startswith("#")
        column_names = first.lstrip("# ").split() if is_fta else [*map(str.strip, next(csv.reader([first])))]
    if given is not None:
        return given, column_names
    text = head.decode("utf-8-sig", "replace")
    titles = {name.lower() for name in split(text).first}
    if _LOOP.search(text):
        return "simgrid", []
    if all(titles.intersection(_COLUMNS[name]) for name in ("node", "down")):
        return "named", []
    for kind, name in (("fta", "event_type"), ("lanl", "Prob Started")):
        if name in column_names:
            return kind, column_names
    raise DataFileError(
        f"{path} is not a trace: its first line is {', '.join(column_names)[:200]!r}; give a table with the columns"
        " node, down and up (named), an event_trace.tab of the Failure Trace Archive (fta), the LANL CSV (lanl), or"
        " name its format"
    )


def recorded_outages(
    path: Path, spec: CrashTrace, overlay: Overlay, nodes: Ints, rounds: tuple[int, int], time: TimeSpec, seed: int,
    purpose: str,
) -> list[Outage]:  # fmt: skip
    """Returns the outages of `nodes` that a file describes, in the rounds from ``rounds[0]`` to ``rounds[1]``.

    A table names its nodes; rows of nodes that are not in `nodes` are skipped. A profile applies to all of `nodes`. The
    nodes of a trace are mapped to `nodes` (see `mapped`).
    """
    kind, _ = _format_of(path, spec.format)
    if kind == "simgrid":
        spans = _of_profile(path, spec.unit or "s", time, rounds[1])
        found = [Outage(node, *span) for node in nodes.tolist() for span in spans]
    elif kind == "named":
        found = _of_table(path, _table(path, spec.unit), overlay, {*nodes.tolist()}, time)
    else:
        found = mapped(load_trace(path, spec.format, spec.system), spec, nodes, rounds, seed, purpose)
    first, last = rounds
    chosen = [one._replace(start=max(one.start, first)) for one in found if one.start <= last and one.end > first]
    if len(chosen) > MAX_OUTAGES:
        cure = "give fewer rounds or nodes, or more hours_per_round"
        raise DataFileError(f"{path} makes {len(chosen)} crashes, more than {MAX_OUTAGES}; {cure}")
    return chosen


def outage_notes(path: Path, spec: CrashTrace, time: TimeSpec) -> list[str]:
    """Returns notes for the user on how the times in a table of outages become rounds, one for each column of times.

    The list is empty for a file of another format, and for a table of rounds. `path` must be readable.
    """
    if _format_of(path, spec.format)[0] != "named":
        return []
    table = _table(path, spec.unit)
    times = () if table.is_rounds else (("down", table.down), ("up", table.up))
    return [moments.note(f"{title} of {path.name}", time.with_origin(table.down.origin_ms)) for title, moments in times]


def has_timestamps(path: Path, spec: CrashTrace) -> bool:
    """Returns whether a file is a table of outages whose times are timestamps; `path` must be readable."""
    return _format_of(path, spec.format)[0] == "named" and _table(path, spec.unit).down.origin_ms is not None


def _text(path: Path) -> str:
    with readable(path), open_data(path) as stream:
        return stream.read().decode("utf-8-sig")


@cached_until_changed(maxsize=4)
def _table(path: Path, unit: str | None) -> NamedOutages:
    if path.suffix in _PARQUET:
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
    raise DataFileError(f"{path} repeats more than {MAX_OUTAGES} times in the run; give fewer rounds")


@dataclass(frozen=True)
class Trace:
    """The outages of a trace, disjoint for each node and sorted by (node, start).

    Attributes:
        n_nodes: The number of nodes in the trace; nodes are numbered from 0.
        node: The node of each outage; shape (outages,).
        start: The start in hours from the beginning of the trace; shape (outages,).
        end: The end in hours from the beginning of the trace; shape (outages,).
        hours: The length of the trace in hours.
    """

    n_nodes: int
    node: Ints
    start: Floats
    end: Floats
    hours: float


@cached_until_changed(maxsize=4)
def load_trace(path: Path, format_: str | None, system: int | None) -> Trace:
    """Reads the outages in a trace.

    If `format_` is `None`, the names of the columns determine the format, ``fta`` or ``lanl``. `system` is the number
    of a computer system in a LANL trace; None reads the outages of all systems.
    """
    given, column_names = _format_of(path, format_)
    wanted = _FTA if given == "fta" else _LANL
    for name in wanted:
        if name not in column_names:
            message = f"{path} has no column {name!r}, which format {given} needs;{nearest(name, column_names)}"
            raise DataFileError(f"{message} its columns: {', '.join(column_names)[:200]!r}")
    return _fta(path, column_names, system) if given == "fta" else _lanl(path, system)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Converts an error about the content of trace `path` to a `DataFileError`."""
    try:
        yield
    except _DAMAGED as error:
        told = " ".join(str(error).split())
        raise DataFileError(f"{path} cannot be read as a trace: {told}; check the file") from error


def _read(path: Path, **options: object) -> pd.DataFrame:
    with readable(path), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with too many cells
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig", index_col=False, **options)


def _fta(path: Path, column_names: list[str], system: int | None) -> Trace:
    if system is not None:
        message = "system is for traces of LANL, and this one is of the Failure Trace Archive; leave it out"
        raise DataFileError(message, "system")
    rows = _read(path, sep=r"\s+", comment="#", header=None, names=column_names)
    numbers = rows[list(_FTA)].apply(pd.to_numeric, errors="coerce").astype(np.float64)
    is_open = rows["event_stop_time"].str.upper().isin(_OPEN)
    following = numbers.sort_values("event_start_time", kind="stable").groupby(["platform_id", "node_id"])
    last = numbers[["event_start_time", "event_stop_time"]].max().max()
    stops = following["event_start_time"].shift(-1).reindex(numbers.index).fillna(last)
    numbers["event_stop_time"] = numbers["event_stop_time"].where(~is_open, stops)
    _refuse(path, rows, ~np.isfinite(numbers).all(axis=1), "is not a row of numbers")
    node, is_down = numbers.groupby(["platform_id", "node_id"]).ngroup(), numbers["event_type"] == _FTA_DOWN
    return _trace(path, node, numbers["event_start_time"], numbers["event_stop_time"], is_down.to_numpy())


def _lanl(path: Path, system: int | None) -> Trace:
    rows = _read(path)
    rows.columns = rows.columns.str.strip()
    if system is not None:
        systems = rows["System"].unique()
        rows = rows[rows["System"] == str(system)]
        if not len(rows):
            known = ", ".join(sorted(systems, key=lambda name: (len(name), name))[:40])
            raise DataFileError(f"the trace has no system {system}; its systems: {known}", "system")
    rows = rows[rows["nodenumz"] != ""]  # failures of a whole system have no node number
    key = rows[["System", "nodenumz"]].apply(pd.to_numeric, errors="coerce").astype(np.float64)
    times = rows[["Prob Started", "Prob Fixed"]].apply(pd.to_datetime, format=_LANL_TIME, errors="coerce")
    _refuse(path, rows, ~np.isfinite(key).all(axis=1) | times.isna().any(axis=1), "lacks a node number or a time")
    seconds = times.apply(lambda column: (column - pd.Timestamp(0)) / pd.Timedelta(seconds=1))
    node = key.groupby(["System", "nodenumz"]).ngroup()
    return _trace(path, node, seconds["Prob Started"], seconds["Prob Fixed"], np.ones(len(rows), dtype=np.bool_))


def _refuse(path: Path, rows: pd.DataFrame, is_wrong: pd.Series, what: str) -> None:
    if is_wrong.any():
        row = rows.index[is_wrong][0]
        text = " ".join(rows.loc[row].astype(str))[:100]
        n = is_wrong.sum()
        raise DataFileError(f"row {row + 1} of {path} {what}: {text!r}; {n} in all; correct or remove them")


def _trace(path: Path, node: pd.Series, start: pd.Series, end: pd.Series, is_down: npt.NDArray[np.bool_]) -> Trace:
    # Times are in seconds. An event during which the node is up adds no outage, but adds the node to the trace and can
    # extend the trace.
    if not len(node):
        raise DataFileError(f"{path} has no events of nodes; give a trace with one or more")
    backwards = np.flatnonzero(end.to_numpy() < start.to_numpy())
    if len(backwards):
        row, number = int(node.index[backwards[0]]), len(backwards)
        raise DataFileError(f"row {row + 1} of {path} ends before it starts; {number} in all; correct or remove them")
    begin = float(start.min())
    outages = pd.DataFrame({"node": node, "start": start - begin, "end": end - begin})[is_down]
    outages = outages.sort_values(["node", "start"])
    last_end = outages.groupby("node")["end"].cummax().groupby(outages["node"]).shift()
    is_first = ~(outages["start"] <= last_end)  # also of the first outage of a node, whose `last_end` is NaN
    merged = outages.groupby(is_first.cumsum()).agg({"node": "first", "start": "first", "end": "max"})
    starts, ends = (merged[name].to_numpy(np.float64) / _SECONDS for name in ("start", "end"))
    hours = (float(end.max()) - begin) / _SECONDS
    return Trace(int(node.max()) + 1, merged["node"].to_numpy(np.int64), starts, ends, hours)


def shuffled(trace: Trace, seed: int, purpose: str) -> Trace:
    """Returns a copy of a trace in which the up times and the down times of each node are permuted at random."""
    down = (trace.end - trace.start)[_permuted(trace.node, seed, f"{purpose}.down")]
    up = _up_times(trace, seed, purpose)
    end = pd.Series(up + down).groupby(trace.node).cumsum().to_numpy()
    return Trace(trace.n_nodes, trace.node, end - down, end, trace.hours)


def _up_times(trace: Trace, seed: int, purpose: str) -> Floats:
    # The permutation of a node's up times includes the up time after its last outage.
    before = np.where(index_in_group(trace.node) == 0, 0.0, np.roll(trace.end, 1))
    last_end = np.zeros(trace.n_nodes)
    np.maximum.at(last_end, trace.node, trace.end)
    owner = np.concatenate([trace.node, np.arange(trace.n_nodes)])
    order = np.argsort(owner, kind="stable")
    owner = owner[order]
    up = np.concatenate([trace.start - before, trace.hours - last_end])[order]
    is_before = index_in_group(owner) < np.bincount(trace.node, minlength=trace.n_nodes)[owner]
    drawn: Floats = up[_permuted(owner, seed, f"{purpose}.up")][is_before]
    return drawn


def _permuted(owner: Ints, seed: int, purpose: str) -> Ints:
    # Returns a permutation that moves each row only among the rows of its owner; the owners are ascending.
    return np.lexsort((draws_numpy.bits(seed, purpose, owner, index_in_group(owner)), owner)).astype(np.int64)


def mapped(
    trace: Trace, spec: CrashTrace, nodes: Ints, rounds: tuple[int, int], seed: int, purpose: str
) -> list[Outage]:
    """Returns the outages of a trace as outages of `nodes`, if they overlap the rounds ``rounds[0]`` to ``rounds[1]``.

    1. Pair nodes of the trace with nodes of `nodes` at random; every node of the smaller set gets a different partner.
    2. If ``spec.shuffled`` is set, permute the up times and the down times of each node.
    3. Map hour ``spec.skip_hours`` to the first round. Earlier outages have earlier rounds.
    4. Round the length of each outage to whole rounds, at least one.
    """
    n_mapped = min(len(nodes), trace.n_nodes)
    lent = _drawn(trace.n_nodes, n_mapped, seed, f"{purpose}.lent")
    target = np.full(trace.n_nodes, -1, dtype=np.int64)
    target[lent] = nodes[np.sort(_drawn(len(nodes), n_mapped, seed, f"{purpose}.borrowing"))]
    if spec.shuffled:
        trace = shuffled(trace, seed, purpose)
    first, last = rounds
    start = first + np.floor((trace.start - spec.skip_hours) / spec.hours_per_round + _ROUNDING)
    end = start + np.clip(np.rint((trace.end - trace.start) / spec.hours_per_round), 1.0, FOR_GOOD)
    chosen = (target[trace.node] >= 0) & (start <= last) & (end > first)
    columns = (column[chosen].tolist() for column in (target[trace.node], start, end))
    return [Outage(*map(int, row)) for row in zip(*columns, strict=True)]


def _drawn(size: int, count: int, seed: int, purpose: str) -> Ints:
    order = np.argsort(draws_numpy.bits(seed, purpose, np.arange(size, dtype=np.int64)), kind="stable")
    return order[:count].astype(np.int64)
