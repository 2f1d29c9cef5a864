"""Times in milliseconds and timestamps, in lists and files, become the nearest rounds; the rounding error is told."""

from __future__ import annotations

import cProfile
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.real_data import shared_case

from pipelines.errors import ScenarioError
from pipelines.experiment.build import build_run
from pipelines.experiment.plan import check, notes
from pipelines.experiment.prepared import prepare
from pipelines.inputs.timestamps import moments_of
from pipelines.scenario.times import with_rounds

BASE: dict[str, Any] = {
    "name": "t",
    "protocol": {"name": "forwarding"},
    "overlay": {"links": [["A", "B"], ["B", "C"]]},
    "time": {"rounds": 200, "round_ms": 10},
}


def scenario(time: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    return {**BASE, **parts, "time": {**BASE["time"], **(time or {})}}


def rounds_of(given: dict[str, Any]) -> tuple[list[tuple[int, int | None]], list[int], list[tuple[int, int | None]]]:
    """Rounds of subscriptions with their ends, of publications, and of crashes with their ends."""
    prepared = prepare(given)
    _, workload, faults, _ = build_run(prepared.runs[0], None)
    spans = [workload.subscription.select(["round", "end_round"]), faults.crash.select(["round", "end_round"])]
    listed = [[(row[a], row[b]) for row in rows.to_pylist()] for rows, (a, b) in
              zip(spans, [("round", "end_round")] * 2, strict=True)]  # fmt: skip
    return listed[0], workload.publication["round"].to_pylist(), listed[1]


def told(given: dict[str, Any] | Path) -> list[str]:
    prepared = prepare(given)
    check(prepared)
    return [f"{part}: {note}" for part, note in notes(prepared)]


def problems(given: dict[str, Any]) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        check(prepare(given))
    return [problem.partition(" ")[2] for problem in caught.value.problems]


def test_milliseconds_become_the_nearest_rounds() -> None:
    given = scenario(
        workload={
            "subscriptions": [{"at": "A", "at_ms": 14.9, "until_ms": 1505, "topic": "a"}],
            "publications": [{"at": "A", "at_ms": ms, "topic": "a"} for ms in (0, 4.9, 5, 104, 1995)],
        },
        faults=[
            {"kind": "crash", "node": "B", "at_ms": 300, "until_ms": 301},
            {"kind": "crash", "node": "C", "round": 7, "until_ms": 95},
        ],
    )
    assert rounds_of(given) == ([(1, 151)], [0, 0, 1, 10, 200], [(7, 10), (30, 31)])
    assert "time: rounds are up to 9 ms away from at_ms and until_ms, farthest at faults.0" in told(given)


def test_a_run_may_be_faster_than_its_times() -> None:
    given = scenario({"speed": 4}, workload={"publications": [{"at": "A", "at_ms": 1000, "topic": "a"}]})
    assert rounds_of(given)[1] == [25]
    given["time"]["round_ms"] = 5
    assert rounds_of(given)[1] == [50]


def test_every_value_of_a_grid_has_its_own_rounds() -> None:
    given = scenario(workload={"publications": [{"at": "A", "at_ms": 100, "topic": "a"}]})
    prepared = prepare({**given, "runs": {"grid": {"time.round_ms": [10, 20, 50]}}})
    found = [build_run(run, None)[1].publication["round"].to_pylist() for run in prepared.runs]
    assert found == [[10], [5], [2]]


@pytest.mark.parametrize(
    ("times", "rounds"),
    [
        (["2024-03-01T10:00:00.000Z", "2024-03-01T11:00:00.250+01:00", "2024-03-01 10:00:01"], [0, 25, 100]),
        ([1709287200000, 1709287200250, 1709287201000], [0, 25, 100]),
    ],
)
def test_timestamps_in_lists_count_from_the_first_or_from_the_origin(times: list[Any], rounds: list[int]) -> None:
    given = scenario(workload={"publications": [{"at": "A", "at_ms": time, "topic": "a"} for time in times]})
    assert rounds_of(given)[1] == rounds
    given["time"]["origin"] = "2024-03-01T09:59:59.500Z"
    assert rounds_of(given)[1] == [round_ + 50 for round_ in rounds]
    given["time"]["origin"] = 1709287201000
    assert problems(given)[0].startswith("at_ms is 1000 ms before the start; set time.origin to it")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"at_ms": "soon"}, "'soon' is not a timestamp; allowed: ISO 8601 such as '2024-03-01T10:00:00.250Z'"),
        ({"at_ms": -1}, "is -1; allowed: a number from 0"),
        ({"at_ms": True}, "at_ms is true;"),
        ({"at_ms": 500, "round": 7}, "at_ms is round 50, and round is 7; allowed: one of the two"),
        ({"at_ms": 9000}, "round: 900 is after the horizon"),
    ],
)
def test_a_time_that_cannot_be_used_is_refused(item: dict[str, Any], words: str) -> None:
    assert words in problems(scenario(workload={"publications": [{"at": "A", "topic": "a", **item}]}))[0]


