"""Overlays from files and from topohub: real networks, samples, and everything that can be wrong with a file."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import topohub
from support.real_data import shared_data

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError
from pipelines.inputs.overlay.build import build_overlay, describe
from pipelines.inputs.overlay.files import hub_names, load_file, load_hub
from pipelines.inputs.overlay.formats import positions, read_graphml, weighted_graph
from pipelines.inputs.overlay.weighted import (
    WeightedGraph,
    great_circle_km,
    largest_component,
    propagation_ms,
    unique_names,
)
from pipelines.scenario.overlay import FileOverlay, OverlaySpec

PROJECT = Path(__file__).parents[2]
SAMPLES = PROJECT / "datasets" / "overlays"
GRAPHML_HEAD = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    '<key id="l" for="node" attr.name="label" attr.type="string"/>\n'
    '<key id="y" for="node" attr.name="Latitude" attr.type="double"/>\n'
    '<key id="x" for="node" attr.name="Longitude" attr.type="double"/>\n'
    '<graph edgedefault="undirected">\n'
)
BY_POSITION = FileOverlay(path="graph.graphml")
ROCKETFUEL = "NODES 2\nlabel x y\nA 0 0\nB 0 0\n\nEDGES 1\nlabel src dest weight bw delay\nL 0 1 1 1 7\n"
PSSIM = "No of nodes:2\nNo of edges:1\n\nNodes:\n0\t1\t9\n1\t1\t9\n\nEdges:\n0\t0\t1\t25\n"


def parse_graphml(content: bytes, columns: FileOverlay) -> WeightedGraph:
    return weighted_graph(read_graphml(content), columns)


def build(
    overlay: dict[str, Any], *, round_ms: float = 1.0, needs_tree: bool = False, beside: Path | None = None
) -> Overlay:
    spec = OverlaySpec.model_validate(overlay)
    return build_overlay(spec, seed=0, round_ms=round_ms, needs_tree=needs_tree, beside=beside)


def graphml(nodes: list[tuple[str, str | None, float | None, float | None]], edges: list[tuple[str, str]]) -> bytes:
    """A GraphML file with nodes (id, label, latitude, longitude)."""
    text = GRAPHML_HEAD
    for node, label, latitude, longitude in nodes:
        data = [("l", label), ("y", latitude), ("x", longitude)]
        inner = "".join(f'<data key="{key}">{value}</data>' for key, value in data if value is not None)
        text += f'<node id="{node}">{inner}</node>\n'
    text += "".join(f'<edge source="{u}" target="{v}"/>\n' for u, v in edges)
    return (text + "</graph></graphml>").encode()


def refused(folder: Path, name: str, content: bytes | str, **file: Any) -> tuple[str, str]:
    """Writes a file, reads it as an overlay, and returns the setting that is blamed and the message."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        build({"file": {"path": name, **file}}, beside=folder)
    (problem,) = caught.value.problems
    assert problem.path[:2] == ("overlay", "file")
    return str(problem.path[2]), problem.message


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a\x00b", r"the name of node 'a\\x00b' contains the control character U+0000; remove it"),
        ("\x1b[31mred", r"the name of node '\\x1b\[31mred' contains the control character U+001B; remove it"),
        ("n" * 10_000, r"the overlay has node 'n{60}\.\.\. \(10,000 characters\)'; allowed: names of 1 to 200 char"),
    ],
)
def test_a_name_that_outputs_cannot_show_is_refused(tmp_path: Path, name: str, told: str) -> None:
    """A terminal executes control characters, and the program that draws pictures ended at them."""
    (tmp_path / "net.json").write_text(
        json.dumps({"nodes": [{"id": name}, {"id": "A"}], "links": [{"source": name, "target": "A"}]})
    )
    for overlay in ({"file": {"path": "net.json"}}, *([{"links": [["A", name]]}] if len(name) < 200 else [])):
        with pytest.raises(InputError, match=rf"^overlay: {told}".replace("U+", r"U\+")):
            build(overlay, beside=tmp_path)


def test_a_name_may_have_several_lines() -> None:
    assert build({"links": [["A", "New\nYork"]]}).names == ("A", "New\nYork")


