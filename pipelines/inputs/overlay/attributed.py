"""Overlays from networkx graphs whose nodes and edges have attributes, such as names, positions and latencies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Floats
from pipelines.errors import DataFileError, nearest
from pipelines.inputs.overlay.text_formats import delay
from pipelines.inputs.overlay.weighted import (
    FLOOR_MS,
    WeightedGraph,
    great_circle_km,
    in_ms,
    merge_parallel,
    propagation_ms,
    unique_names,
)
from pipelines.inputs.text_rows import is_number
from pipelines.scenario.overlay import FileOverlay

UNKNOWN = ("", "None")
_LIKE_LATENCIES = ("latency", "delay", "rtt")
_NAMES = ("label", "name")
_LATITUDE = ("latitude", "lat")
_LONGITUDE = ("longitude", "lon", "lng", "long")

Edge = tuple[Any, Any, Mapping[str, Any]]
Nodes = Sequence[tuple[Any, Mapping[str, Any]]]


def is_coordinate(attribute: str | None) -> bool:
    """Returns whether `attribute` is one of the known names for a latitude or longitude."""
    return (attribute or "").lower() in (*_LATITUDE, *_LONGITUDE)


def weighted_graph(graph: nx.Graph[Any], columns: FileOverlay) -> WeightedGraph:
    """Returns the overlay of `graph`, whose nodes and edges have attributes.

    Node names come from attribute ``columns.names``, else from ``label`` or ``name``, else from the ids of the nodes.
    Latencies come from edge attribute ``columns.latency``, else from great-circle distances. Directed links become
    undirected. Of parallel links, the link with the lowest latency remains. Self-loops are dropped.

    Raises:
        DataFileError: The graph has no node, or a name, a coordinate or a latency is missing or invalid.
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

    Raises:
        DataFileError: A coordinate is not a number, or a node lacks the attribute `names`.
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
    if value is None or (isinstance(value, str) and value.strip() in UNKNOWN):
        return math.nan
    cell = str(value).strip()
    if not is_number(cell):
        raise DataFileError(f"node {node!r}: {attribute} is {value!r}; a coordinate is a number of degrees")
    degrees = float(cell)
    return degrees if math.isfinite(degrees) else math.nan