STAMPS = pd.to_datetime(["2024-03-01T10:00:00Z", "2024-03-01T10:00:00.257Z", "2024-03-01T10:00:01Z"], format="ISO8601")
STAMPS = STAMPS.as_unit("ns")
FORMS: dict[str, Any] = {
    "ISO 8601": [stamp.isoformat() for stamp in STAMPS],
    "seconds from 1970": (STAMPS.astype("int64") / 1e9).tolist(),
    "milliseconds from 1970": (STAMPS.astype("int64") // 10**6).tolist(),
    "microseconds from 1970": (STAMPS.astype("int64") // 1000).tolist(),
    "nanoseconds from 1970": STAMPS.astype("int64").tolist(),
    "milliseconds from the start": [0, 257, 1000],
    "timestamps": list(STAMPS),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_times_in_files_are_found_and_told(tmp_path: Path, form: str, suffix: str) -> None:
    path = tmp_path / f"calls.{suffix}"
    frame = pd.DataFrame({"when": FORMS[form], "node": ["A", "B", "C"], "topic": "a"})
    if suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        pq.write_table(pa.Table.from_pandas(frame), path)
    file = {"path": str(path), "node": "node", "topic": "topic", "at_ms": "when"}
    given = scenario(workload={"publications": {"file": file}})
    assert rounds_of(given)[1] == [0, 26, 100]
    (note,) = told(given)
    assert note.startswith(f"workload: column when holds {'timestamps' if form == 'ISO 8601' else form}"[:30])
    assert "rounds are up to 3 ms away" in note
    if "start" not in form:
        assert "round 0 is 2024-03-01T10:00:00.000Z, the first timestamp (time.origin overrides this)" in note
        given["time"] |= {"origin": "2024-03-01T09:59:59Z", "speed": 2}
        assert rounds_of(given)[1] == [50, 63, 100]


def test_times_from_the_start_are_not_before_it_and_may_be_exact(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    file = {"path": str(path), "node": "node", "topic": "topic", "at_ms": "when"}
    given = scenario(workload={"publications": {"file": file}})
    path.write_text("when,node,topic\n0,A,a\n1000,B,a\n")
    assert told(given) == ["workload: column when holds milliseconds from the start"]
    path.write_text("when,node,topic\n0,A,a\n-1000,B,a\n")
    assert problems(given) == ["row 2: '-1000' is before round 0; write 0 or more"]


def test_timestamps_without_an_offset_are_in_utc_in_any_order() -> None:
    hours = {"2024-03-10T02:30:00+01:00": 1.5, "2024-03-10 03:30": 3.5, "2024-03-10": 0.0, "2024-03-10T05:00-02": 7.0}
    for order in permutations(hours):
        found = moments_of(pa.chunked_array([[None, *order, "soon"]]), None)
        assert (found.ms[1:-1] / 3_600_000).tolist() == [hours[text] for text in order]
        assert found.is_wrong.tolist() == [False] * 5 + [True]


def test_a_unit_counts_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text("t,end,node,topic\n0.25,1.5,A,a\n1,,B,a\n")
    file = {"path": str(path), "topic": "topic", "at_ms": "t", "until_ms": "end", "unit": "s"}
    assert rounds_of(scenario(workload={"subscriptions": {"file": file}}))[0] == [(25, 150), (100, None)]
    stamp = "2024-03-01T10:00:0{}Z".format
    path.write_text(f"t,end,node,topic\n{stamp(2)},{stamp(3)},A,a\n{stamp(1)},,B,a\n")
    file = {"path": str(path), "topic": "topic", "at_ms": "t", "until_ms": "end"}
    assert rounds_of(scenario(workload={"subscriptions": {"file": file}}))[0] == [(100, 200), (0, None)]
    file = {"path": str(path), "topic": "topic", "until": "end"}
    path.write_text("end,node,topic\n15,A,a\n,B,a\n")
    assert rounds_of(scenario(workload={"subscriptions": {"file": file}}))[0] == [(0, 15), (0, None)]


@pytest.mark.parametrize(
    ("rows", "file", "words"),
    [
        ("2024-03-01T10:00:00Z,A\nnoon,A\n", {"at_ms": "t"}, "row 2: 'noon' is not a time; allowed: ms from the start"),
        ("1e300,A\n", {"at_ms": "t"}, "row 1: '1e300' is not a time; allowed: ms from the start"),
        ("1700000000000,A\n253402300800000,A\n", {"at_ms": "t"}, "row 2: '253402300800000' is not a time"),
        ("5,A\n,A\n", {"at_ms": "t"}, "row 2: the cell is empty; give it a time"),
        ("5,A\n3000,A\n", {"at_ms": "t"}, "row 2: round 300 is after the horizon of 200 rounds; raise time.rounds"),
        ("5,A\n", {"at_ms": "t", "round": 3}, "at_ms and round are given; allowed: one of the two"),
        ("5,A\n", {"unit": "s"}, "unit is given without at_ms"),
        ("2024-03-01,A\n", {"round": "t"}, "'2024-03-01' is not a round; the column contains times: write at_ms: t in"),
        (
            "1709287200.0,A\n1709287200.5,A\n",
            {"round": "t"},
            "the column contains times: write at_ms: t in place of round",
        ),
    ],
)
def test_times_in_files_that_cannot_be_used_are_refused(
    tmp_path: Path, rows: str, file: dict[str, Any], words: str
) -> None:
    (tmp_path / "calls.csv").write_text("t,node\n" + rows)
    given = {"path": str(tmp_path / "calls.csv"), "node": "node", "content": ["t"], **file}
    assert words in problems(scenario(workload={"publications": {"file": given}}))[0]


def test_several_parts_with_timestamps_need_an_origin(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text("t,node,topic\n2024-03-01T10:00:00Z,A,a\n")
    (tmp_path / "down.csv").write_text("node,down,up\nB,2024-03-01T10:00:01Z,\n")
    file = {"path": str(tmp_path / "calls.csv"), "node": "node", "topic": "topic", "at_ms": "t"}
    trace = {"generate": {"kind": "crash", "trace": {"path": str(tmp_path / "down.csv")}}}
    given = scenario(workload={"publications": {"file": file}}, faults=[trace])
    (problem,) = problems(given)
    assert "workload.publications.file.at_ms and faults.0.generate.trace have timestamps; set time.origin" in problem
    given["time"]["origin"] = "2024-03-01T10:00:00Z"
    assert rounds_of(given) == ([], [0], [(100, None)])


@pytest.mark.parametrize("name", ["wl_iso", "wl_epoch"])
def test_the_workloads_that_failed_are_refused_with_the_cure_and_read_with_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared_case("files", f"{name}.yaml")
    column = {"wl_iso": "time", "wl_epoch": "ts"}[name]
    with pytest.raises(ScenarioError, match=f"the column contains times: write at_ms: {column} in place of round"):
        check(prepare(path))
    monkeypatch.chdir(path.parent)
    text = path.read_text().replace(f"round: {column}", f"at_ms: {column}")
    _, workload, *_ = build_run(prepare(text).runs[0], None)
    rows = pd.read_csv(path.parent / "w" / f"{name.removeprefix('wl_')}.csv")
    stamps = pd.to_datetime(rows[column], **({"unit": "s"} if name == "wl_epoch" else {"format": "ISO8601"}))
    wanted = np.rint((stamps - stamps.min()) / pd.Timedelta(milliseconds=250)).astype(int).tolist()
    assert workload.publication["round"].to_pylist() == wanted == [0, 1, 4]
    assert [eval(text)["value"] for text in workload.publication["content"].to_pylist()] == rows.value.tolist()  # noqa: S307


def test_the_number_of_calls_is_linear_in_the_number_of_times() -> None:
    n_calls = []
    for n_items in (1000, 2000):
        items = [{"at": "A", "topic": "a", "at_ms" if index % 2 else "round": index} for index in range(n_items)]
        profile = cProfile.Profile()
        found = profile.runcall(with_rounds, {"workload": {"publications": items}, "time": {"round_ms": 10}})
        rounds = [item["round"] for item in found["workload"]["publications"]]
        assert rounds == [(index + 5) // 10 if index % 2 else index for index in range(n_items)]
        n_calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert n_calls[1] < 2.1 * n_calls[0]