def test_every_network_of_the_topology_zoo_has_the_nodes_and_links_of_its_index() -> None:
    archive = shared_data("topologies", "zoo", "graphml.tar.gz")
    with tarfile.open(archive) as tar:
        content = {Path(m.name).stem: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]
    with shared_data("topologies", "zoo", "index_derived.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 276
    loops = {"Interoute": 2}  # the index counts these self-loops as edges
    for row in rows:
        graph = parse_graphml(content[row["name"]], BY_POSITION)
        part = largest_component(graph)
        dropped = loops.get(row["name"], 0)
        assert (len(graph.names), len(graph.a)) == (int(row["nodes"]), int(row["edges"]) - dropped), row["name"]
        assert (len(part.names), len(part.a)) == (int(row["lcc"]), int(row["lcc_edges"]) - dropped), row["name"]
        assert len(set(graph.names)) == len(graph.names)
        assert graph.ms is not None
        assert graph.ms.min() >= 0.5


def test_abilene_from_the_archive_has_the_latencies_of_its_distances() -> None:
    archive = shared_data("topologies", "zoo", "graphml.tar.gz")
    overlay = build({"file": {"path": str(archive), "member": "Abilene.graphml"}}, round_ms=0.001)
    assert overlay.names[:3] == ("New York", "Chicago", "Washington DC")
    links = dict(zip(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True), overlay.latency_rounds, strict=True))
    new_york, chicago, turn = np.radians([40.71427, 41.85003, 87.65005 - 74.00597])
    law_of_cosines = np.sin(new_york) * np.sin(chicago) + np.cos(new_york) * np.cos(chicago) * np.cos(turn)
    assert links[0, 1] == pytest.approx(6371.0 * np.arccos(law_of_cosines) / 200.0 * 1.3 * 1000.0, abs=1.0)
    tree = build({"file": {"path": str(archive), "member": "Abilene.graphml"}}, needs_tree=True)
    assert tree.is_tree


def test_what_is_left_out_of_a_real_network_is_told() -> None:
    archive = shared_data("topologies", "zoo", "graphml.tar.gz")
    with shared_data("topologies", "zoo", "index_derived.csv").open() as file:
        rows = list(csv.DictReader(file))
    split = [row for row in rows if int(row["lcc"]) < int(row["nodes"]) and int(row["lcc_edges"]) >= int(row["lcc"])]
    assert len(split) >= 5
    for row in split[:5]:
        nodes, lcc, links = (int(row[name]) for name in ("nodes", "lcc", "lcc_edges"))
        notes = build({"file": {"path": str(archive), "member": f"{row['name']}.graphml"}}, needs_tree=True).notes
        told = [note.partition(" are left out")[0] for note in notes if "left out" in note]
        assert told == [f"{nodes - lcc} of {nodes} nodes", f"{links - lcc + 1} of {links} links"], row["name"]


def test_a_member_that_is_not_there_gets_the_nearest_name() -> None:
    archive = shared_data("topologies", "zoo", "graphml.tar.gz")
    with pytest.raises(InputError, match=r"no member 'Abilen\.graphml'; did you mean 'Abilene\.graphml'") as caught:
        build({"file": {"path": str(archive), "member": "Abilen.graphml"}})
    assert caught.value.problems[0].path == ("overlay", "file", "member")


@pytest.mark.parametrize(
    ("name", "nodes", "links"),
    [
        ("rf1221", 104, 151),
        ("rf1239", 315, 972),
        ("rf1755", 87, 161),
        ("rf3257", 161, 328),
        ("rf3967", 79, 147),
        ("rf6461", 138, 372),
    ],
)
def test_rocketfuel_maps_are_connected_and_keep_the_smaller_delay(name: str, nodes: int, links: int) -> None:
    path = shared_data("topologies", "rocketfuel", f"{name}_real_hard.graph")
    overlay = build({"file": {"path": str(path), "largest_component": False}})
    assert (len(overlay.names), len(overlay.a)) == (nodes, links)
    lines = path.read_text().split("label src dest weight bw delay\n")[1].splitlines()
    expected: dict[tuple[int, ...], int] = {}
    for line in filter(None, lines):
        _, src, dst, _, _, delay = line.split()
        key = tuple(sorted((int(src), int(dst))))
        expected[key] = min(int(delay), expected.get(key, 10**9))
    found = zip(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True), overlay.latency_rounds.tolist(), strict=True)
    assert dict(found) == {key: max(delay, 1) for key, delay in expected.items()}


