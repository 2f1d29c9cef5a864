"""Files that failed once: networkx, pandas and the XML parser read the same rows, or the message names the cure."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import yaml
from support.real_data import shared_case

from pipelines.errors import ScenarioError
from pipelines.experiment.build import build_run
from pipelines.experiment.mapping import Mapped
from pipelines.experiment.plan import check
from pipelines.experiment.prepared import prepare

Link = tuple[str, str, float | None]
Links = Callable[[Path], Iterable[Link]]
FLOOR_MS = 0.5
CITIES = {"links": [["Oslo", "Bergen"], ["Bergen", "Narvik"]]}
THREE = {"links": [["b1", "b2"], ["b2", "b3"]]}
DEVICES = {**THREE, "clients": [{"name": "d1", "at": "b1"}, {"name": "d2", "at": "b2"}]}


def built(parts: dict[str, Any], **time: Any) -> Mapped:
    base = {"name": "case", "protocol": {"name": "forwarding"}, "time": {"rounds": 1000, "round_ms": 1, **time}}
    prepared = prepare({**base, **parts})
    check(prepared)
    return build_run(prepared.runs[0], None)


def distance_ms(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Returns the time of light in a fibre 1.3 times as long as the great circle, 200 km a ms; 0.5 ms at least."""
    (lat, lon), (to_lat, to_lon) = (tuple(map(math.radians, place)) for place in (a, b))
    angle = math.acos(
        min(1.0, math.sin(lat) * math.sin(to_lat) + math.cos(lat) * math.cos(to_lat) * math.cos(lon - to_lon))
    )
    return max(FLOOR_MS, 6371.0 * angle * 1.3 / 200.0)


def of_networkx(read: Callable[[Path], Any], name: str | None = None, latency: str | None = None) -> Links:
    def rows(path: Path) -> Iterable[Link]:
        graph = read(path)
        for a, b, data in graph.edges(data=True):
            ends = [(str(graph.nodes[node][name]) if name else str(node)) for node in (a, b)]
            places = [(graph.nodes[node].get("latitude"), graph.nodes[node].get("longitude")) for node in (a, b)]
            is_known = all(value is not None for place in places for value in place)
            ms = data[latency] if latency else distance_ms(*places) if is_known else FLOOR_MS
            yield ends[0], ends[1], float(ms)

    return rows


def of_pandas(latency: str | None = None, **options: Any) -> Links:
    def rows(path: Path) -> Iterable[Link]:
        frame = pd.read_csv(path, **options)
        for row in frame.itertuples(index=False, name=None):
            ms = row[frame.columns.get_loc(latency)] if latency else None
            yield str(row[0]), str(row[1]), ms

    return rows


def of_sndlib(path: Path) -> Iterable[Link]:
    root = ElementTree.parse(path).getroot()  # noqa: S314 - a file of the tests
    space = {"s": "http://sndlib.zib.de/network"}
    place = {
        node.get("id"): (float(node.findtext(".//s:y", None, space)), float(node.findtext(".//s:x", None, space)))
        for node in root.iterfind(".//s:node", space)
    }
    for link in root.iterfind(".//s:link", space):
        a, b = (link.findtext(f"s:{end}", None, space) for end in ("source", "target"))
        yield str(a), str(b), distance_ms(place[a], place[b])


def of_repetita(path: Path) -> Iterable[Link]:
    nodes, edges = re.split(r"\n\s*\n", path.read_text().strip())
    labels = [line.split()[0] for line in nodes.splitlines()[2:]]
    frame = pd.read_csv(StringIO(edges), sep=" ", skiprows=1)
    for row in frame.itertuples():
        yield labels[row.src], labels[row.dest], row.delay / 1000


