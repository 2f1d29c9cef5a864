"""Readers of graph formats, and overlays from graphs whose nodes and edges have attributes, such as latencies.

The formats are GraphML, GML, GEXF, Pajek, JSON (networkx), DOT (pydot), SNDlib, DIMACS and ``.cch``. The GraphML reader
flattens and checks a file before networkx reads it. The readers of SNDlib, DIMACS and Rocketfuel's ``.cch`` use no
library.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Floats
from pipelines.errors import DataFileError, first_line, nearest
from pipelines.inputs.overlay.weighted import (
    FLOOR_MS,
    WeightedGraph,
    great_circle_km,
    in_ms,
    merge_parallel,
    propagation_ms,
    unique_names,
)
from pipelines.inputs.text_rows import decode, delay, is_number
from pipelines.scenario.overlay import FileOverlay, OverlayFormat

_UNKNOWN = ("", "None")
_LIKE_LATENCIES = ("latency", "delay", "rtt")
_NAMES = ("label", "name")
_LATITUDE = ("latitude", "lat")
_LONGITUDE = ("longitude", "lon", "lng", "long")

Edge = tuple[Any, Any, Mapping[str, Any]]
Nodes = Sequence[tuple[Any, Mapping[str, Any]]]


def weighted_graph(graph: nx.Graph[Any], columns: FileOverlay) -> WeightedGraph:
    """Returns the overlay of `graph`, whose nodes and edges have attributes.

    Node names come from attribute ``columns.names``, else from ``label`` or ``name``, else from the ids of the nodes.
    Latencies come from edge attribute ``columns.latency``, else from great-circle distances. Directed links become
    undirected. Of parallel links, the link with the lowest latency remains. Self-loops are dropped.
    """
    if not graph:
        raise DataFileError("the file has no node; an overlay needs one or more")
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    index = {node: i for i, (node, _) in enumerate(nodes)}
    ends = np.array([(index[u], index[v]) for u, v, _ in edges], dtype=np.int64).reshape(-1, 2)
    names, attribute = _names(nodes, columns.names)
    told = attribute and columns.names is None and attribute != _NAMES[0]
    notes = [f"nodes are named by their attribute {attribute}; file.names takes another one"] if told else []
    merge: dict[str, Any] = {"notes": notes, "is_directed": graph.is_directed()}
    if columns.latency is not None:
        found = _named_ms(edges, columns.latency, graph.graph.get("edge_default", {}), columns)
        return merge_parallel(names, ends, found, **merge)
    place = np.array([_place(node, data) for node, data in nodes])
    u, v = place[ends[:, 0]], place[ends[:, 1]]
    km = great_circle_km(u[:, 1], u[:, 0], v[:, 1], v[:, 0])
    is_link = ends[:, 0] != ends[:, 1]
    ms = np.zeros(len(ends))
    ms[is_link] = propagation_ms(km[is_link])
    return merge_parallel(names, ends, ms, _note(km[is_link], _attributes(edges)), **merge)


def positions(graph: nx.Graph[Any], names: str | None) -> dict[str, tuple[float, float]]:
    """Returns a map from node name to (longitude, latitude) in degrees. It omits nodes without a complete position.

    `names` is the node attribute that contains the names. None selects the attributes as in `weighted_graph`.
    """
    nodes = list(graph.nodes(data=True))
    placed = (_place(node, data) for node, data in nodes)
    found = zip(_names(nodes, names)[0], placed, strict=True)
    return {name: place for name, place in found if not any(map(math.isnan, place))}


def _names(nodes: Nodes, wanted: str | None) -> tuple[tuple[str, ...], str]:
    ids = [str(node) for node, _ in nodes]
    known = {str(key) for _, data in nodes for key in data}
    if wanted is not None and wanted not in known:
        shown = f"its nodes have {', '.join(sorted(known))}" if known else "its nodes have no attributes"
        raise DataFileError(f"no node has an attribute {wanted!r};{nearest(wanted, known)} {shown}", "names")
    attribute = wanted if wanted is not None else next((name for name in _NAMES if name in known), "")
    labels = [None if (label := data.get(attribute)) is None else str(label) for _, data in nodes]
    if wanted is not None and (without := [node for node, label in zip(ids, labels, strict=True) if not label]):
        message = f"{len(without)} of {len(ids)} nodes have no {wanted!r}, the first is {without[0]!r}"
        raise DataFileError(f"{message}; give each node one, or leave names out", "names")
    return unique_names(labels, ids), attribute


def _named_ms(edges: Sequence[Edge], name: str, defaults: Mapping[str, Any], columns: FileOverlay) -> Floats:
    found = []
    for u, v, data in edges:
        value = data.get(name, defaults.get(name, 0 if u == v else None))
        if value is None:
            known = _attributes(edges)
            shown = f"its edges have {', '.join(known)}" if known else "its edges have no attributes"
            hint = "give each edge one" if name in known else f"{nearest(name, known)} {shown}".lstrip()
            raise DataFileError(f"the edge of {u!r} and {v!r} has no attribute {name!r}; {hint}", "latency")
        found.append(delay(value, f"the edge of {u!r} and {v!r}, {name}"))
    return in_ms(np.array(found, dtype=np.float64), columns.latency_unit)


def _attributes(edges: Sequence[Edge]) -> list[str]:
    return sorted({str(name) for _, _, data in edges for name in data})


def _note(km: Floats, attributes: Sequence[str]) -> str:
    like = [name for name in attributes if any(word in name.lower() for word in _LIKE_LATENCIES)]
    named = ", ".join(like or attributes)
    hint = f"; to take an edge attribute, name it with file.latency: {named}" if named else ""
    n_unknown = int(np.isnan(km).sum())
    if len(km) and n_unknown == len(km):
        return f"no link has positions of both ends, so every link takes {FLOOR_MS:g} ms{hint}"
    if n_unknown:
        return f"{n_unknown} of {len(km)} links end at nodes without a position and take the median of the others{hint}"
    return f"latencies follow from positions, not from the edge attribute {', '.join(like)}{hint}" if like else ""


def _place(node: object, data: Mapping[str, Any]) -> tuple[float, float]:
    by_lower = {str(key).lower(): key for key in data}
    longitude, latitude = (
        next((by_lower[name] for name in names if name in by_lower), names[0]) for names in (_LONGITUDE, _LATITUDE)
    )
    return _degrees(node, data, longitude), _degrees(node, data, latitude)


def _degrees(node: object, data: Mapping[str, Any], attribute: str) -> float:
    value = data.get(attribute)
    if value is None or (isinstance(value, str) and value.strip() in _UNKNOWN):
        return math.nan
    cell = str(value).strip()
    if not is_number(cell):
        raise DataFileError(f"node {node!r}: {attribute} is {value!r}; a coordinate is a number of degrees")
    degrees = float(cell)
    return degrees if math.isfinite(degrees) else math.nan


Graph: TypeAlias = "nx.Graph[Any]"
_CAUSES = (nx.NetworkXException, LookupError, ValueError, TypeError, AttributeError, RecursionError, ET.ParseError)
_SECTION = r"^\s*{}\s*\(\s*$(.*?)^\s*\)\s*$"
_NODE = re.compile(r"^\s*(\S+)\s*\(\s*(\S+)\s+(\S+)\s*\)\s*$")
_LINK = re.compile(r"^\s*(\S+)\s*\(\s*(\S+)\s+(\S+)\s*\)(.*)$")
_DOT_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|[^:]+')
_ROUTER = re.compile(r"^(\d+)\s+@(\S*)\s.*?->(.*?)=(\S+)\s+r\d+\s*$")


def read_graphml(content: bytes) -> Graph:
    """Reads GraphML.

    Nodes and edges of nested graphs become nodes and edges of the graph. A node that contains a graph remains only if
    it is an end of an edge.
    """
    try:
        document = ET.fromstring(content)  # noqa: S314 - as networkx parses it
    except ET.ParseError as error:
        line, column = error.position
        raise DataFileError(f"line {line}, column {column}: not well-formed XML ({error.msg.split(':')[0]})") from error
    except (LookupError, ValueError) as error:
        raise DataFileError(f"not XML that can be read: {first_line(error)}; save the file as UTF-8") from error
    return nx.read_graphml(BytesIO(_flat(document)))


def _flat(document: ET.Element) -> bytes:
    # networkx reads only the first graph, ignores nested graphs, adds undeclared nodes, and turns edge ids into
    # attributes.
    graphs = _children(document, "graph")
    if len(graphs) > 1:
        shown = ", ".join(repr(graph.get("id", "")) for graph in graphs[:5])
        message = f"the file has {len(graphs)} graphs ({shown}); allowed: one, so keep one <graph> in the file"
        raise DataFileError(message)
    for graph in graphs:
        groups = _lift_nested(graph)
        ends = _checked_ends(graph)
        for element in _children(graph, "node"):
            if element.get("id") in groups - ends:
                graph.remove(element)
        _drop_unknown(graph, {key.get("id"): key for key in _children(document, "key")})
    return ET.tostring(document)


def _children(element: ET.Element, *names: str) -> list[ET.Element]:
    return [child for child in element if child.tag.rpartition("}")[2] in names]  # in any namespace


def _lift_nested(top: ET.Element) -> set[str | None]:
    """Moves nodes and edges of nested graphs to `top`. Returns the ids of the nodes that contained nodes."""
    groups = set()
    waiting = [top]
    for graph in waiting:
        for element in _children(graph, "node", "edge", "hyperedge"):
            if graph is not top:
                top.append(element)
            for nested in _children(element, "graph"):
                element.remove(nested)
                waiting.append(nested)
                if _children(nested, "node"):
                    groups.add(element.get("id"))
    return groups


def _checked_ends(graph: ET.Element) -> set[str | None]:
    """Checks the ends of all edges and returns the node ids of the ends. Removes ids and directions of edges."""
    declared: set[str] = set()
    for node in _children(graph, "node"):
        name = node.get("id", "")
        if not name or name in declared:
            what = f"two nodes have the id {name!r}" if name else "a <node> has no id"
            raise DataFileError(f"{what}; each node has an id of its own")
        declared.add(name)
    ends: set[str | None] = set()
    for edge in _children(graph, "edge"):
        named = [edge.get(key, "") for key in ("source", "target")]
        for name in named:
            if name not in declared:
                known = f"{nearest(name, sorted(declared)[:2000])} allowed: the id of a <node>"
                edge_name = f"the edge of {named[0]!r} and {named[1]!r}"
                raise DataFileError(f"{edge_name} ends at {name!r}, which no <node> declares;{known}")
        ends.update(named)
        for key in ("id", "directed"):
            edge.attrib.pop(key, None)
    return ends


def _drop_unknown(graph: ET.Element, keys: Mapping[str | None, ET.Element]) -> None:
    for element in _children(graph, "node", "edge"):
        for data in _children(element, "data"):
            key = keys.get(data.get("key"))
            text = (data.text or "").strip()
            if key is None or len(data) or text not in _UNKNOWN:
                continue
            # Files write unknown coordinates as None, and unknown numbers as blanks.
            is_coordinate = key.get("attr.name", "").lower() in (*_LATITUDE, *_LONGITUDE)
            if is_coordinate or (not text and key.get("attr.type") != "string"):
                element.remove(data)


def read_gml(content: bytes) -> Graph:
    """Reads GML. Parallel edges are allowed even if the file does not declare a multigraph."""
    text = decode(content)
    if not re.search(r"\bmultigraph\s+1\b", text):
        text = re.sub(r"\bgraph\s*\[", "graph [ multigraph 1", text, count=1)
    return nx.parse_gml(text.splitlines(), label="id")


def read_gexf(content: bytes) -> Graph:
    """Reads GEXF. The ids of edges do not become attributes."""
    graph: Graph = nx.read_gexf(BytesIO(content))
    for _, _, data in graph.edges(data=True):
        data.pop("id", None)
    return graph


def read_pajek(content: bytes) -> Graph:
    """Reads Pajek. A node's id in the returned graph is its label in the file."""
    text = decode(content)
    graph: Graph = nx.parse_pajek(text.splitlines())
    wanted = sum(map(int, re.findall(r"(?im)^\*vertices\s+(\d+)", text)))
    if len(graph) < wanted:
        labels = f"{wanted} vertices have {len(graph)} different labels"
        raise DataFileError(f"{labels}; each vertex has a label of its own")
    return graph


