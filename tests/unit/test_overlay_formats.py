"""Overlays in the formats that people have: each read as networkx or pandas reads it, with what was found told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError
from pipelines.inputs.overlay.build import build_overlay
from pipelines.inputs.overlay.files import node_positions
from pipelines.scenario.overlay import OverlaySpec

SNDLIB = """<?xml version="1.0" encoding="ISO-8859-1"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0"><networkStructure>
<nodes coordinatesType="geographical">
<node id="Aachen"><coordinates><x>6.04</x><y>50.76</y></coordinates></node>
<node id="Berlin"><coordinates><x>13.48</x><y>52.52</y></coordinates></node>
<node id="Chemnitz"><coordinates><x>12.92</x><y>50.83</y></coordinates></node></nodes>
<links><link id="L1"><source>Aachen</source><target>Berlin</target></link>
<link id="L2"><source>Berlin</source><target>Chemnitz</target></link></links>
</networkStructure></network>"""
NATIVE = """?SNDlib native format; type: network; version: 1.0
# network germany
META (
  granularity = day
)
NODES (
  Aachen ( 6.04 50.76 )
  Berlin ( 13.48 52.52 )
  Chemnitz ( 12.92 50.83 )
)
LINKS (
  L1 ( Aachen Berlin ) 0.00 0.00 0.00 0.00 ( 40.00 1.00 )
  L2 ( Berlin Chemnitz ) 0.00 0.00 0.00 0.00 ( )
)
"""
CCH = """0 @Oslo,+Norway + bb (2) &1 -> <1> <2> {-7} =r0.oslo.example! r0
1 @Bergen,+Norway (1) -> <0> =r1.bergen.example r1
2 @Narvik,+Norway (1) -> <0> =r2.narvik.example r1
-7 =198.51.100.7 r2
"""


def build(folder: Path, content: str | bytes, name: str = "net", **file: Any) -> Overlay:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    spec = OverlaySpec.model_validate({"file": {"path": name, **file}})
    return build_overlay(spec, seed=0, round_ms=1.0, needs_tree=False, beside=folder)


def links(overlay: Overlay) -> set[frozenset[str]]:
    names = overlay.names
    return {frozenset((names[a], names[b])) for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True)}


def random_graph(is_directed: bool) -> nx.Graph[str]:
    """A connected graph with labels, parallel links and a self-loop."""
    whole = nx.MultiDiGraph() if is_directed else nx.MultiGraph()
    plain = nx.connected_watts_strogatz_graph(30, 4, 0.3, seed=4)
    whole.add_nodes_from((f"n{node}", {"label": f"city {node}"}) for node in plain)
    whole.add_edges_from((f"n{u}", f"n{v}", {"latency": float(1 + (u * 7 + v) % 40)}) for u, v in plain.edges)
    whole.add_edges_from((f"n{u}", f"n{v}", {"latency": 99.0}) for u, v in list(plain.edges)[:5])
    whole.add_edge("n3", "n3", latency=1.0)
    return whole


def lines(write: Callable[[nx.Graph[str]], Any]) -> Callable[[nx.Graph[str]], str]:
    return lambda graph: "\n".join(write(graph)) + "\n"


def dot_of(graph: nx.Graph[str]) -> str:
    kind, arrow = ("digraph", "->") if graph.is_directed() else ("graph", "--")
    nodes = "".join(f'  {node} [label="{data["label"]}"];\n' for node, data in graph.nodes(data=True))
    edges = "".join(f"  {u} {arrow} {v} [latency={d['latency']}];\n" for u, v, d in graph.edges(data=True))
    return f"{kind} {{\n{nodes}{edges}}}\n"


WRITERS: dict[str, Callable[[nx.Graph[str]], str]] = {
    "graphml": lines(lambda graph: nx.generate_graphml(graph)),
    "gml": lines(nx.generate_gml),
    "gexf": lines(nx.generate_gexf),
    "json": lambda graph: json.dumps(nx.node_link_data(graph, edges="links")),
    "json of networkx 3.6": lambda graph: json.dumps(nx.node_link_data(graph, edges="edges")),
    "dot": dot_of,
}


@pytest.mark.parametrize("is_directed", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_a_graph_that_networkx_writes_is_read_as_networkx_has_it(tmp_path: Path, name: str, is_directed: bool) -> None:
    if name == "dot":
        pytest.importorskip("pydot")
    graph = random_graph(is_directed)
    overlay = build(tmp_path, WRITERS[name](graph), latency="latency")  # the format is found in the content
    label = dict(graph.nodes(data="label")) if name != "gml" else {node: node for node in graph}
    plain = nx.Graph()
    plain.add_nodes_from(graph)
    for u, v, data in graph.edges(data=True):
        if u != v:
            ms = min(data["latency"], plain[u][v]["ms"] if plain.has_edge(u, v) else 1e9)
            plain.add_edge(u, v, ms=ms)
    assert sorted(overlay.names) == sorted(label.values())
    found = {
        frozenset((overlay.names[a], overlay.names[b])): rounds
        for a, b, rounds in zip(overlay.a.tolist(), overlay.b.tolist(), overlay.latency_rounds.tolist(), strict=True)
    }
    assert found == {frozenset((label[u], label[v])): int(ms) for u, v, ms in plain.edges(data="ms")}
    (note,) = overlay.notes
    assert note.startswith("1 self-loop dropped; 5 parallel links merged into the shortest")
    assert ("given in one direction" in note) == False  # noqa: E712


def test_links_of_one_direction_are_counted(tmp_path: Path) -> None:
    text = (
        'digraph { A -> B; B -> A; B -> C; subgraph cluster_x { C -> D [ms=2]; "E e" } D -> {"E e":r F}; '
        'A:p -> "D":q:n }'
    )
    pytest.importorskip("pydot")
    overlay = build(tmp_path, text)
    assert links(overlay) == {frozenset(pair) for pair in ("AB", "BC", "CD", ("D", "E e"), "DF", "AD")}
    assert any("5 of 6 links given in one direction and used for both" in note for note in overlay.notes)


def test_json_may_write_the_ends_of_links_as_strings_and_ids_as_numbers(tmp_path: Path) -> None:
    nodes, ends = [{"id": 1}, {"id": "2"}, {"id": 3}], [{"source": "1", "target": 3}, {"source": 3, "target": 2}]
    overlay = build(tmp_path, json.dumps({"nodes": nodes, "links": ends}))
    assert links(overlay) == {frozenset("13"), frozenset("23")}


def test_pajek_names_nodes_by_their_labels(tmp_path: Path) -> None:
    text = '*Vertices 3\n1 "Oslo a" 0.1 0.2 0.5\n2 "Bergen" 0 0 0\n3 "Narvik" 0 0 0\n*Edges\n1 2 4\n2 3 9\n'
    overlay = build(tmp_path, text, latency="weight")
    assert overlay.names == ("Oslo a", "Bergen", "Narvik")
    assert overlay.latency_rounds.tolist() == [4, 9]


@pytest.mark.parametrize("text", [SNDLIB, NATIVE])
def test_sndlib_has_positions(tmp_path: Path, text: str) -> None:
    overlay = build(tmp_path, text)
    assert overlay.names == ("Aachen", "Berlin", "Chemnitz")
    assert links(overlay) == {frozenset(("Aachen", "Berlin")), frozenset(("Berlin", "Chemnitz"))}
    assert overlay.latency_rounds.tolist() == [4, 2]  # 543 and 192 km, 200 km/ms, 1.3 times as long
    places = node_positions(OverlaySpec.model_validate({"file": {"path": "net"}}), tmp_path)
    assert places["Berlin"] == (13.48, 52.52)


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("c a map\np edge 3 2\ne 1 2\ne 2 3\n", [1, 1]),
        ("p sp 3 4\na 1 2 7\na 2 1 7\na 2 3 5\na 3 2 5\n", [7, 5]),
    ],
)
def test_dimacs_numbers_its_nodes(tmp_path: Path, text: str, rounds: list[int]) -> None:
    overlay = build(tmp_path, text, **({"latency": "weight"} if " sp " in text else {}))
    assert overlay.names == ("1", "2", "3")
    assert overlay.latency_rounds.tolist() == rounds


def test_a_map_of_routers_is_named_by_routers_or_places(tmp_path: Path) -> None:
    assert build(tmp_path, CCH).names == ("r0.oslo.example", "r1.bergen.example", "r2.narvik.example")
    overlay = build(tmp_path, CCH, names="location")
    assert overlay.names[0] == "Oslo,+Norway"
    assert links(overlay) == {frozenset((overlay.names[0], name)) for name in overlay.names[1:]}


def test_d3_links_by_place_where_nodes_have_no_ids(tmp_path: Path) -> None:
    text = '{"nodes": [{"name": "Oslo"}, {"name": "Bergen"}], "links": [{"source": 0, "target": 1, "value": 3}]}'
    assert build(tmp_path, text, latency="value").names == ("Oslo", "Bergen")


EDGES = [("0", "7"), ("7", "12"), ("12", "3"), ("3", "0")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# Undirected graph\n# FromNodeId\tToNodeId\n0\t7\n7\t12\n12\t3\n3\t0\n", "tabs between cells and no header"),
        ("0 7\n7  12\n12 3\n3 0\n", "spaces between cells and no header"),
        ("% sym unweighted\n0 7 1\n7 12 1\n12 3 1\n3 0 1\n", "spaces between cells and no header"),
        ("Source;Target\n0;7\n7;12\n12;3\n3;0\n", "semicolons between cells and a header, ends in columns 'Source'"),
        ("from|to\n0|7\n7|12\n12|3\n3|0\n", "bars between cells and a header"),
        (",source,target\n0,0.0,7.0\n1,7.0,12.0\n2,12.0,3.0\n3,3.0,0.0\n", "numbers with .0, as pandas writes them"),
        ("0,7\n7,0\n7,12\n12,7\n12,3\n3,12\n3,0\n0,3\n", "commas between cells and no header"),
    ],
)
def test_edge_lists_as_people_have_them(tmp_path: Path, text: str, told: str) -> None:
    overlay = build(tmp_path, text, name="net.csv")
    assert links(overlay) == {frozenset(pair) for pair in EDGES}
    assert any(told in note for note in overlay.notes), overlay.notes
    assert not any("direction" in note for note in overlay.notes)


def test_edges_without_a_header_name_columns_by_number(tmp_path: Path) -> None:
    text = "b;a;1,5\nc;b;12,0\n"
    overlay = build(tmp_path, text, name="net.csv", src="2", dst="1", latency="3")
    assert overlay.names == ("a", "b", "c")
    assert overlay.latency_rounds.tolist() == [2, 12]
    assert "decimal commas in 3" in overlay.notes[0]


def test_links_that_differ_by_direction_are_counted(tmp_path: Path) -> None:
    overlay = build(tmp_path, "src,dst,ms\nA,B,10\nB,A,80\nB,C,5\nC,B,5\nC,C,1\n", name="net.csv", latency="ms")
    assert overlay.latency_rounds.tolist() == [10, 5]
    (note,) = overlay.notes
    assert note.startswith(
        "1 self-loop dropped; 1 of 2 links differ by direction, by up to 70 ms, so both have the shorter"
    )


@pytest.mark.parametrize(
    ("text", "names", "field", "words"),
    [
        (CCH, "place", "names", "no node has an attribute 'place'; its nodes have location, name"),
        ("NODES 1\nlabel x y\nA 0 0\nEDGES 0\nlabel src dest weight bw delay\n", "x", "names",
         "no attributes of nodes"),
        ('{"nodes": [{"id": "a", "n": "A"}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}', "n", "names",
         "1 of 2 nodes have no 'n', the first is 'b'"),
        ('{"nodes": [{"id": "a"}], "links": [{"source": "a", "target": "b"}]}', None, "path", "a link ends at 'b'"),
        ('{"nodes": [{"id": 1}, {"id": "1"}], "links": []}', None, "path", "two nodes have the id '1'"),
        ('*Vertices 3\n1 "A"\n2 "B"\n3 "A"\n*Edges\n1 2\n3 2\n', None, "path", "3 vertices have 2 different labels"),
        ('{"nodes": ' + 9999 * "[", None, "path", "not JSON that can be read"),
        ("graph [ " + 9999 * "a [ ", None, "path", "not a GML file that can be read"),
        ('{"nodes": [{"id": "\\ud800"}], "links": []}', None, "path", "the name '\\ud800' contains a surrogate"),
        ('graph [ node [ id 0 label "a&#xD800;" ] ]', None, "path", "the name 'a\\ud800' contains a surrogate"),
        ('{"nodes": 3}', None, "path", "not node-link JSON"),
        ("p edge 3 2\ne 1 2\n", None, "path", "1 edges, and the line p announces 2"),
        ("p edge 3 1\ne 1 4\n", None, "path", "line 2: a link ends at '4'"),
        ("graph [ node [ id 0 ]", None, "path", "not a GML file that can be read"),
        (NATIVE.replace("Chemnitz )", "Cottbus )"), None, "path", "a link ends at 'Cottbus'"),
    ],
)  # fmt: skip
def test_a_graph_that_cannot_be_used_says_why(
    tmp_path: Path, text: str, names: str | None, field: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        build(tmp_path, text, **({"names": names} if names else {}))
    (problem,) = caught.value.problems
    assert problem.path == ("overlay", "file", field)
    assert words in problem.message