GRAPHS: dict[str, tuple[Links, dict[str, Any]]] = {
    "asym.csv": (of_pandas("ms"), {"latency": "ms"}),
    "gephi.graphml": (of_networkx(nx.read_graphml, "label"), {}),
    "igraph.graphml": (of_networkx(nx.read_graphml, "name", "latency"), {"latency": "latency"}),
    "nfd.csv": (of_pandas(), {}),
    "pos.graphml": (of_networkx(nx.read_graphml), {}),
    "rep.graph": (of_repetita, {"latency_unit": "us"}),
    "semi.csv": (of_pandas("latency", sep=";", decimal=","), {"latency": "latency"}),
    "snap.tsv": (of_pandas(sep="\t", comment="#", header=None), {}),
    "snap.txt": (of_pandas(sep="\t", comment="#", header=None), {}),
    "sndlib.xml": (of_sndlib, {}),
    "wonder.csv": (of_pandas(), {}),
    "x.gexf": (of_networkx(nx.read_gexf, "label"), {}),
    "x.gml": (of_networkx(nx.read_gml), {}),
}
REFUSED = {
    "two.graphml": "keep one <graph> in the file",
    "nested.graphml": "the edge of 'hub' and 'x9' ends at 'x9', which no <node> declares; allowed: the id of a <node>",
    "m1miss.csv": "overlay.latency: {matrix: ...}",
    "mcase.csv": "overlay.latency: {matrix: ...}",
    "king_us.txt": "overlay.latency: {matrix: ...}",
}
WORKLOADS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "semi.csv": ({"round": "round"}, {"sep": ";", "decimal": ","}, {}),
    "x.jsonl": ({"round": "round"}, {}, {}),
    "nohead.csv": (
        {"node": "2", "topic": "3", "round": "1"}, {"header": None, "names": ["round", "device", "topic", "value"]}, {},
    ),
    "iso.csv": ({"at_ms": "time"}, {}, {"round_ms": 250}),
    "epoch.csv": ({"at_ms": "ts"}, {}, {"round_ms": 250}),
}  # fmt: skip
SCENARIOS = {
    "mat": "no row for 1 of 3 nodes: 'Narvik'; give the rows the names of the nodes",
    "nested": "no <node> declares; allowed: the id of a <node>",
    "wl_epoch": "the column contains times: write at_ms: ts in place of round",
    "wl_iso": "the column contains times: write at_ms: time in place of round",
}
"""Scenarios that are refused, with words of the message."""


def test_every_file_is_held_against_something() -> None:
    folder = shared_case("files")
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    held = {f"g/{name}" for name in (*GRAPHS, *REFUSED)} | {f"w/{name}" for name in (*WORKLOADS, "big.csv")}
    held |= {"t/named.csv", "t/nullstop.tab", *(path.name for path in folder.glob("*.yaml"))}
    assert names - held == set()


@pytest.mark.parametrize("name", GRAPHS)
def test_the_links_of_an_overlay(name: str) -> None:
    """Row by row: both ends in Unicode's composed form, and the latency rounded up; the shorter one of two."""
    path, (oracle, settings) = shared_case("files", "g", name), GRAPHS[name]
    overlay, *_ = built({"overlay": {"file": {"path": str(path), **settings}}})
    wanted: dict[frozenset[str], int] = {}
    for a, b, ms in oracle(path):
        ends = frozenset(unicodedata.normalize("NFC", end) for end in (a, b))
        rounds = 1 if ms is None else math.ceil(ms)
        wanted[ends] = min(rounds, wanted.get(ends, rounds))
    found = zip(overlay.a.tolist(), overlay.b.tolist(), overlay.latency_rounds.tolist(), strict=True)
    assert {frozenset((overlay.names[a], overlay.names[b])): rounds for a, b, rounds in found} == wanted
    assert len(overlay.a) == len(wanted) > 0


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_overlay_is_refused_with_the_cure(name: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(REFUSED[name])):
        built({"overlay": {"file": {"path": str(shared_case("files", "g", name))}}})


def test_nested_graphs_without_the_unknown_node_are_what_networkx_reads(tmp_path: Path) -> None:
    text = shared_case("files", "g", "nested.graphml").read_text().replace('<edge source="hub" target="x9"/>', "")
    (tmp_path / "cured.graphml").write_text(text)
    overlay, *_ = built({"overlay": {"file": {"path": str(tmp_path / "cured.graphml")}}})
    flat = nx.parse_graphml(re.sub(r'<node id="site">\s*<graph[^>]*>(.*?)</graph>\s*</node>', r"\1", text, flags=re.S))
    graph = nx.Graph([(overlay.names[a], overlay.names[b]) for a, b in zip(overlay.a, overlay.b, strict=True)])
    assert {frozenset(edge) for edge in graph.edges} == {frozenset(edge) for edge in flat.edges}
    assert nx.shortest_path_length(graph, "hub", "s2") == 2


