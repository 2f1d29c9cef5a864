"""Overlays in GraphML, such as the networks of the Internet Topology Zoo."""

from __future__ import annotations

import math
import warnings
from io import BytesIO
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from pipelines.inputs.overlay.geo import great_circle_km, propagation_ms
from pipelines.inputs.overlay.weighted import ContentError, WeightedGraph, merge_parallel, unique_names


def parse_graphml(content: bytes) -> WeightedGraph:
    """Reads a GraphML file: node attributes ``label``, ``Latitude``, ``Longitude``; latencies by great-circle distance.

    Directed links count as undirected, parallel links as the shortest of them, self-loops are dropped.

    Args:
        content: The file.

    Raises:
        ContentError: It is no XML (with the line), no GraphML, or a coordinate is no number.
    """
    graph = _read(content)
    if not graph:
        raise ContentError("the GraphML file has no node; a graph needs at least one <node>")
    nodes = list(graph.nodes(data=True))
    index = {node: i for i, (node, _) in enumerate(nodes)}
    place = np.array([[_degrees(node, data, "Latitude"), _degrees(node, data, "Longitude")] for node, data in nodes])
    ends = np.array([(index[u], index[v]) for u, v in graph.edges()], dtype=np.int64).reshape(-1, 2)
    ends = ends[ends[:, 0] != ends[:, 1]]
    u, v = place[ends[:, 0]], place[ends[:, 1]]
    ms = propagation_ms(great_circle_km(u[:, 0], u[:, 1], v[:, 0], v[:, 1]))
    labels = [None if (label := data.get("label")) is None else str(label) for _, data in nodes]
    return merge_parallel(unique_names(labels, [str(node) for node, _ in nodes]), ends, ms)


def _read(content: bytes) -> nx.Graph[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            graph: nx.Graph[Any] = nx.read_graphml(BytesIO(content))
    except ParseError as error:
        line, column = error.position
        raise ContentError(f"line {line}, column {column}: not well-formed XML ({error.msg.split(':')[0]})") from error
    except (nx.NetworkXException, LookupError, ValueError, TypeError, AttributeError) as error:
        cause = str(error.args[0]) if error.args else type(error).__name__
        raise ContentError(f"not a GraphML file that can be read: {cause}") from error
    return graph


def _degrees(node: str, data: dict[str, Any], attribute: str) -> float:
    """Returns a coordinate; NaN where the node has none."""
    value = data.get(attribute)
    if value is None or (isinstance(value, str) and value.strip() in ("", "None")):
        return math.nan
    try:
        degrees = float(value)
    except ValueError as error:
        raise ContentError(f"node {node!r}: {attribute} is {value!r}; a coordinate is a number of degrees") from error
    return degrees if math.isfinite(degrees) else math.nan
