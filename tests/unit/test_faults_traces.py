"""Recorded outages: the formats, the real files that users bring, scaling, mapping, shuffling, and files of no use."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from support.real_data import shared_data

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError
from pipelines.inputs.faults.build import build_faults
from pipelines.inputs.faults.recorded import Trace, load_trace, mapped, shuffled
from pipelines.scenario.faults import CrashTrace, Fault
from pipelines.scenario.times import TimeSpec

FAULTS: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])
GRID5000 = "fta_grid5000/event_trace.site3_site7_only.tab.xz"
LANL = "lanl/LA-UR-05-7318-failure-data-1996-2005.csv.xz"

FTA_TITLES = "# event_id node_id platform_id node_name event_type event_start_time event_stop_time event_end_reason\n"
LANL_TITLES = "System,nodenumz,Prob Started,Prob Fixed,Same Event\n"

Row = tuple[int, int, int | None]


def line(count: int) -> Overlay:
    ends = np.arange(count - 1, dtype=np.int64)
    return Overlay(tuple(f"N{i}" for i in range(count)), ends, ends + 1, np.ones(count - 1, dtype=np.int64))


def crashes(path: Path, *, nodes: int = 2, seed: int = 0, horizon: int = 100, **settings: Any) -> list[Row]:
    trace = {key: settings.pop(key) for key in tuple(settings) if key in CrashTrace.model_fields}
    faults = [{"generate": {"kind": "crash", "trace": {"path": str(path), **trace}, **settings}}]
    found = build_faults(
        FAULTS.validate_python(faults),
        overlay=line(nodes),
        linked=line(nodes),
        seed=seed,
        time=TimeSpec(rounds=horizon),
        beside=path.parent,
        kinds=(),
    )
    return [tuple(row.values()) for row in found.crash.to_pylist()]


def fta(*rows: tuple[int, int, float, float]) -> str:
    """Returns the text of a trace from node, type (0 down, 1 up), start and end in hours."""
    lines = (
        f"{i:5}\t{node:5}\t    5\tG1/node{node}\t    {kind}\t{round(start * 3600):13}\t{round(end * 3600):13}\t NULL\n"
        for i, (node, kind, start, end) in enumerate(rows)
    )
    return FTA_TITLES + "".join(lines)


def lanl(*rows: tuple[int, int | str, float, float]) -> str:
    """Returns the text of a trace from system, node, start and end in hours of 2001."""
    begin = datetime(2001, 1, 1)
    clock = "%m/%d/%Y %H:%M"
    lines = (
        f"{system},{node},{(begin + timedelta(hours=start)).strftime(clock)},"
        f"{(begin + timedelta(hours=end)).strftime(clock)},No\n"
        for system, node, start, end in rows
    )
    return LANL_TITLES + "".join(lines)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    raw = text.encode()
    path.write_bytes(
        lzma.compress(raw) if path.suffix == ".xz" else gzip.compress(raw) if path.suffix == ".gz" else raw
    )
    return path


def load(path: Path, **settings: Any) -> Trace:
    spec = CrashTrace(path=str(path), **settings)
    return load_trace(path, spec.format, spec.system)


@pytest.mark.parametrize("name", ["a.tab", "a.tab.xz", "a.gz"])
def test_an_archive_trace_in_rounds(tmp_path: Path, name: str) -> None:
    path = written(
        tmp_path, name, fta((7, 1, 0, 10), (7, 0, 10, 14.4), (7, 1, 14.4, 90), (7, 0, 90, 90.1), (7, 0, 99, 200))
    )
    assert crashes(path, nodes=1) == [(0, 10, 14), (0, 90, 91), (0, 99, None)]
    assert crashes(path, nodes=1, hours_per_round=2.0) == [(0, 5, 7), (0, 45, 46), (0, 49, 99)]
    assert crashes(path, nodes=1, hours_per_round=0.1, horizon=1000) == [(0, 100, 144), (0, 900, 901), (0, 990, None)]
    assert crashes(path, nodes=1, skip_hours=12.0, rounds=[30, 60]) == [(0, 30, 32)]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.xz"])
def test_a_lanl_trace_in_rounds(tmp_path: Path, name: str) -> None:
    text = lanl((2, 0, 0, 1), (2, 0, 30, 33.6), (2, "", 5, 9), (3, 0, 6, 8))
    path = written(tmp_path, name, text)
    assert crashes(path, nodes=1, system=2) == [(0, 0, 1), (0, 30, 34)]
    assert crashes(path, nodes=1, system=3) == [(0, 0, 2)]
    assert Counter(until - start for _, start, until in crashes(path) if until is not None) == {1: 1, 4: 1, 2: 1}


def test_outages_of_a_node_that_overlap_are_one(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a.csv", lanl((2, 0, 0, 1), (2, 0, 10, 20), (2, 0, 12, 14), (2, 0, 20, 22), (2, 0, 22.2, 22.4))
    )
    assert load(path).start.tolist() == [0.0, 10.0, 22.2]
    assert crashes(path, nodes=1) == [(0, 0, 1), (0, 10, 23)]


def test_an_outage_of_the_first_round_begins_with_it_and_late_ones_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tab", fta((7, 1, 0, 5), (7, 0, 5, 25), (7, 0, 60, 65), (7, 0, 71, 75)))
    assert crashes(path, nodes=1, skip_hours=10.0, rounds=[20, 80]) == [(0, 20, 35), (0, 70, 75)]
    assert crashes(path, nodes=1, skip_hours=25.0, rounds=[20, 54]) == []


def test_nodes_of_the_trace_are_drawn_where_it_has_more_and_nodes_of_the_overlay_where_it_has_fewer(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "a.tab", fta((0, 1, 0, 1), *((node, 0, 10 + node, 11 + node) for node in range(20))))
    few = [crashes(path, nodes=3, seed=seed) for seed in range(30)]
    assert {node for rows in few for node, _, _ in rows} == {0, 1, 2}
    assert {len(rows) for rows in few} == {3}
    assert len({tuple(start for _, start, _ in rows) for rows in few}) == 30
    many = [crashes(path, nodes=40, seed=seed) for seed in range(30)]
    assert {tuple(start for _, start, _ in rows) for rows in many} == {tuple(range(10, 30))}
    assert {node for rows in many for node, _, _ in rows} == set(range(40))
    assert few[0] == crashes(path, nodes=3, seed=0)


def test_shuffling_keeps_the_up_and_down_times_of_each_node(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for node in (0, 1, 3):
        ends = np.cumsum(rng.integers(1, 50, size=20 + 2 * node)).tolist()
        rows += [(node, place % 2, a, b) for place, (a, b) in enumerate(pairwise(ends))]
    path = written(tmp_path, "a.tab", fta((2, 1, 0, 1500), *rows))
    before = load(path)
    after = [shuffled(before, seed, "t") for seed in range(5)]
    assert before.n_nodes == 4
    assert len({tuple(trace.start) for trace in after}) == 5
    for trace in after:
        for node in range(4):
            was, now = before.node == node, trace.node == node
            assert sorted(trace.end[now] - trace.start[now]) == pytest.approx(
                sorted(before.end[was] - before.start[was])
            )
            assert np.all(trace.start[now][1:] >= trace.end[now][:-1] - 1e-6)
            ups = [_ups(one.start[of], one.end[of], before.hours) for one, of in ((before, was), (trace, now))]
            assert sorted(ups[1]) == pytest.approx(sorted(ups[0]), abs=1e-6)


def _ups(start: Any, end: Any, hours: float) -> list[float]:
    return list(np.concatenate([start, [hours]]) - np.concatenate([[0.0], end]))


def _reference(name: str) -> dict[tuple[str, str], list[list[float]]]:
    """Reads the outages of the real files line by line: node → merged [start, end] in hours."""
    text = lzma.decompress(shared_data("failures", name).read_bytes()).decode()
    found: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    if name == LANL:
        for row in csv.DictReader(io.StringIO(text)):
            if row["nodenumz"]:
                times = [datetime.strptime(row[key], "%m/%d/%Y %H:%M") for key in ("Prob Started", "Prob Fixed")]
                found[row["System"], row["nodenumz"]].append(
                    [(time - datetime(1970, 1, 1)).total_seconds() / 3600 for time in times]
                )
    else:
        for row in text.splitlines()[1:]:
            cells = [cell.strip() for cell in row.split("\t")]
            found[cells[3], cells[2]] += [[int(cells[6]) / 3600, int(cells[7]) / 3600]] if cells[5] == "0" else []
    for key, spans in found.items():
        merged: list[list[float]] = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        found[key] = merged
    return found


@pytest.mark.parametrize(("name", "n_nodes"), [(GRID5000, 103), (LANL, 3576)])
def test_the_real_traces_hold_what_reading_them_line_by_line_gives(name: str, n_nodes: int) -> None:
    trace, reference = load(shared_data("failures", name)), _reference(name)
    assert trace.n_nodes == len(reference) == n_nodes
    assert len(trace.node) == sum(map(len, reference.values()))
    expected = sum(end - start for spans in reference.values() for start, end in spans)
    assert float((trace.end - trace.start).sum()) == pytest.approx(expected)
    assert sorted(np.bincount(trace.node, minlength=n_nodes)) == sorted(map(len, reference.values()))


def test_the_systems_of_lanl_are_told_apart() -> None:
    trace = load(shared_data("failures", LANL), system=20)
    assert trace.n_nodes == len([key for key in _reference(LANL) if key[0] == "20"]) == 400


def test_shuffling_grid5000_ends_the_correlation_of_its_outages() -> None:
    path = shared_data("failures", GRID5000)
    raw = crashes(path, nodes=100, horizon=10_000)
    mixed = crashes(path, nodes=100, horizon=10_000, shuffled=True)
    largest = [max(Counter(start for _, start, _ in rows).values()) for rows in (raw, mixed)]
    assert largest[0] > 40
    assert largest[1] < largest[0] / 2
    assert len(mixed) == pytest.approx(len(raw), rel=0.35)


def test_a_real_trace_within_a_number_of_nodes() -> None:
    path = shared_data("failures", GRID5000)
    rows = crashes(path, nodes=50, horizon=2000, hours_per_round=0.5, at_most=2, recovery=3, skip_hours=3000.0)
    down = np.zeros((2001, 50), dtype=bool)
    for node, start, until in rows:
        down[start : 2001 if until is None else until + 3, node] = True
    assert down.sum(axis=1).max() == 2
    assert len(rows) > 10


@pytest.mark.parametrize(
    ("name", "text", "key", "words"),
    [
        ("a.tab", "", "path", "its first line is ''"),
        ("a.tab", "hello\nworld\n", "path", "not a trace: its first line is 'hello'"),
        ("a.tab", FTA_TITLES, "path", "no events of nodes"),
        ("a.tab", FTA_TITLES.replace("stop_time", "stp_time"), "path", "did you mean 'event_stp_time'?"),
        ("a.tab", fta((1, 0, 5, 9)).replace("18000", "later"), "path", "row 1 of"),
        ("a.tab", fta((1, 0, 5, 9)).replace("18000", "inf"), "path", "row 1 of"),
        ("a.tab", fta((1, 0, 5, 9)).replace("G1/", "G1 "), "path", "cannot be read as a trace"),
        ("a.tab", fta((1, 1, 0, 5), (1, 0, 9, 5)), "path", "ends before it starts"),
        ("a.csv", LANL_TITLES.replace("nodenumz", "node"), "path", "no column 'nodenumz', which format lanl needs"),
        ("a.csv", lanl((2, 0, 5, 9)).replace("01/01/2001", "31.12.2001"), "path", "lacks a node number or a time"),
        ("a.csv", LANL_TITLES + "2,0\n", "path", "lacks a node number or a time"),
        ("a.csv", lanl((2, "", 5, 9)), "path", "no events of nodes"),
        ("a.tab.xz", "plain", "path", "cannot be read as a trace"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(
    tmp_path: Path, name: str, text: str, key: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        crashes(path)
    (problem,) = caught.value.problems
    assert problem.path == ("faults", 0, "generate", "trace", key)
    assert words in problem.message
    assert name in problem.message


def test_a_system_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", lanl((2, 0, 5, 9), (10, 0, 5, 9)))
    archive = written(tmp_path, "a.tab", fta((1, 0, 5, 9)))
    for file, words in ((path, "no system 7; its systems: 2, 10"), (archive, "for traces of LANL")):
        with pytest.raises(InputError, match=words) as caught:
            crashes(file, system=7)
        assert caught.value.problems[0].path[-1] == "system"


def test_files_truncated_anywhere_are_refused(tmp_path: Path) -> None:
    whole = lzma.compress(lanl(*((2, node, 5, 9) for node in range(300))).encode())
    for size in (10, len(whole) // 2, len(whole) - 3):
        path = tmp_path / f"{size}.csv.xz"
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match="cannot be read as a trace"):
            crashes(path)


def test_mapping_is_the_same_for_any_names(tmp_path: Path) -> None:
    trace = load(written(tmp_path, "a.tab", fta(*((node, 0, node, node + 2) for node in range(9)))))
    spec = CrashTrace(path="a.tab")
    outages = [mapped(trace, spec, np.array(ids), (0, 50), 3, "t") for ids in ([0, 1, 2, 3], [4, 6, 7, 9])]
    assert [outage[1:] for outage in outages[0]] == [outage[1:] for outage in outages[1]]