def test_the_published_pssim_overlay_is_a_tree_of_fifty_brokers() -> None:
    path = shared_data("topologies", "pssim_overlay50", "topology.txt")
    overlay = build({"file": {"path": str(path)}}, needs_tree=True)
    assert overlay.is_tree
    assert overlay.names == tuple(str(i) for i in range(50))
    links = dict(zip(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True), overlay.latency_rounds, strict=True))
    assert (links[1, 24], links[0, 2], links[0, 11]) == (60, 63, 148)


def test_latency_of_a_link_by_hand() -> None:
    one_degree = great_circle_km(np.array([0.0]), np.array([0.0]), np.array([0.0]), np.array([1.0]))
    assert one_degree[0] == pytest.approx(6371.0 * np.pi / 180.0)  # 111.195 km
    paris_london = great_circle_km(np.array([48.8566]), np.array([2.3522]), np.array([51.5074]), np.array([-0.1278]))
    assert paris_london[0] == pytest.approx(343.6, abs=0.2)
    ms = propagation_ms(np.array([2000.0, 0.0, np.nan, 200.0, 400.0]))
    assert ms.tolist() == pytest.approx([13.0, 0.5, 1.95, 1.3, 2.6])
    assert propagation_ms(np.array([np.nan, np.nan])).tolist() == [0.5, 0.5]


def test_links_without_coordinates_get_the_median_of_the_others() -> None:
    nodes = [("0", "A", 0.0, 0.0), ("1", "B", 0.0, 10.0), ("2", "C", 0.0, 30.0), ("3", "Hyperedge", None, None)]
    graph = parse_graphml(graphml(nodes, [("0", "1"), ("1", "2"), ("2", "3")]), BY_POSITION)
    assert graph.ms is not None
    degree = 6371.0 * np.pi / 180.0 / 200.0 * 1.3
    assert graph.ms.tolist() == pytest.approx([10 * degree, 20 * degree, 15 * degree])


def with_delays(edges: list[tuple[str, str, str | None]], default: str | None = None) -> bytes:
    """A GraphML file of nodes without positions whose edges may have an attribute ``delay``."""
    nodes = {node: None for u, v, _ in edges for node in (u, v)}
    inner = "" if default is None else f"<default>{default}</default>"
    links = "".join(
        f'<edge source="{u}" target="{v}">' + ("" if ms is None else f'<data key="d">{ms}</data>') + "</edge>\n"
        for u, v, ms in edges
    )
    return (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'<key id="d" for="edge" attr.name="delay" attr.type="double">{inner}</key>\n'
        '<graph edgedefault="undirected">\n'
        + "".join(f'<node id="{node}"/>' for node in nodes)
        + links
        + "</graph></graphml>"
    ).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "rounds"),
    [(None, [3, 40]), ("ms", [3, 40]), ("us", [1, 1]), ("s", [2500, 40_000]), ("km", [1, 1])],
)
def test_graphml_names_an_edge_attribute_as_latency_with_its_unit(
    tmp_path: Path, unit: str | None, rounds: list[int]
) -> None:
    (tmp_path / "net.graphml").write_bytes(with_delays([("A", "B", "2.5"), ("B", "C", "40")]))
    file = {"path": "net.graphml", "latency": "delay", **({} if unit is None else {"latency_unit": unit})}
    overlay = build({"file": file}, beside=tmp_path)
    assert overlay.latency_rounds.tolist() == rounds
    assert overlay.notes == ()


