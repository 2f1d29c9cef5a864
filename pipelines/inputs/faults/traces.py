"""Reads outages from traces of the Failure Trace Archive and of LANL; maps them to nodes and rounds of a run."""

from __future__ import annotations

import csv
import lzma
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from pipelines.contract.run_inputs import Floats, Ints, index_in_group
from pipelines.errors import DataFileError, nearest
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.timeline import FOR_GOOD, MAX_OUTAGES, Outage, OutageLimitError
from pipelines.inputs.text_rows import cached_until_changed, open_data
from pipelines.scenario.faults import CrashTrace

_DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, csv.Error, pd.errors.ParserWarning)
_MAX_LINE = 65_536
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

    Args:
        path: The path of the file.
        format_: ``fta`` or ``lanl``. If it is ``None``, the names of the columns determine the format.
        system: The number of a computer system in a LANL trace. Only outages of its nodes are read. None reads all
            outages.

    Raises:
        DataFileError: The file is damaged, its content does not match its format, or it lacks the system.
    """
    column_names = _column_names(path)
    given = format_ or ("fta" if "event_type" in column_names else "lanl" if "Prob Started" in column_names else None)
    if given is None:
        raise DataFileError(
            f"{path} is not a trace: its first line is {', '.join(column_names)[:200]!r}; give a table with the columns"
            " node, down and up (named), an event_trace.tab of the Failure Trace Archive (fta), the LANL CSV (lanl), or"
            " name its format"
        )
    wanted = _FTA if given == "fta" else _LANL
    for name in wanted:
        if name not in column_names:
            message = f"{path} has no column {name!r}, which format {given} needs;{nearest(name, column_names)}"
            raise DataFileError(f"{message} its columns: {', '.join(column_names)[:200]!r}")
    return _fta(path, column_names, system) if given == "fta" else _lanl(path, system)


def _column_names(path: Path) -> list[str]:
    with readable(path):
        with open_data(path) as stream:
            text = stream.readline(_MAX_LINE).decode("utf-8-sig").strip()
        # The Failure Trace Archive separates column names by blanks after "#", LANL by commas.
        return text.lstrip("# ").split() if text.startswith("#") else [*map(str.strip, next(csv.reader([text])))]


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
    of, low, high = (column.to_numpy()[is_down] for column in (node, start - begin, end - begin))
    order = np.lexsort((high, low, of))
    of, low, high = of[order].astype(np.int64), low[order], high[order]
    merged: list[tuple[int, float, float]] = []
    for one, from_, to in zip(of.tolist(), low.tolist(), high.tolist(), strict=True):
        if merged and merged[-1][0] == one and from_ <= merged[-1][2]:
            merged[-1] = (one, merged[-1][1], max(merged[-1][2], to))
        else:
            merged.append((one, from_, to))
    nodes, starts, ends = np.array(merged, dtype=np.float64).reshape(-1, 3).T
    hours = (float(end.max()) - begin) / _SECONDS
    return Trace(int(node.max()) + 1, nodes.astype(np.int64), starts / _SECONDS, ends / _SECONDS, hours)


def shuffled(trace: Trace, seed: int, purpose: str) -> Trace:
    """Returns a copy of a trace in which the up times and the down times of each node are permuted at random."""
    first = np.searchsorted(trace.node, np.arange(trace.n_nodes + 1))
    down = (trace.end - trace.start)[_permuted(trace.node, seed, f"{purpose}.down")]
    up = _up_times(trace, seed, purpose)
    total = np.concatenate([[0.0], np.cumsum(up + down)])
    end = total[1:] - total[first[trace.node]]
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
    """Returns the outages of a trace as outages of `nodes`, in the rounds from ``rounds[0]`` to ``rounds[1]``.

    1. Pair nodes of the trace with nodes of `nodes` at random; every node of the smaller set gets a different partner.
    2. If ``spec.shuffled`` is set, permute the up times and the down times of each node.
    3. Map hour ``spec.skip_hours`` to the first round; an outage that covers this hour starts in the first round.
    4. Round the length of each outage to whole rounds, at least one.

    Raises:
        OutageLimitError: The trace has more than `MAX_OUTAGES` crashes in these rounds.
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
    if chosen.sum() > MAX_OUTAGES:
        raise OutageLimitError(f"it makes {chosen.sum()} crashes, more than {MAX_OUTAGES}")
    columns = (target[trace.node], np.maximum(start, first), end)
    return [Outage(*map(int, row)) for row in zip(*(column[chosen].tolist() for column in columns), strict=True)]


def _drawn(size: int, count: int, seed: int, purpose: str) -> Ints:
    order = np.argsort(draws_numpy.bits(seed, purpose, np.arange(size, dtype=np.int64)), kind="stable")
    return order[:count].astype(np.int64)