def read_dot(content: bytes) -> Graph:
    """Reads DOT. Nodes and edges of subgraphs become nodes and edges of the graph."""
    try:
        import pydot
    except ImportError as error:
        message = "DOT needs the package pydot; install it with pip install roundtable-pubsub[dot], or convert the file"
        raise DataFileError(message) from error
    found = pydot.graph_from_dot_data(decode(content))
    if not found:
        raise DataFileError("not a DOT file that can be read: pydot finds no graph; check the file with dot -Tsvg")
    (top, *others) = found
    if others:
        raise DataFileError(f"the file has {len(found)} graphs; allowed: one, so keep one in the file")
    graph: Graph = nx.MultiDiGraph() if top.get_type() == "digraph" else nx.MultiGraph()
    waiting: list[Any] = [top]
    for part in waiting:
        for node in part.get_node_list():
            if node.get_name() not in ("node", "edge", "graph", '"\\n"'):
                graph.add_node(_bare(node.get_name()), **_plain(node.get_attributes()))
        for edge in part.get_edge_list():
            sources, targets = (_dot_ends(end) for end in (edge.get_source(), edge.get_destination()))
            graph.add_edges_from((u, v, _plain(edge.get_attributes())) for u in sources for v in targets)
        waiting += part.get_subgraph_list()
    for _, data in graph.nodes(data=True):
        if data.get("label") == "\\N":
            del data["label"]
    return graph