def test_lengths_of_fibre_are_a_unit_of_latency(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("src,dst,length\nA,B,200\nB,C,1000\n")
    file = {"path": "net.csv", "latency": "length", "latency_unit": "km"}
    assert build({"file": file}, beside=tmp_path).latency_rounds.tolist() == [1, 5]


def test_an_edge_attribute_has_the_default_that_its_key_declares(tmp_path: Path) -> None:
    (tmp_path / "net.graphml").write_bytes(with_delays([("A", "B", None), ("B", "C", "4")], default="7"))
    overlay = build({"file": {"path": "net.graphml", "latency": "delay"}}, beside=tmp_path)
    assert overlay.latency_rounds.tolist() == [7, 4]


@pytest.mark.parametrize(
    ("file", "field", "words"),
    [
        ({"latency": "dely"}, "latency", "no attribute 'dely'; did you mean 'delay'? its edges have delay"),
        ({"latency": "delay"}, "latency", "the edge of 'B' and 'C' has no attribute 'delay'; give each edge one"),
        ({"src": "a"}, "src", "not an edge list"),
    ],
)
def test_an_edge_attribute_that_is_not_there_is_blamed(
    tmp_path: Path, file: dict[str, str], field: str, words: str
) -> None:
    blamed, message = refused(tmp_path, "net.graphml", with_delays([("A", "B", "1"), ("B", "C", None)]), **file)
    assert blamed == field
    assert words in message


@pytest.mark.parametrize(("name", "content"), [("net.csv", "src,dst\nA,B\n"), ("net.graphml", GRAPHML_HEAD)])
def test_a_unit_without_a_latency_is_refused(tmp_path: Path, name: str, content: str) -> None:
    blamed, message = refused(tmp_path, name, content.encode(), latency_unit="s")
    assert (blamed, "latency_unit is given without latency" in message) == ("latency_unit", True)


@pytest.mark.parametrize(
    ("unit", "rounds"), [(None, [7, 25]), ("ms", [7, 25]), ("us", [1, 1]), ("s", [7000, 25_000]), ("km", [1, 1])]
)
def test_the_delays_of_a_map_have_a_unit(tmp_path: Path, unit: str | None, rounds: list[int]) -> None:
    (tmp_path / "net.graph").write_text(ROCKETFUEL)
    (tmp_path / "net.txt").write_text(PSSIM)
    given = {} if unit is None else {"latency_unit": unit}
    found = [build({"file": {"path": name, **given}}, beside=tmp_path) for name in ("net.graph", "net.txt")]
    assert [overlay.latency_rounds.tolist() for overlay in found] == [[rounds[0]], [rounds[1]]]


NESTED = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph id="G" edgedefault="undirected">
<node id="hub"/><node id="site"><graph id="site:" edgedefault="directed"><node id="s1"/><node id="room"><graph id="r:">
<node id="s3"/></graph></node><node id="s2"/><edge id="e7" source="s1" target="s2"/><edge source="s2" target="s3"/>
</graph></node><edge source="hub" target="s1" directed="true"/></graph></graphml>"""


def test_nested_graphs_have_nodes_and_links_like_others(tmp_path: Path) -> None:
    (tmp_path / "net.graphml").write_text(NESTED)
    overlay = build({"file": {"path": "net.graphml"}}, beside=tmp_path)
    assert overlay.names == ("hub", "s1", "s2", "s3")  # the groups site and room have no links
    links = zip(overlay.a.tolist(), overlay.b.tolist(), strict=True)
    assert {(overlay.names[a], overlay.names[b]) for a, b in links} == {("hub", "s1"), ("s1", "s2"), ("s2", "s3")}


def test_a_group_that_an_edge_names_is_a_node(tmp_path: Path) -> None:
    (tmp_path / "net.graphml").write_text(NESTED.replace('target="s1" directed', 'target="site" directed'))
    overlay = build({"file": {"path": "net.graphml", "largest_component": True}}, beside=tmp_path)
    assert overlay.names == ("s1", "s2", "s3")
    blamed = refused(tmp_path, "net.graphml", (tmp_path / "net.graphml").read_bytes(), largest_component=False)
    assert "no path leads from 'hub' to 's1'" in blamed[1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('target="s1"', 'target="x9"', "the edge of 'hub' and 'x9' ends at 'x9', which no <node> declares"),
        ('<node id="s2"/>', '<node id="s1"/>', "two nodes have the id 's1'"),
        ('<node id="s2"/>', "<node/>", "a <node> has no id"),
        ("</graph></graphml>", '</graph><graph id="G2"/></graphml>', "the file has 2 graphs ('G', 'G2'); allowed: one"),
    ],
)
def test_a_graph_that_would_be_read_in_part_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in NESTED
    _, message = refused(tmp_path, "net.graphml", NESTED.replace(old, new).encode())
    assert words in message


def test_the_id_of_an_edge_is_no_latency(tmp_path: Path) -> None:
    content = NESTED.replace("e7", "7").encode()
    blamed, message = refused(tmp_path, "net.graphml", content, latency="id")
    assert blamed == "latency"
    assert "has no attribute 'id'; its edges have no attributes" in message
    assert "id" not in parse_graphml(content, BY_POSITION).latency_note


@pytest.mark.parametrize("kind", ["string", "double"])
@pytest.mark.parametrize("blank", ["None", "", " ", "\n  "])
def test_a_blank_coordinate_is_an_unknown_one(kind: str, blank: str) -> None:
    nodes: list[Any] = [("0", "A", 48.1, 11.6), ("1", "B", 48.1, 12.6), ("2", "C", 48.1, blank)]
    content = graphml(nodes, [("0", "1"), ("1", "2")]).replace(b'"double"', f'"{kind}"'.encode())
    assert positions(read_graphml(content), None) == {"A": (11.6, 48.1), "B": (12.6, 48.1)}
    graph = parse_graphml(content, BY_POSITION)
    assert graph.ms is not None
    assert graph.ms[0] == graph.ms[1]


def test_what_a_file_does_not_say_of_latencies_is_told(tmp_path: Path) -> None:
    (tmp_path / "net.graphml").write_bytes(with_delays([("A", "B", "1")]))
    (note,) = build({"file": {"path": "net.graphml"}}, beside=tmp_path).notes
    assert note == (
        "no link has positions of both ends, so every link takes 0.5 ms; "
        "to take an edge attribute, name it with file.latency: delay"
    )
    nodes = [("0", "A", 0.0, 0.0), ("1", "B", 0.0, 10.0), ("2", "C", None, None)]
    (tmp_path / "net.graphml").write_bytes(graphml(nodes, [("0", "1"), ("1", "2")]))
    (note,) = build({"file": {"path": "net.graphml"}}, beside=tmp_path).notes
    assert note.startswith("1 of 2 links end at nodes without a position")
    (tmp_path / "net.csv").write_text("src,dst,ms\nA,B,1\n")
    (note,) = build({"file": {"path": "net.csv"}}, beside=tmp_path).notes
    assert "every link takes 1 round" in note
    assert build({"file": {"path": "net.csv"}, "latency": {"ms": 3}}, beside=tmp_path).notes == ()


def test_nodes_and_links_that_are_left_out_are_counted(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("src,dst,ms\nA,B,1\nB,C,2\nC,A,3\nC,D,4\nX,Y,1\n")
    file = {"file": {"path": "net.csv", "latency": "ms"}}
    tree = build(file, beside=tmp_path, needs_tree=True)
    assert (len(tree.names), len(tree.a)) == (4, 3)
    assert tree.notes == (
        "2 of 6 nodes are left out, which the largest component does not reach: X, Y",
        "1 of 4 links are left out to form a tree; keys tree and root select the tree",
    )
    assert build(file, beside=tmp_path).notes == tree.notes[:1]
    clients = {**file, "clients": [{"name": "U", "at": "A"}]}
    assert build(clients, beside=tmp_path, needs_tree=True).notes == tree.notes


def test_parallel_links_collapse_to_the_shortest_and_self_loops_are_dropped() -> None:
    nodes = [("0", "A", 0.0, 0.0), ("1", "B", 0.0, 10.0)]
    graph = parse_graphml(graphml(nodes, [("0", "1"), ("1", "0"), ("0", "0")]), BY_POSITION)
    assert list(zip(graph.a.tolist(), graph.b.tolist(), strict=True)) == [(0, 1)]


def test_labels_are_made_unique_in_file_order() -> None:
    assert unique_names(["A", "A", "", None, " A "], "vwxyz") == ("A", "A#2", "x", "y", "A#3")
    assert unique_names(["A", "A#2", "A"], "xyz") == ("A", "A#2", "A#3")
    assert unique_names(["1", None], ["0", "1"]) == ("1", "1#2")


def test_the_largest_component_is_taken_or_its_lack_refused(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("src,dst\nA,B\nC,D\nD,E\nF,G\nG,H\n")
    overlay = build({"file": {"path": "net.csv"}}, beside=tmp_path)
    assert overlay.names == ("C", "D", "E")  # as large as F, G, H, and earlier
    assert (overlay.a.tolist(), overlay.b.tolist()) == ([0, 1], [1, 2])
    text = (tmp_path / "net.csv").read_text()
    field, message = refused(tmp_path, "net.csv", text, largest_component=False)
    assert field == "path"
    assert "3 parts: no path leads from 'A' to 'C', 'F'" in message


def test_edge_lists_in_all_forms_are_the_same(tmp_path: Path) -> None:
    rows = [("x", "y", 3.5), ("y", "z", 0.0), ("x", "w", 12.0)]
    text = "to,from,delay\n" + "".join(f"{b},{a},{ms}\n" for a, b, ms in rows)
    (tmp_path / "net.csv").write_text(text)
    (tmp_path / "net.tsv").write_text("\ufeff" + text.replace(",", "\t").replace("\n", "\r\n") + "\r\n")
    (tmp_path / "net.csv.gz").write_bytes(gzip.compress(text.encode()))
    columns = zip(*rows, strict=True)
    pq.write_table(
        pa.table(dict(zip(("from", "to", "delay"), map(list, columns), strict=True))), tmp_path / "net.parquet"
    )
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
        archive.writestr("folder/net.csv", text)
    (tmp_path / "net.csv.xz").write_bytes(lzma.compress(text.encode()))
    for name in ("net.csv", "net.tsv", "net.csv.gz", "net.csv.xz", "net.parquet", "net.zip"):
        file = {"path": name, "src": "from", "dst": "to", "latency": "delay"}
        overlay = build({"file": file}, beside=tmp_path)
        assert overlay.names == ("x", "y", "z", "w"), name
        assert overlay.latency_rounds.tolist() == [4, 12, 1], name
        assert overlay.a.tolist() == [0, 0, 1], name
        assert overlay.b.tolist() == [1, 3, 2], name


def test_the_samples_of_the_project_load_from_the_installed_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    harbours = build({"file": {"path": "datasets/overlays/harbours.graphml"}})
    assert (len(harbours.names), len(harbours.a)) == (8, 10)
    file = {"path": "datasets/overlays/campus.csv", "src": "from", "dst": "to", "latency": "delay_ms"}
    campus = build({"file": file}, needs_tree=True)
    assert campus.is_tree
    assert len(campus.names) == 9
    assert campus.latency_rounds.tolist() == [1, 1, 1, 1, 2, 1, 13, 2]


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text("src,dst\nA,B\n")
    spec = FileOverlay(path=str(path))
    first = load_file(path, spec)
    assert load_file(path, spec) is first
    path.write_text("src,dst\nA,C\n")
    os.utime(path, ns=(1, 1))
    assert load_file(path, spec).names == ("A", "C")
    with pytest.raises(ValueError, match="read-only"):
        first.a[0] = 7


def test_topohub_networks_load_with_latencies_close_to_those_of_the_zoo() -> None:
    archive = shared_data("topologies", "zoo", "graphml.tar.gz")
    hub = load_hub("topozoo/Abilene")
    zoo = load_file(archive, FileOverlay(path=str(archive), member="Abilene.graphml"))

    def by_names(graph: WeightedGraph) -> dict[frozenset[str], float]:
        ends = zip(graph.a.tolist(), graph.b.tolist(), graph.weights.tolist(), strict=True)
        return {frozenset((graph.names[a], graph.names[b])): ms for a, b, ms in ends}

    assert by_names(hub).keys() == by_names(zoo).keys()
    for link, ms in by_names(hub).items():
        assert ms == pytest.approx(by_names(zoo)[link], rel=0.01)


@pytest.mark.parametrize(
    "name", ["sndlib/polska", "backbone/africa", "caida/2024-08/5384", "gabriel/25/0", "topozoo/Geant2012"]
)
def test_each_group_of_topohub_makes_a_tree(name: str) -> None:
    topology = topohub.get(name)
    overlay = build({"topohub": {"name": name, "tree": "minimum"}})
    assert overlay.is_tree
    assert len(overlay.names) == len(topology["nodes"])
    shortest = build({"topohub": {"name": name, "tree": "shortest_path", "root": overlay.names[3]}})
    assert nx.is_tree(nx.Graph(zip(shortest.a.tolist(), shortest.b.tolist(), strict=True)))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("topozoo/Abilen", "topozoo/Abilene"),
        ("Geant2012", "topozoo/Geant2012"),
        ("../data/topozoo/Abilene", "topozoo/Abilene"),
    ],
)
def test_a_network_that_topohub_lacks_gets_the_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"did you mean '{hint}'") as caught:
        build({"topohub": {"name": name}})
    assert caught.value.problems[0].path == ("overlay", "topohub", "name")
    assert hint in hub_names()


def test_a_root_outside_the_overlay_is_refused(tmp_path: Path) -> None:
    field, message = refused(tmp_path, "n.csv", "src,dst\nAthens,Berlin\n", tree="shortest_path", root="Bern")
    assert field == "root"
    assert "no node 'Bern'; did you mean 'Berlin'" in message


def test_a_missing_file_says_where_it_was_looked_up(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file 'nowhere\.graphml'; tried") as caught:
        build({"file": {"path": "nowhere.graphml"}}, beside=tmp_path)
    assert caught.value.problems[0].path == ("overlay", "file", "path")
    assert str(tmp_path / "nowhere.graphml") in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "ends"),
    [({"src": "1", "dst": "2"}, {"1", "2", "3"}), ({"latency": "3"}, {"1", "2", "3"}),
     ({"src": "3", "dst": "1"}, {"1", "3", "4"})],
)  # fmt: skip
def test_a_first_link_whose_cells_are_the_numbers_of_columns_is_kept(
    tmp_path: Path, columns: dict[str, str], ends: set[str]
) -> None:
    (tmp_path / "a.csv").write_text("1,2,3\n3,2,4\n")
    overlay = build({"file": {"path": "a.csv", **columns}}, beside=tmp_path)
    assert {*overlay.names} == ends
    assert len(overlay.a) == 2
    assert any("no header, so ends in columns" in one and "the first line is a link" in one for one in overlay.notes)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.graphml", graphml([("0", "A", 1, 1)], [])[:-20], "line 6, column"),
        ("a.graphml", b"\x00\x01\x02\xff", "not well-formed XML"),
        ("a.graphml", b'<?xml version="1.0" encoding="klingon"?><graphml/>', "unknown encoding: klingon; save"),
        ("a.csv", 'src,dst\nA,"B\nB,C\n', "line 2: a cell begins with a quote and has no closing quote"),
        ("a.graphml", b"<svg/>", "not a GraphML file"),
        ("a.graphml", graphml([("0", "A", 1, 1)], []).replace(b'key="l"', b'key="q"'), "no key q"),
        ("a.graphml", graphml([("0", "A", 1, 1)], []).replace(b">1<", b">north<"), "north"),
        ("a.graphml", graphml([], []), "no node"),
        ("a.graphml", b"", "is empty"),
        ("a.csv", b" \n\n", "is empty"),
        ("a.csv", "src,dst\n", "no link"),
        ("a.csv", "src,dst\nA,B\nA\n", "line 3: 1 cells"),
        ("a.csv", "src,dst\nA,B,C\n", "line 2: 3 cells"),
        ("a.csv", "src,dst\nA,B\n\nC,\n", "line 4: the column 'dst' is empty"),
        ("a.csv", 'src,dst\n"A,B\n', "line 2: "),
        ("a.csv", b"src,dst\nA,\xffB\n", "line 2: not UTF-8 text (byte 0xff)"),
        ("a.csv", b"src,dst\nA,B\x00\n", "line 2: not a text file"),
        ("a.csv", ",A,B\nA,0,3\nB,3,0\n", "may be a matrix of latencies; name it with overlay.latency"),
        ("a.txt", "0 3 5\n3 0 4\n5 4 0\n", "may be a matrix of latencies; name it with overlay.latency"),
        ("a.csv", "x,y\nA,B\n", "the first line, 'x', 'y', may be a header or a link"),
        ("a.parquet", b"PAR1 and no more", "not a Parquet file"),
        ("a.graph", ROCKETFUEL.replace("NODES 2", "NODES 3"), "line 6: 'EDGES 1' is not entry 3 of 3"),
        ("a.graph", ROCKETFUEL.replace("NODES 2", "NODES 1"), "line 4: 'B 0 0' stands where 'EDGES n' should"),
        ("a.graph", ROCKETFUEL.replace("NODES 2", "NODES two"), "line 1: 'NODES' is followed by 'two'"),
        ("a.graph", ROCKETFUEL.replace("EDGES 1", "EDGES 2"), "cut short"),
        ("a.graph", ROCKETFUEL + "L 1 0 1 1 7\n", "line 9: 'L 1 0 1 1 7' comes after the 1 edges"),
        ("a.graph", ROCKETFUEL.replace("1 1 7", "1 1 -7"), "line 8: the delay is -7"),
        ("a.graph", ROCKETFUEL.replace("1 1 7", "1 1 fast"), "line 8: the delay is 'fast'"),
        ("a.graph", ROCKETFUEL.replace("1 1 7", "1 1 nan"), "line 8: the delay is nan"),
        ("a.graph", ROCKETFUEL.replace("L 0 1", "L 0 2"), "line 8: no node '2'; nodes are numbered 0 to 1"),
        ("a.graph", b"", "is empty"),
        ("a.txt", PSSIM.replace("0\t0\t1", "0\t0\t7"), "line 9: no node '7'"),
        ("a.txt", PSSIM.replace("1\t1\t9", "0\t1\t9"), "line 6: node '0' is listed twice"),
        ("a.txt", PSSIM.replace("25", "x"), "line 9: the delay is 'x'"),
        ("a.txt", PSSIM.replace("Edges:", "Links:"), "line 8: 'Links:' stands where 'Edges:' should"),
        ("a.txt", PSSIM[:36], "cut short"),
        ("a.txt", "hello\n", "a.txt has an unknown format"),
        ("a.tar.gz", b"no archive", "cannot be unpacked as an archive"),
        ("a.zip", b"no archive", "cannot be unpacked as an archive"),
        ("a.csv.gz", b"no gzip", "cannot be unpacked"),
        ("a.csv.xz", b"no xz", "cannot be unpacked"),
        ("a.csv.gz", gzip.compress(b"src,dst\nA,B\n" * 99, mtime=0)[:-12], "cannot be unpacked"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, name: str, content: bytes | str, words: str) -> None:
    field, message = refused(tmp_path, name, content)
    assert field == ("src" if "may be a header" in words else "path")
    assert words in message
    assert message.startswith(name.removesuffix(".gz"))


@pytest.mark.parametrize(
    ("file", "field", "words"),
    [
        ({"src": "sorce"}, "src", "no column 'sorce'; did you mean 'source'? its columns are 'source', 'dst', 'ms'"),
        ({"src": "source", "dst": "target"}, "dst", "no column 'target'"),
        ({"src": "source", "latency": "mss"}, "latency", "did you mean 'ms'"),
        ({"src": "source", "latency": "ms"}, "path", "line 3: the delay is -1"),
        ({"src": "source", "member": "x"}, "member", "not an archive"),
    ],
)
def test_a_setting_that_does_not_fit_the_file_is_blamed(
    tmp_path: Path, file: dict[str, str], field: str, words: str
) -> None:
    blamed, message = refused(tmp_path, "net.csv", "source,dst,ms\nA,B,1\nB,C,-1\n", **file)
    assert blamed == field
    assert words in message


def test_columns_are_for_edge_lists_only(tmp_path: Path) -> None:
    field, message = refused(tmp_path, "net.graph", ROCKETFUEL, latency="delay")
    assert field == "latency"
    assert "not an edge list" in message


def test_parquet_columns_are_checked(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"src": ["A", None], "dst": ["B", "C"], "ms": ["1", "x"]}), buffer)
    assert "row 2: the column 'src' is empty" in refused(tmp_path, "net.parquet", buffer.getvalue())[1]
    assert refused(tmp_path, "net.parquet", buffer.getvalue(), dst="dest")[0] == "dst"
    buffer = io.BytesIO()
    pq.write_table(pa.table({"src": [1], "dst": [2], "ms": ["x"]}), buffer)
    twice = io.BytesIO()
    pq.write_table(pa.table([[1], [2], [3]], names=["src", "dst", "dst"]), twice)
    assert "has 2 columns called 'dst'" in refused(tmp_path, "net.parquet", twice.getvalue())[1]
    assert "row 1: the delay is 'x'" in refused(tmp_path, "net.parquet", buffer.getvalue(), latency="ms")[1]
    assert build({"file": {"path": "net.parquet"}}, beside=tmp_path).names == ("1", "2")


def test_an_archive_of_several_files_needs_a_member(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("one.csv", "src,dst\nA,B\n")
        archive.writestr("two.csv", "src,dst\nC,D\n")
    field, message = refused(tmp_path, "nets.zip", buffer.getvalue())
    assert field == "member"
    assert "one of one.csv, two.csv" in message
    assert build({"file": {"path": "nets.zip", "member": "two.csv"}}, beside=tmp_path).names == ("C", "D")


def test_every_way_to_give_an_overlay_is_described() -> None:
    names = [name for name, _ in describe()]
    assert {"links", "file", "topohub", "generate random_tree"} <= set(names)
    assert all(line and "\n" not in line for _, line in describe())
