"""Graphs in GraphML, such as the networks of the Internet Topology Zoo."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from io import BytesIO
from typing import Any
from xml.etree import ElementTree as ET

import networkx as nx

from pipelines.errors import nearest
from pipelines.inputs.overlay.attributed import UNKNOWN, is_coordinate
from pipelines.inputs.overlay.weighted import ContentError


def read_graphml(content: bytes) -> nx.Graph[Any]:
    """Reads a GraphML file.

    Nodes and edges of nested graphs are nodes and edges like others; a node that contains a graph counts only if an
    edge names it.

    Args:
        content: The file.

    Raises:
        ContentError: It is no XML (with the line), no GraphML, has several graphs, or an edge ends at a node that is
            not declared.
    """
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
            if key is None or len(data) or text not in UNKNOWN:
                continue
            if is_coordinate(key.get("attr.name")) or (not text and key.get("attr.type") != "string"):
                element.remove(data)