def _dot_ends(end: Any) -> list[str]:  # noqa: ANN401 - pydot has no types
    # An edge to a subgraph leads to all its nodes. Ends can name a port of a node: "a":port.
    names = [end] if isinstance(end, str) else end["nodes"]
    return [_bare(_DOT_NAME.findall(name)[0]) for name in names]


def _bare(text: str) -> str:
    return text[1:-1].replace('\\"', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text


def _plain(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): _bare(str(value)) for key, value in attributes.items()}


def read_json(content: bytes) -> Graph:
    """Reads node-link JSON (networkx, D3): an object with a list ``nodes`` and a list ``links`` or ``edges``.

    The id of a node without ``id`` is its index in the list. Ids are compared as strings.
    """
    try:
        data = json.loads(decode(content))
    except (ValueError, RecursionError) as error:
        raise DataFileError(f"not JSON that can be read: {first_line(error)}") from error
    links = next((key for key in ("links", "edges") if isinstance(data, dict) and key in data), None)
    if links is None or not isinstance(data.get("nodes"), list) or not isinstance(data[links], list):
        raise DataFileError("not node-link JSON; allowed: an object with a list nodes and a list links or edges")
    graph: Graph = nx.MultiDiGraph() if data.get("directed") else nx.MultiGraph()
    graph.graph.update(data.get("graph") or {})
    for number, node in enumerate(data["nodes"]):
        name = str(node.get("id", number))
        if name in graph:
            raise DataFileError(f"two nodes have the id {name!r}; each node has an id of its own")
        graph.add_node(name, **{key: node[key] for key in node if key != "id"})
    own = ("source", "target", "key", "id")
    ends = ((str(link["source"]), str(link["target"]), link) for link in data[links])
    edges = ((u, v, {key: link[key] for key in link if key not in own}) for u, v, link in ends)
    _add_known(graph, edges, links)
    return graph


