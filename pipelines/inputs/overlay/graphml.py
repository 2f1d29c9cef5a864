"""Overlays in GraphML, such as the networks of the Internet Topology Zoo."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any
from xml.etree import ElementTree as ET

import networkx as nx
import numpy as np

from pipelines.errors import nearest
from pipelines.inputs.overlay.columns import Columns
from pipelines.inputs.overlay.geo import FLOOR_MS, great_circle_km, propagation_ms
from pipelines.inputs.overlay.routers import delay
from pipelines.inputs.overlay.weighted import ContentError, Floats, WeightedGraph, merge_parallel, unique_names

_LIKE_LATENCIES = ("latency", "delay", "rtt")
_COORDINATES = ("Longitude", "Latitude")
_UNKNOWN = ("", "None")

Edge = tuple[Any, Any, Mapping[str, Any]]


def parse_graphml(content: bytes, columns: Columns) -> WeightedGraph:
    """Reads a GraphML file: node attributes ``label``, ``Latitude``, ``Longitude``.

    Latencies are those of the edge attribute that is named, else they follow from the great-circle distances.
    Directed links count as undirected, parallel links as the shortest of them, self-loops are dropped. Nodes and edges
    of nested graphs are nodes and edges like others; a node that contains a graph counts only if an edge names it.

    Args:
        content: The file.
        columns: The edge attribute of the latency, if any.

    Raises:
        ContentError: It is no XML (with the line), no GraphML, has several graphs, a coordinate or a latency is no
            number, an edge has no latency, or ends at a node that is not declared.
    """
    graph = _read(content)
    if not graph:
        raise ContentError("the GraphML file has no node; a graph needs at least one <node>")
    nodes = list(graph.nodes(data=True))
    index = {node: i for i, (node, _) in enumerate(nodes)}
    edges = [(u, v, data) for u, v, data in graph.edges(data=True) if u != v]
    ends = np.array([(index[u], index[v]) for u, v, _ in edges], dtype=np.int64).reshape(-1, 2)
    names = _names(nodes)
    if columns.latency is not None:
        defaults = graph.graph.get("edge_default", {})
        return merge_parallel(names, ends, _named_ms(edges, columns.latency, defaults, columns))
    place = np.array([[_degrees(node, data, "Latitude"), _degrees(node, data, "Longitude")] for node, data in nodes])
    u, v = place[ends[:, 0]], place[ends[:, 1]]
    km = great_circle_km(u[:, 0], u[:, 1], v[:, 0], v[:, 1])
    return merge_parallel(names, ends, propagation_ms(km), _note(km, _attributes(edges)))


def graphml_positions(content: bytes) -> dict[str, tuple[float, float]]:
    """Returns longitude and latitude of the nodes that have both, by the names that `parse_graphml` gives them.

    Raises:
        ContentError: As `parse_graphml`.
    """
    nodes = list(_read(content).nodes(data=True))
    placed = ((_degrees(node, data, "Longitude"), _degrees(node, data, "Latitude")) for node, data in nodes)
    return {name: place for name, place in zip(_names(nodes), placed, strict=True) if not any(map(math.isnan, place))}


def _names(nodes: Sequence[tuple[Any, Mapping[str, Any]]]) -> tuple[str, ...]:
    labels = [None if (label := data.get("label")) is None else str(label) for _, data in nodes]
    return unique_names(labels, [str(node) for node, _ in nodes])


def _named_ms(edges: Sequence[Edge], name: str, defaults: Mapping[str, Any], columns: Columns) -> Floats:
    """Returns the latencies that an edge attribute says."""
    found = []
    for u, v, data in edges:
        value = data.get(name, defaults.get(name))
        if value is None:
            known = _attributes(edges)
            shown = f"its edges have {', '.join(known)}" if known else "its edges have no attributes"
            message = f"the edge of {u!r} and {v!r} has no attribute {name!r};{nearest(name, known)} {shown}"
            raise ContentError(message, "latency")
        found.append(delay(value, f"the edge of {u!r} and {v!r}, {name}"))
    return columns.in_ms(np.array(found, dtype=np.float64))


def _attributes(edges: Sequence[Edge]) -> list[str]:
    return sorted({str(name) for _, _, data in edges for name in data})


def _note(km: Floats, attributes: Sequence[str]) -> str:
    """Returns what positions do not say of latencies, and which edge attributes look as if they did."""
    like = [name for name in attributes if any(word in name.lower() for word in _LIKE_LATENCIES)]
    named = ", ".join(like or attributes)
    hint = f"; to take an edge attribute, name it with file.latency: {named}" if named else ""
    n_unknown = int(np.isnan(km).sum())
    if len(km) and n_unknown == len(km):
        return f"no node has a position, so every link takes {FLOOR_MS:g} ms{hint}"
    if n_unknown:
        return f"{n_unknown} of {len(km)} links end at nodes without a position and take the median of the others{hint}"
    return f"latencies follow from positions, not from the edge attribute {', '.join(like)}{hint}" if like else ""


def _read(content: bytes) -> nx.Graph[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            graph: nx.Graph[Any] = nx.read_graphml(BytesIO(_flat(content)))
    except ET.ParseError as error:
        line, column = error.position
        raise ContentError(f"line {line}, column {column}: not well-formed XML ({error.msg.split(':')[0]})") from error
    except ContentError:
        raise
    except (nx.NetworkXException, LookupError, ValueError, TypeError, AttributeError) as error:
        cause = str(error.args[0]) if error.args else type(error).__name__
        raise ContentError(f"not a GraphML file that can be read: {cause}") from error
    return graph


def _flat(content: bytes) -> bytes:
    """Returns a document with one graph without nesting, whose edges have attributes for data only.

    networkx ignores nested graphs and all graphs but the first, invents nodes that edges name, and takes the id of an
    edge for an attribute.
    """
    document = ET.fromstring(content)  # noqa: S314 - as networkx parses it
    graphs = _children(document, "graph")
    if len(graphs) > 1:
        shown = ", ".join(repr(graph.get("id", "")) for graph in graphs[:5])
        raise ContentError(
            f"the file has {len(graphs)} graphs ({shown}); allowed: one, so keep one <graph> in the file"
        )
    for graph in graphs:
        groups = _lift_nested(graph)
        ends = _checked_ends(graph)
        for element in _children(graph, "node"):
            if element.get("id") in groups - ends:
                graph.remove(element)
        _drop_unknown(graph, {key.get("id"): key for key in _children(document, "key")})
    return ET.tostring(document)


def _children(element: ET.Element, *names: str) -> list[ET.Element]:
    """Returns the children with one of some names, in any namespace."""
    return [child for child in element if child.tag.rpartition("}")[2] in names]


def _lift_nested(top: ET.Element) -> set[str | None]:
    """Moves the nodes and edges of nested graphs to the top; returns the ids of the nodes that contained nodes."""
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
    """Returns the ends of all edges, each a declared node; drops what an edge has beside ends and data."""
    declared: set[str] = set()
    for node in _children(graph, "node"):
        name = node.get("id", "")
        if not name or name in declared:
            what = f"two nodes have the id {name!r}" if name else "a <node> has no id"
            raise ContentError(f"{what}; each node has an id of its own")
        declared.add(name)
    ends: set[str | None] = set()
    for edge in _children(graph, "edge"):
        named = [edge.get(key, "") for key in ("source", "target")]
        for name in named:
            if name not in declared:
                known = f"{nearest(name, sorted(declared)[:2000])} allowed: the id of a <node>"
                message = (
                    f"the edge of {named[0]!r} and {named[1]!r} ends at {name!r}, which no <node> declares;{known}"
                )
                raise ContentError(message)
        ends.update(named)
        for key in ("id", "directed"):
            edge.attrib.pop(key, None)
    return ends


def _drop_unknown(graph: ET.Element, keys: Mapping[str | None, ET.Element]) -> None:
    """Drops data without a value: blank numbers, and coordinates that are blank or None."""
    for element in _children(graph, "node", "edge"):
        for data in _children(element, "data"):
            key = keys.get(data.get("key"))
            text = (data.text or "").strip()
            if key is None or len(data) or text not in _UNKNOWN:
                continue
            if key.get("attr.name") in _COORDINATES or (not text and key.get("attr.type") != "string"):
                element.remove(data)


def _degrees(node: str, data: dict[str, Any], attribute: str) -> float:
    """Returns a coordinate; NaN where the node has none."""
    value = data.get(attribute)
    if value is None or (isinstance(value, str) and value.strip() in _UNKNOWN):
        return math.nan
    try:
        degrees = float(value)
    except ValueError as error:
        raise ContentError(f"node {node!r}: {attribute} is {value!r}; a coordinate is a number of degrees") from error
    return degrees if math.isfinite(degrees) else math.nan
