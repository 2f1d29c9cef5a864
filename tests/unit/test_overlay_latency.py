"""Latencies that replace those of an overlay's source: fixed, drawn, and from matrices of round-trip times."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.real_data import shared_data

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.build import build_overlay, rounding_note
from pipelines.inputs.overlay.latency import to_rounds
from pipelines.inputs.overlay.weighted import WeightedGraph
from pipelines.scenario.overlay import Latency, OverlaySpec

PROJECT = Path(__file__).parents[2]
LINE = {"generate": {"kind": "line", "nodes": 2000}}


def build(
    overlay: dict[str, Any],
    *,
    seed: int = 0,
    round_ms: float = 1.0,
    needs_tree: bool = False,
    beside: Path | None = None,
) -> Overlay:
    spec = OverlaySpec.model_validate(overlay)
    return build_overlay(spec, seed=seed, round_ms=round_ms, needs_tree=needs_tree, beside=beside)


def refused(folder: Path, name: str, content: bytes | str, nodes: int = 3) -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        build({"generate": {"kind": "line", "nodes": nodes}, "latency": {"matrix": name}}, beside=folder)
    (problem,) = caught.value.problems
    assert problem.path == ("overlay", "latency", "matrix")
    return problem.message


def test_milliseconds_are_rounded_up_to_at_least_one_round() -> None:
    ms = np.array([0.0, 0.001, 9.999, 10.0, 10.001, 25.0])
    assert to_rounds(ms, 10.0).tolist() == [1, 1, 1, 1, 2, 3]
    assert to_rounds(np.array([1.1, 0.3, 0.7]), 0.1).tolist() == [11, 3, 7]


def test_fixed_latencies_override_those_of_the_links() -> None:
    links = [["A", "B", 9], ["B", "C"]]
    assert build({"links": links, "latency": {"rounds": 4}}, round_ms=7.0).latency_rounds.tolist() == [4, 4]
    assert build({"links": links, "latency": {"ms": 15.0}}, round_ms=7.0).latency_rounds.tolist() == [3, 3]


def test_uniform_latencies_take_every_value_alike_and_follow_the_seed() -> None:
    spec = {**LINE, "latency": {"uniform": [3, 6]}}
    drawn = build(spec, seed=5).latency_rounds
    assert np.allclose(np.bincount(drawn)[3:] / len(drawn), 0.25, atol=0.04)
    assert drawn.min() == 3
    assert drawn.max() == 6
    assert drawn.tolist() == build(spec, seed=5, round_ms=0.3).latency_rounds.tolist()
    assert drawn.tolist() != build(spec, seed=6).latency_rounds.tolist()


def test_lognormal_latencies_have_the_median_and_spread_that_are_given() -> None:
    spec = {**LINE, "latency": {"lognormal_ms": [40.0, 0.5]}}
    logs = np.log(build(spec, round_ms=0.01).latency_rounds * 0.01)
    assert np.exp(np.median(logs)) == pytest.approx(40.0, rel=0.05)
    assert logs.std() == pytest.approx(0.5, rel=0.05)


def test_a_link_has_the_same_drawn_latency_in_the_graph_and_in_its_tree() -> None:
    spec = {"generate": {"kind": "watts_strogatz", "nodes": 50, "probability": 0.2}, "latency": {"uniform": [1, 99]}}
    whole, tree = build(spec), build(spec, needs_tree=True)

    def links(overlay: Overlay) -> set[tuple[int, int, int]]:
        return set(zip(overlay.a.tolist(), overlay.b.tolist(), overlay.latency_rounds.tolist(), strict=True))

    assert links(tree) < links(whole)


@pytest.mark.parametrize("latency", [{"ms": 2e6}, {"lognormal_ms": [1.0, 1e9]}])
def test_a_latency_of_more_than_a_million_rounds_is_refused(latency: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="more than 1,000,000 rounds of 1 ms") as caught:
        build({**LINE, "latency": latency})
    assert caught.value.problems[0].path == ("time", "round_ms")


def test_planetlab_latencies_are_half_the_round_trip_of_rows_drawn_without_repetition() -> None:
    path = shared_data("latency", "planetlab490", "PlanetLabData_1.gz")
    rtt = np.loadtxt(path)
    overlay = build({"generate": {"kind": "line", "nodes": 490}, "latency": {"matrix": str(path)}}, round_ms=0.001)
    row = np.argsort(draws_numpy.bits(0, "overlay.latency.matrix", np.arange(490)))
    assert sorted(row.tolist()) == list(range(490))
    expected = (rtt[row[:-1], row[1:]] + rtt[row[1:], row[:-1]]) / 4.0
    assert np.abs(overlay.latency_rounds * 0.001 - expected).max() <= 0.0011
    other = build({"generate": {"kind": "line", "nodes": 490}, "latency": {"matrix": str(path)}}, seed=1)
    assert other.latency_rounds.tolist() != to_rounds(expected, 1.0).tolist()


def test_planetlab_is_too_small_for_more_nodes_than_it_has_rows() -> None:
    path = shared_data("latency", "planetlab490", "PlanetLabData_1.gz")
    with pytest.raises(InputError, match="490 rows and the overlay 491 nodes"):
        build({"generate": {"kind": "star", "nodes": 491}, "latency": {"matrix": str(path)}})


def test_aws_latencies_are_found_by_name_and_averaged_over_both_directions() -> None:
    path = shared_data("latency", "aws18", "latencies.csv")
    links = [["Mumbai", "Stockholm"], ["Stockholm", "Oregon"], ["Oregon", "N.California"]]
    overlay = build({"links": links, "latency": {"matrix": str(path)}}, round_ms=0.25)
    with path.open() as file:
        header, *rows = csv.reader(file)
    rtt = {(row[0], title): float(cell) for row in rows for title, cell in zip(header, row[1:], strict=True)}
    assert (rtt["Stockholm", "Mumbai"], rtt["Mumbai", "Stockholm"]) == (140.0, 137.0)
    assert overlay.latency_rounds.tolist() == [int(np.ceil((rtt[a, b] + rtt[b, a]) / 4.0 / 0.25)) for a, b in links]


OSLO = {"links": [["Oslo", "Bergen"], ["Bergen", "Narvik"]]}
OSLO_RTT = ",Oslo,Bergen,{}\nOslo,0,10,40\nBergen,10,0,60\n{},40,60,0\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (OSLO_RTT.format("Tromso", "Tromso"), "no row for 1 of 3 nodes: 'Narvik';"),
        (OSLO_RTT.format("Narwik", "Narwik"), "'Narvik' (did you mean 'Narwik'?);"),
        (OSLO_RTT.format("Narvik", "Narvik").lower(), "'Oslo' (did you mean 'oslo'?), 'Bergen' (did you mean"),
    ],
)
def test_a_node_without_a_row_of_its_name_is_an_error_with_the_names(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "m.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        build({**OSLO, "latency": {"matrix": "m.csv"}}, beside=tmp_path)
    [problem] = caught.value.problems
    assert problem.path == ("overlay", "latency", "matrix")
    assert words in problem.message
    assert "draw_rows: true" in problem.message


def test_the_rows_of_a_matrix_with_names_are_drawn_only_on_demand(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(OSLO_RTT.format("Narvik", "Narvik"))
    named = {**OSLO, "latency": {"matrix": "m.csv"}}
    assert build(named, beside=tmp_path).latency_rounds.tolist() == [5, 30]
    (tmp_path / "m.csv").write_text(OSLO_RTT.format("Tromso", "Tromso"))
    spec = {**OSLO, "latency": {"matrix": "m.csv", "draw_rows": True}}
    drawn = {tuple(build(spec, seed=seed, beside=tmp_path).latency_rounds.tolist()) for seed in range(20)}
    assert len(drawn) > 3
    assert drawn <= {(a, b) for a in (5, 20, 30) for b in (5, 20, 30)}


def test_drawn_rows_of_a_matrix_without_names_are_told(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("0 10 40\n10 0 60\n40 60 0\n")
    [note] = build({**OSLO, "latency": {"matrix": "m.txt"}}, beside=tmp_path).notes
    assert "m.txt has no names: the seed draws the row of each node" in note
    assert build({**OSLO, "latency": {"matrix": "m.txt", "draw_rows": True}}, beside=tmp_path).notes == ()


def test_draw_rows_needs_a_matrix() -> None:
    with pytest.raises(ValueError, match="draw_rows is given without matrix"):
        Latency(ms=3.0, draw_rows=True)


def test_a_matrix_may_have_a_title_in_its_corner_and_rows_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("B,A,C\nA,20,0,8\nC,6,12,0\nB,0,40,2\n")
    (tmp_path / "b.csv").write_text("rtt,B,A,C\nA,20,0,8\nC,6,12,0\nB,0,40,2\n")
    for name in ("a.csv", "b.csv"):
        overlay = build({"links": [["A", "B"], ["B", "C"]], "latency": {"matrix": name}}, beside=tmp_path)
        assert overlay.latency_rounds.tolist() == [15, 2], name


@pytest.mark.parametrize(
    "text",
    [
        "0\t20\t8\t\n20\t0\t8\t\n8\t8\t0\t\n",
        "% ms\n0;20;8\n20;0;8\n8;8;0\n",
        "0  20 8 \n20  0 8\n8 8  0\n",
        "0, 20, 8\n20, 0, nan\nnan, 8, 0\n",
        "0;20,0;8\n20;0,0;8\n8;8,0;0\n",
    ],
)
def test_a_matrix_without_names_may_have_any_delimiter(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.csv").write_text(text)
    spec = {"generate": {"kind": "ring", "nodes": 3}, "latency": {"matrix": "m.csv", "draw_rows": True}}
    overlay = build(spec, beside=tmp_path)
    assert sorted(overlay.latency_rounds.tolist()) == [4, 4, 10]
    assert overlay.notes[:1] == (("m.csv has decimal commas in 2",) if "20,0" in text else overlay.notes[:1])


def test_a_matrix_with_names_may_have_decimal_commas_and_an_empty_last_column(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(";A;B;C;\nA;0;20,5;1;\nB;20,5;0;8;\nC;1;8,0;0;\n")
    overlay = build({"links": [["A", "B"], ["B", "C"]], "latency": {"matrix": "m.csv"}}, beside=tmp_path)
    assert overlay.latency_rounds.tolist() == [11, 4]
    assert "m.csv has decimal commas in A, B" in "; ".join(overlay.notes)


def test_the_tree_is_cut_by_the_latencies_of_the_matrix(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("N1,N2,N3\nN1,0,2,2\nN2,2,0,2.5\nN3,2,2.4,0\n")
    ring = {"generate": {"kind": "ring", "nodes": 3}, "latency": {"matrix": "m.csv"}}
    overlay = build(ring, needs_tree=True, beside=tmp_path)
    assert list(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True)) == [(0, 1), (0, 2)]


def test_the_sample_matrix_fits_the_sample_overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = {
        "file": {"path": "datasets/overlays/harbours.graphml"},
        "latency": {"matrix": "datasets/overlays/harbours_rtt.csv"},
    }
    overlay = build(spec)
    assert overlay.names[:2] == ("Lisbon", "Bordeaux")
    assert overlay.latency_rounds[0] == 9  # (19 + 17) / 4
    assert overlay.latency_rounds.tolist() == build(spec, seed=9).latency_rounds.tolist()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("m.txt", "0 1 2\n1 0 2\n", "2 lines of 3 numbers"),
        ("m.txt", "0 1\nx 0\n", "line 2: the delay is 'x'"),
        ("m.txt", "0 1\n1\n", "line 2: 1 cells, and the first line has 2"),
        ("m.txt", "0 -1\n1 0\n", "line 1: the delay is -1"),
        ("m.txt", "0 nan nan\nnan 0 1\nnan 1 0\n", "add them, or write missing: mean"),
        ("m.txt", "", "no rows"),
        ("m.txt", "hello\n", "no rows"),
        ("m.txt", "0 1\n1_0 0\n", "line 2: the delay is '1_0'"),
        ("m.txt", b"\xff\x00", "not UTF-8 text"),
        ("m.gz", b"no gzip", "cannot be unpacked"),
        ("m.gz", gzip.compress(b"0 1\n1 0\n", mtime=0)[:-9], "cannot be unpacked"),
        ("m.gz", gzip.compress(b"0 1\n1 0\n", mtime=0), "the matrix has 2 rows and the overlay 3 nodes"),
        ("m.csv", "", "no rows"),
        ("m.csv", "A,B\nA,0,1\nB,1\n", "line 3: 2 cells, and the first line has 3"),
        ("m.csv", "A,B\nA,0,1\nBB,1,0\n", "line 3: no column is called 'BB'"),
        ("m.csv", "A,B\nA,0,1\nB,x,0\n", "line 3: the delay is 'x'"),
        ("m.csv", "A,B\nA,0,1\n", "no row is called 'B'"),
        ("m.csv", "A,A\nA,0,1\n", "twice"),
        ("m.csv", "A,B\nA,0,1\nB,1,0\nA,0,2\n", "line 4: the row 'A' already exists"),
        ("m.csv", 'A,B\n"A,0,1\n', "line 2: "),
    ],
)
def test_a_matrix_that_cannot_be_used_says_why(tmp_path: Path, name: str, content: bytes | str, words: str) -> None:
    message = refused(tmp_path, name, content)
    assert words in message
    assert "\n" not in message


PAIRS = "source,destination,ms\nA,B,10\nB,A,80\nB,C,4\nC,D,0\n"
SQUARE = {"links": [["A", "B"], ["B", "C"], ["C", "D"]]}


def of_pairs(folder: Path, text: str = PAIRS, **latency: Any) -> Overlay:
    (folder / "pairs.csv").write_text(text)
    return build({**SQUARE, "latency": {"pairs": "pairs.csv", **latency}}, beside=folder)


def test_a_list_of_pairs_is_taken_as_pandas_reads_it(tmp_path: Path) -> None:
    overlay = of_pairs(tmp_path)
    rows = pd.read_csv(tmp_path / "pairs.csv")
    pairs = {frozenset(ends) for ends in rows[["source", "destination"]].itertuples(index=False, name=None)}
    wanted = [
        rows.ms[[frozenset(ends) == pair for ends in zip(rows.source, rows.destination, strict=True)]].mean()
        for pair in sorted(pairs, key=sorted)
    ]
    assert overlay.latency_rounds.tolist() == [max(int(np.ceil(ms)), 1) for ms in wanted] == [45, 4, 1]
    assert overlay.back_rounds is None
    assert any(
        "1 of 3 links differ by direction, by up to 70 ms, so both have the mean" in note for note in overlay.notes
    )


def test_a_list_of_pairs_has_latencies_of_each_direction(tmp_path: Path) -> None:
    overlay = of_pairs(tmp_path, per_direction=True)
    assert overlay.directed_rounds.tolist() == [10, 4, 1, 80, 4, 1]
    assert of_pairs(tmp_path, per_direction=True, round_trip=True).directed_rounds.tolist() == [5, 2, 1, 40, 2, 1]
    assert of_pairs(tmp_path, per_direction=True, unit="s").directed_rounds.tolist()[:2] == [10_000, 4000]


@pytest.mark.parametrize(("missing", "rounds"), [("mean", {32}), ("draw", {10, 80, 4})])
def test_holes_are_an_error_or_filled_as_the_scenario_says(tmp_path: Path, missing: str, rounds: set[int]) -> None:
    with pytest.raises(InputError, match="no latency for 1 of 3 links: 'C' - 'D'; add them, or write missing: mean"):
        of_pairs(tmp_path, zero_is_unknown=True)
    overlay = of_pairs(tmp_path, zero_is_unknown=True, missing=missing)
    assert overlay.latency_rounds.tolist()[:2] == [45, 4]
    assert overlay.latency_rounds.tolist()[2] in rounds  # (10 + 80 + 4) / 3 = 31.3
    assert any(f"1 link of 3 without a latency in pairs.csv: missing is {missing}" in note for note in overlay.notes)


def test_a_matrix_with_holes_names_its_links(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(",A,B,C,D\nA,0,20,,\nB,,0,8,\nC,,8,0,\nD,,,,0\n")
    spec = {**SQUARE, "latency": {"matrix": "m.csv"}}
    with pytest.raises(InputError, match="no latency for 1 of 3 links: 'C' - 'D'"):
        build(spec, beside=tmp_path)
    spec["latency"]["missing"] = "mean"
    overlay = build(spec, beside=tmp_path)
    assert overlay.latency_rounds.tolist() == [10, 4, 3]  # the mean of 20, 8, 8 and four zeros, and half of it
    assert any("1 link of 3 with a latency in one direction" in note for note in overlay.notes)


def test_names_that_a_list_of_pairs_lacks_are_holes_unless_all_are(tmp_path: Path) -> None:
    text = "A;B;1,5\nB;C;2,5\n"
    with pytest.raises(InputError, match="no pair for 1 of 4 nodes: 'D'; give the rows the names"):
        of_pairs(tmp_path, text)
    overlay = of_pairs(tmp_path, text, missing="mean")
    assert overlay.latency_rounds.tolist() == [2, 3, 2]
    assert "pairs.csv has decimal commas in 3" in overlay.notes
    with pytest.raises(InputError, match="no pair for 4 of 4 nodes: 'A'"):
        of_pairs(tmp_path, "W;X;1\nY;Z;2\n", missing="mean")


@pytest.mark.parametrize(
    ("text", "latency", "field", "words"),
    [
        ("a,b,c\nA,B,x\n", {}, "source", "no column that is known as source; name one of its columns: 'a', 'b', 'c'"),
        (PAIRS, {"value": "mss"}, "value", "no column 'mss'; did you mean 'ms'?"),
        (
            PAIRS.replace("80", "-1"),
            {},
            "pairs",
            "line 3: the delay is -1; a delay is 0 or more, and an empty cell where",
        ),
        (PAIRS.replace("80", "slow"), {}, "pairs", "line 3: the delay is 'slow'"),
        (PAIRS.replace("80", "1_0"), {}, "pairs", "line 3: the delay is '1_0'"),
        (PAIRS.replace("B,A,80", "B,A"), {}, "pairs", "line 3: 2 cells, and the first line has 3"),
    ],
)
def test_a_list_of_pairs_that_cannot_be_used_says_why(
    tmp_path: Path, text: str, latency: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        of_pairs(tmp_path, text, **latency)
    (problem,) = caught.value.problems
    assert problem.path == ("overlay", "latency", field)
    assert words in problem.message


def test_links_in_a_scenario_have_latencies_of_each_direction() -> None:
    overlay = build({"links": [["A", "B", 3, 8], ["C", "B", 2, 9], ["A", "C"]]}, round_ms=0.7)
    assert overlay.names == ("A", "B", "C")
    assert overlay.directed_rounds.tolist() == [3, 1, 9, 8, 1, 2]


def test_a_missing_matrix_says_where_it_was_looked_up(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file 'm\.csv'; tried") as caught:
        build({**LINE, "latency": {"matrix": "m.csv"}}, beside=tmp_path)
    assert caught.value.problems[0].path == ("overlay", "latency", "matrix")


def rounded(ms: list[float], round_ms: float) -> str:
    """The note on a line of nodes A, B, ... with latencies in ms."""
    names = tuple("ABCDEFGH"[: len(ms) + 1])
    first = np.arange(len(ms))
    graph = WeightedGraph(names, first, first + 1, np.array(ms))
    return rounding_note(graph, to_rounds(graph.weights, round_ms), round_ms)


def test_paths_that_rounding_makes_longer_are_told_with_their_numbers() -> None:
    note = rounded([9.5, 2.4], 5.0)  # A to B is 10, B to C 5, A to C 15; each path from either end
    assert "makes 4 of 6 paths more than 10% longer" in note
    assert "A to C takes 11.9 ms, and 15 ms here" in note
    assert "half of them 1.7 times as long or more" in note  # between 15 / 11.9 and 5 / 2.4


@pytest.mark.parametrize(
    ("ms", "round_ms"), [([10.0, 20.0], 5.0), ([9.5, 19.0], 0.5), ([9.2], 10.0), ([100.0, 100.0, 9.5], 10.0)]
)
def test_rounding_within_a_tenth_is_not_told(ms: list[float], round_ms: float) -> None:
    assert rounded(ms, round_ms) == ""


def test_a_link_without_latency_takes_a_round_and_is_told() -> None:
    assert "A to B takes 0 ms, and 5 ms here" in rounded([0.0], 5.0)


def test_the_note_on_rounding_comes_on_demand(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("src,dst,ms\nA,B,2.4\n")
    spec = OverlaySpec.model_validate({"file": {"path": "net.csv", "latency": "ms"}})
    given: dict[str, Any] = {"seed": 0, "round_ms": 5.0, "needs_tree": False, "beside": tmp_path}
    assert build_overlay(spec, **given).notes == ()
    [note] = build_overlay(spec, **given, notes_rounding=True).notes
    assert "2 of 2 paths" in note