def test_the_latencies_of_matrices_and_pairs() -> None:
    """A matrix and a column avg hold round trips: a link takes half of one."""
    king = shared_case("files", "g", "king_us.txt")
    rows = pd.read_csv(king, sep=r"\s+", header=None)
    matrix = {"matrix": str(king), "unit": "us"}
    overlay, *_ = built({"overlay": {"generate": {"kind": "line", "nodes": 3}, "latency": matrix}})
    halves = {math.ceil(value / 2000) for value in rows.to_numpy().ravel() if value}
    assert set(overlay.latency_rounds.tolist()) <= halves == {5, 20, 30}
    wonder = shared_case("files", "g", "wonder.csv")
    pairs = pd.read_csv(wonder)
    overlay, *_ = built({"overlay": {"links": [["1", "2"]], "latency": {"pairs": str(wonder)}}})
    assert overlay.latency_rounds.tolist() == [math.ceil(pairs["avg"].mean() / 2)]
    assert any("column avg of wonder.csv has round-trip times" in note for note in overlay.notes)
    asym = shared_case("files", "g", "asym.csv")
    each = {(row.src, row.dst): row.ms for row in pd.read_csv(asym).itertuples()}
    both = {"links": [["A", "B"]], "latency": {"pairs": str(asym), "per_direction": True}}
    overlay, *_ = built({"overlay": both})
    assert overlay.directed_rounds.tolist() == [each["A", "B"], each["B", "A"]]
    for name, words in (("m1miss.csv", "no row for 1 of 3 nodes: 'Narvik'"), ("mcase.csv", "did you mean 'oslo'")):
        with pytest.raises(ScenarioError, match=re.escape(words)):
            built({"overlay": {**CITIES, "latency": {"matrix": str(shared_case("files", "g", name))}}})
    lower = pd.read_csv(shared_case("files", "g", "mcase.csv"), index_col=0)
    small = [[a.lower(), b.lower()] for a, b in CITIES["links"]]
    named = {"matrix": str(shared_case("files", "g", "mcase.csv"))}
    overlay, *_ = built({"overlay": {"links": small, "latency": named}})
    assert overlay.latency_rounds.tolist() == [lower.loc[a, b] / 2 for a, b in small]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_publications_of_a_file(name: str) -> None:
    path, (columns, options, time) = shared_case("files", "w", name), WORKLOADS[name]
    file = {"path": str(path), "node": "device", "topic": "topic", **columns}
    overlay, workload, *_ = built({"overlay": DEVICES, "workload": {"publications": {"file": file}}}, **time)
    frame = pd.read_json(path, lines=True) if path.suffix == ".jsonl" else pd.read_csv(path, **options)
    if "at_ms" in columns:
        stamps = pd.to_datetime(frame[columns["at_ms"]], **({"unit": "s"} if name == "epoch.csv" else {}))
        frame["round"] = np.rint((stamps - stamps.min()) / pd.Timedelta(milliseconds=time["round_ms"])).astype(int)
    wanted = [*frame[["round", "device", "topic", "value"]].itertuples(index=False, name=None)]
    found = [
        (row["round"], overlay.names[row["node_id"]], row["topic"], next(iter(json.loads(row["content"]).values())))
        for row in workload.publication.to_pylist()
    ]
    assert found == wanted
    assert len(found) > 1


def test_whole_numbers_of_64_bits_are_those_of_pandas() -> None:
    path = shared_case("files", "w", "big.csv")
    file = {"path": str(path), "node": "node", "topic": "t", "round": "round"}
    overlay = {**THREE, "clients": [{"name": "P", "at": "b1"}]}
    _, workload, *_ = built({"overlay": overlay, "workload": {"publications": {"file": file | {"topic": None}}}})
    numbers = [json.loads(text)["order_id"] for text in workload.publication["content"].to_pylist()]
    assert numbers == pd.read_csv(path)["order_id"].tolist()
    assert max(numbers) > 2**53


def test_the_outages_of_named_nodes_and_of_a_recorded_trace() -> None:
    named, trace = (shared_case("files", "t", name) for name in ("named.csv", "nullstop.tab"))
    overlay, _, faults, _ = built({"overlay": THREE, "faults": [crashes(named)]})
    rows = pd.read_csv(named)
    found = [(overlay.names[row["node_id"]], row["round"], row["end_round"]) for row in faults.crash.to_pylist()]
    assert found == [*rows.itertuples(index=False, name=None)]
    _, _, faults, _ = built({"overlay": THREE, "faults": [crashes(trace)]}, rounds=200)
    events = pd.read_csv(trace, sep="\t")
    events["next"] = events.groupby("node_id")["event_start_time"].shift(-1)
    down = events[events["event_type"] == 0]
    hours = sorted((down["event_stop_time"].fillna(down["next"]) - down["event_start_time"]) / 3600)
    lengths = sorted(row["end_round"] - row["round"] for row in faults.crash.to_pylist() if row["end_round"])
    assert lengths == [math.ceil(one) for one in hours] == [1, 2]


def crashes(path: Path) -> dict[str, Any]:
    return {"generate": {"kind": "crash", "trace": {"path": str(path)}, "nodes": "all"}}


@pytest.mark.parametrize(
    "name", ["big", "mat", "mqtt", "nested", "pos", "rep", "tr_named", "wl_epoch", "wl_iso", "wl_semi"]
)
def test_a_scenario_is_accepted_or_refused_with_the_cure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared_case("files", f"{name}.yaml")
    monkeypatch.chdir(path.parent)
    parts = yaml.safe_load(path.read_text())
    if name not in SCENARIOS:
        check(prepare(parts))
        return
    with pytest.raises(ScenarioError, match=re.escape(SCENARIOS[name])):
        check(prepare(parts))
