"""Selects nodes of an overlay for a workload or a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.contract.settings import Nodes, repetition_problems
from pipelines.errors import InputError, KeyPath, Problem, raise_problems
from pipelines.inputs import draws_numpy
from pipelines.scenario.faults import FaultyGroup
from pipelines.scenario.model import unknown_node


def ids_by_name(overlay: Overlay) -> dict[str, int]:
    """Returns the node id of each name."""
    return {name: node for node, name in enumerate(overlay.names)}


def named_links(overlay: Overlay) -> Iterator[tuple[str, str]]:
    """Yields the names of the two ends of each link."""
    names = overlay.names
    return ((names[a], names[b]) for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))


def graph_of(overlay: Overlay) -> nx.Graph[int]:
    """Returns the overlay as a graph of node ids, with the latencies from ``a`` to ``b`` as weights of its links."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(overlay.names)))
    ends = (column.tolist() for column in (overlay.a, overlay.b, overlay.latency_rounds))
    graph.add_weighted_edges_from(zip(*ends, strict=True))
    return graph


def choose_nodes(nodes: Nodes | FaultyGroup, overlay: Overlay, seed: int, purpose: str, place: KeyPath) -> Ints:
    """Returns the ids of the chosen nodes. If `nodes` is a list, the ids are in its order, otherwise ascending.

    `nodes` is a list of names, a number of nodes to draw, or a group. Groups are ``all`` (nodes with applications),
    ``leaves``, ``brokers``, ``servers``, ``clients``, and ``inner`` (brokers without clients).
    """
    if isinstance(nodes, list):
        return _named(nodes, overlay, place)
    found, message = _group(nodes if isinstance(nodes, str) else "all", overlay)
    candidates = np.asarray(found, dtype=np.int64)
    count = len(candidates)
    if count and isinstance(nodes, int) and nodes > count:
        raise InputError(Problem(place, f"{nodes} nodes wanted, the overlay has {count}; give at most {count}, or all"))
    if not count:
        raise InputError(Problem(place, message))
    if isinstance(nodes, str):
        return candidates
    order = np.argsort(draws_numpy.bits(seed, purpose, candidates), kind="stable")
    return np.sort(candidates[order[:nodes]])


def choose_faulty(nodes: list[str] | FaultyGroup, overlay: Overlay, place: KeyPath) -> Ints:
    """Returns the ids of the nodes that a generator of faults may choose, with errors as in `choose_nodes`.

    `nodes` is a list of names or a group. Group ``all`` contains all nodes, except supervisors if the protocol builds
    the overlay. `choose_nodes` defines the other groups.
    """
    if nodes == "all" and overlay.has_links:
        return np.arange(len(overlay.names), dtype=np.int64)
    return choose_nodes(nodes, overlay, 0, "", place)


def _named(names: list[str], overlay: Overlay, place: KeyPath) -> Ints:
    ids, known = ids_by_name(overlay), overlay.names
    problems = [Problem((*place, i), unknown_node(name, known)) for i, name in enumerate(names) if name not in ids]
    raise_problems([*problems, *repetition_problems(place, names)])
    return np.array([ids[name] for name in names], dtype=np.int64)


def _group(name: str, overlay: Overlay) -> tuple[Sequence[int] | Ints, str]:
    """Returns the ids of the nodes in group `name`, and the error message if the group is empty."""
    advice = f"list some in overlay.{name}, or give names, a number, or all"
    is_client = overlay.b >= overlay.first_client  # clients have the highest ids
    match name:
        case "leaves":
            message = "the overlay has no leaves (nodes with one link); give names, a number, or all"
            degree = np.bincount(np.concatenate([overlay.a, overlay.b]), minlength=len(overlay.names))
            return np.intersect1d(np.flatnonzero(degree <= 1), overlay.applications), message
        case "inner":
            message = "every broker of the overlay has clients; allowed: names, all, or clients at fewer brokers"
            return np.setdiff1d(np.arange(overlay.n_brokers), overlay.a[is_client]), message
        case "servers":
            return range(overlay.n_brokers, overlay.first_client), f"the overlay has no servers; {advice}"
        case "clients":
            return range(overlay.first_client, len(overlay.names)), f"the overlay has no clients; {advice}"
        case "brokers":
            return range(overlay.n_brokers), "the overlay has no brokers; give names, a number, or all"
        case _:
            message = "the overlay has servers and no clients, and applications run at clients; list overlay.clients"
            return overlay.applications, message