def read_sndlib(content: bytes) -> Graph:
    """Reads an SNDlib network in XML or in the native format. Geographical coordinates become node attributes."""
    graph: Graph = nx.MultiGraph()
    if content.lstrip().startswith(b"<"):
        document = ET.fromstring(content)  # noqa: S314 - a local file
        for element in document.iter():
            element.tag = element.tag.rpartition("}")[2]
        is_placed = any(one.get("coordinatesType") == "geographical" for one in document.iter("nodes"))
        for node in document.iter("node"):
            x, y = (node.findtext(f"coordinates/{axis}") for axis in "xy")
            graph.add_node(node.get("id"), **({"longitude": x, "latitude": y} if is_placed and x and y else {}))
        links = [(link.findtext("source"), link.findtext("target")) for link in document.iter("link")]
    else:
        text = re.sub(r"#.*", "", decode(content))
        nodes, found = (_section(text, title, pattern) for title, pattern in (("NODES", _NODE), ("LINKS", _LINK)))
        for name, x, y in nodes:
            graph.add_node(name, longitude=x, latitude=y)
        links = [(row[1], row[2]) for row in found]
    _add_known(graph, ((str(u).strip(), str(v).strip(), {}) for u, v in links), "SNDlib")
    return graph


def _section(text: str, title: str, pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    found = re.search(_SECTION.format(title), text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise DataFileError(f"not an SNDlib file that can be read: it has no section {title} ( ... )")
    rows = []
    for line in filter(str.strip, found[1].splitlines()):
        entry = pattern.match(line)
        if entry is None:
            raise DataFileError(f"section {title}: {line.strip()[:60]!r} is not an entry; an entry is 'id ( a b ) ...'")
        rows.append(entry.groups())
    return rows


def read_dimacs(content: bytes) -> Graph:
    """Reads DIMACS: lines ``p edge n m`` and ``e u v``, or ``p sp n m`` and ``a u v weight``; nodes are 1 to n."""
    graph: Graph = nx.MultiGraph()
    n_links, wanted = 0, None
    for number, line in enumerate(decode(content).splitlines(), start=1):
        fields = line.split()
        try:
            if not fields or fields[0] in ("c", "n", "d", "v", "x"):
                continue
            if fields[0] == "p":
                graph = nx.MultiDiGraph() if fields[1] == "sp" else nx.MultiGraph()
                graph.add_nodes_from(str(node) for node in range(1, int(fields[2]) + 1))
                wanted = int(fields[3])
            elif fields[0] in ("e", "a"):
                data = {"weight": fields[3]} if len(fields) > 3 else {}
                _add_known(graph, [(fields[1], fields[2], data)], f"line {number}")
                n_links += 1
            else:
                raise ValueError(fields[0])
        except (ValueError, IndexError) as error:
            message = f"line {number}: {line.strip()[:60]!r} is not a line of DIMACS; allowed: p, e u v, a u v w, c"
            raise DataFileError(message) from error
    if wanted is None:
        raise DataFileError("not a DIMACS file: it has no line 'p edge nodes edges' or 'p sp nodes arcs'")
    if n_links not in (wanted, 2 * wanted):
        message = f"{n_links} edges, and the line p announces {wanted}; the file is cut short or its line wrong"
        raise DataFileError(message)
    return graph


def read_cch(content: bytes) -> Graph:
    """Reads a Rocketfuel map of routers (``.cch``): ``uid @location ... -> <neighbour> ... =name rn``."""
    graph: Graph = nx.MultiDiGraph()
    links: list[tuple[str, str, Mapping[str, Any]]] = []
    for number, line in enumerate(decode(content).splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("-", "#")):
            continue  # an external node
        found = _ROUTER.match(line.strip())
        if found is None:
            raise DataFileError(
                f"line {number}: {line.strip()[:60]!r} is not a router; allowed: uid @location ... -> ... =name rn"
            )
        graph.add_node(found[1], name=found[4].rstrip("!"), location=found[2])
        links += [(found[1], other, {}) for other in re.findall(r"<(\d+)>", found[3])]
    _add_known(graph, links, "the map")
    return graph


def _add_known(graph: Graph, links: Iterable[tuple[str, str, Mapping[str, Any]]], place: str) -> None:
    for u, v, data in links:
        for name in (u, v):
            if name not in graph:
                message = f"{place}: a link ends at {name!r}, which is not a node;"
                known = nearest(name, list(map(str, graph.nodes))[:2000])
                raise DataFileError(f"{message}{known} allowed: a node of the file")
        graph.add_edge(u, v, **data)


READERS: Mapping[OverlayFormat, tuple[str, Callable[[bytes], Graph]]] = {
    "graphml": ("GraphML", read_graphml), "gml": ("GML", read_gml), "gexf": ("GEXF", read_gexf),
    "pajek": ("Pajek", read_pajek), "dot": ("DOT", read_dot), "json": ("node-link JSON", read_json),
    "sndlib": ("SNDlib", read_sndlib), "dimacs": ("DIMACS", read_dimacs), "cch": ("Rocketfuel", read_cch),
}  # fmt: skip
"""The title and the reader of each format."""


def read_graph(kind: OverlayFormat, content: bytes) -> Graph:
    """Returns the graph in a file, with the attributes of its nodes and edges; `kind` is a key of `READERS`."""
    title, read = READERS[kind]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(content)
    except _CAUSES as error:
        message = f"not a {title} file that can be read: {first_line(error)}; check the file, or name another format"
        raise DataFileError(message) from error
