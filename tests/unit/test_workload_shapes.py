"""Workload files as people have them, topic hierarchies, and joins made from the seed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from pipelines.contract.run_inputs import Overlay, Workload
from pipelines.errors import ScenarioError
from pipelines.experiment.build import build_run
from pipelines.experiment.plan import check, notes
from pipelines.experiment.prepared import prepare

LINKS = {"links": [["b1", "b2"], ["b2", "b3"]], "clients": [{"name": "d1", "at": "b1"}, {"name": "d2", "at": "b2"}]}


def scenario(workload: dict[str, Any], overlay: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    base = {"name": "t", "protocol": {"name": "epidemic"}, "overlay": overlay or LINKS, "time": {"rounds": 100}}
    return {**base, "workload": workload, **parts}


def built(given: dict[str, Any]) -> tuple[Overlay, Workload]:
    overlay, workload, *_ = build_run(prepare(given).runs[0], None)
    return overlay, workload


def refused(given: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as caught:
        check(prepare(given))
    return caught.value.problems[0]


ROWS = [{"round": 25, "device": "d1", "topic": "temp", "value": 21.5},
        {"round": 26, "device": "d2", "topic": "temp", "value": 22.0}]  # fmt: skip
FILE = {"node": "device", "topic": "topic", "round": "round"}
NUMBERED = {"node": "2", "topic": "3", "round": "1", "content": ["4"]}


@pytest.mark.parametrize(
    ("name", "text", "file", "told"),
    [
        ("w.csv", "round;device;topic;value\n25;d1;temp;21,5\n26;d2;temp;22,0\n", FILE,
         "w.csv has semicolons between its cells; decimal commas in value"),
        ("w.csv", "# sensors\nround|device|topic|value\n25|d1|temp|21.5\n26|d2|temp|22.0\n", FILE,
         "w.csv has bars between its cells"),
        ("w.txt", "25,d1,temp,21.5\n26,d2,temp,22.0\n", NUMBERED, "w.txt has no header, so its columns are 1, 2, 3, 4"),
        ("w.csv", ",round,device,topic,value\n0,25,d1,temp,21.5\n1,26,d2,temp,22.0\n", FILE,
         "w.csv has a first column without a name, as pandas writes its index, which is left out"),
        ("w.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n", FILE, ""),
        ("w.log", "\n".join(map(json.dumps, ROWS)) + "\n", FILE, ""),
    ],
)  # fmt: skip
def test_publications_are_read_in_every_dialect(
    tmp_path: Path, name: str, text: str, file: dict[str, Any], told: str
) -> None:
    (tmp_path / name).write_text(text)
    given = scenario({"publications": {"file": {"path": str(tmp_path / name), **file}}})
    overlay, workload = built(given)
    rows = workload.publication
    assert [overlay.names[node] for node in rows["node_id"].to_pylist()] == ["d1", "d2"]
    assert rows["round"].to_pylist() == [25, 26]
    assert rows["topic"].to_pylist() == ["temp", "temp"]
    assert [list(json.loads(text).values()) for text in rows["content"].to_pylist()] == [[21.5], [22.0]]
    assert [note for part, note in notes(prepare(given)) if part == "workload"] == ([told] if told else [])


def test_a_note_on_a_file_that_two_parts_read_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("node;topic\nd1;temp\n")
    file = {"path": str(tmp_path / "w.csv"), "node": "node", "topic": "topic"}
    given = scenario({"subscriptions": {"file": file}, "publications": {"file": {**file, "round": 5}}})
    assert [note for part, note in notes(prepare(given)) if part == "workload"] == [
        "w.csv has semicolons between its cells"
    ]


def test_times_in_json_lines_stay_texts_in_contents(tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").write_text('{"node": "d1", "seen": "2024-03-01T10:00:00.000Z", "n": 9007199254740993}\n')
    _, workload = built(scenario({"publications": {"file": {"path": str(tmp_path / "w.jsonl"), "node": "node"}}}))
    content = json.loads(workload.publication["content"][0].as_py())
    assert content == {"seen": "2024-03-01T10:00:00.000Z", "n": 9007199254740993}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("w.jsonl", '{"node": "d1"\n', "cannot be read as jsonl"),
        ("w.jsonl", '{"node": "d1", "a": {"b": 1}}\n', "column 'a' holds struct<b: int64>"),
        (
            "w.csv",
            "25,d1,temp\n26,d2,temp\n",
            "no column 'node'; columns: 25, d1, temp; without a header name columns by numbers, '1'",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_the_cure(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    assert words in refused(scenario({"publications": {"file": {"path": str(tmp_path / name), "node": "node"}}}))


def test_topics_have_levels_and_subscriptions_filters() -> None:
    topics = {"kind": "topics", "levels": [3, 2, 4], "zipf": 0.5}
    given = scenario({
        "topics": "mqtt",
        "subscriptions": {"generate": {**topics, "nodes": "all", "per_node": 8, "wildcards": 0.5}},
        "publications": {"generate": {**topics, "nodes": "all", "rounds": [1, 60], "rate": 1.0}},
    })  # fmt: skip
    _, workload = built(given)
    names = {f"topic{a}/{b}/{c}" for a in (1, 2, 3) for b in (1, 2) for c in (1, 2, 3, 4)}
    published = set(workload.publication["topic"].to_pylist())
    assert published <= names
    assert len(published) == 24
    rows = workload.subscription.to_pylist()
    assert len({(row["node_id"], row["predicate"]) for row in rows}) == len(rows) == 40
    kinds = Counter("#" if "#" in row["predicate"] else "+" if "+" in row["predicate"] else "=" for row in rows)
    assert min(kinds.values()) >= 5
    given["workload"]["topics"] = "exact"
    assert "wildcards need topics: mqtt" in refused(given)


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ({"levels": [3, 2], "topics": 5}, "levels and topics are given; allowed: one of the two"),
        ({"levels": [10_000, 10_000]}, "the levels make 100,000,000 topics; allowed: at most 10,000,000"),
        ({"levels": [2, 2], "per_node": 5}, "5 topics a node cannot be drawn from 4"),
        ({"wildcards": 0.5}, "wildcards is given without levels"),
    ],
)
def test_levels_that_do_not_fit_are_refused(topics: dict[str, Any], words: str) -> None:
    assert words in refused(scenario({"subscriptions": {"generate": {"kind": "topics", **topics}}}))


TREE = {"generate": {"kind": "random_tree", "nodes": 30, "max_degree": 4}}


@pytest.mark.parametrize("seed", range(5))
def test_generated_joins_grow_a_tree(seed: int) -> None:
    given = scenario({"joins": {"generate": {"count": 20, "rounds": [10, 60]}}}, TREE, runs={"seeds": [seed]})
    overlay, workload = built(given)
    rows = workload.join.to_pylist()
    assert len({row["node_id"] for row in rows}) == len({row["round"] for row in rows}) == 20
    assert all(10 <= row["round"] <= 60 for row in rows)
    whole = nx.Graph(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    there = set(whole) - {row["node_id"] for row in rows}
    assert nx.is_connected(whole.subgraph(there))
    for row in sorted(rows, key=lambda row: row["round"]):
        assert [n for n in whole.neighbors(row["node_id"]) if n in there] == [row["join_point"]]
        there.add(row["node_id"])
    assert built(given)[1].join.equals(workload.join)


def test_generated_joins_are_those_of_a_list() -> None:
    given = scenario({"joins": {"generate": {"count": 6, "rounds": [10, 60], "nodes": "leaves"}}}, TREE)
    overlay, workload = built(given)
    listed = [
        {"node": overlay.names[row["node_id"]], "to": overlay.names[row["join_point"]], "round": row["round"]}
        for row in workload.join.to_pylist()
    ]
    assert built({**given, "workload": {"joins": listed}})[1].join.equals(workload.join)


@pytest.mark.parametrize(
    ("joins", "overlay", "words"),
    [
        ({"count": 5, "rounds": [10, 12]}, TREE, "5 joins do not fit in rounds 10 to 12"),
        ({"count": 30, "rounds": [10, 90]}, TREE, "30 nodes are to join, and 29 can"),
        ({"count": 1, "rounds": [10, 190]}, TREE, "is after the horizon"),
    ],
)
def test_joins_that_cannot_be_drawn_are_refused(joins: dict[str, Any], overlay: dict[str, Any], words: str) -> None:
    assert words in refused(scenario({"joins": {"generate": joins}}, overlay))
