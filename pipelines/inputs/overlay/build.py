"""The overlay of one run, built from the ``overlay`` part of a scenario, and the choice of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.contract.settings import MAX_NAME, Nodes, repetition_problems
from pipelines.errors import InputError, KeyPath, Problem, blamed_on, listed, raise_problems, shortened
from pipelines.files import find_file
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay import latency as latencies, weighted
from pipelines.inputs.overlay.files import hub_names, load_file, load_hub
from pipelines.inputs.overlay.generators import generate
from pipelines.inputs.overlay.weighted import WeightedGraph
from pipelines.scenario.faults import FaultyGroup
from pipelines.scenario.model import unknown_node
from pipelines.scenario.overlay import (
    SUPERVISOR,
    Attached,
    ClientGenerator,
    FileOverlay,
    GeneratedClients,
    GeneratedServers,
    GenerateOverlay,
    Latency,
    Link,
    ListedClient,
    NodesOverlay,
    OverlaySpec,
    Server,
    ServerGenerator,
    TopohubOverlay,
    attached_problems,
)

Node = TypeVar("Node", bound=Attached)
MOST_CHANGE = 0.1
"""A note reports a path if rounding to whole rounds lengthens the path by more than this share."""
_MAX_SOURCES = 10
_MAX_NAMES = 12
_SHOWN = 60
"""The number of characters of a long name that an error shows."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _with_attached(brokers: Overlay, servers: list[Server], clients: list[ListedClient]) -> Overlay:
    # Brokers have the lowest ids, then servers, then clients.
    attached: list[Attached] = [*servers, *clients]
    if not attached:
        return brokers
    ids, problems = ids_by_name(brokers), attached_problems({"servers": servers, "clients": clients}, brokers.names)
    raise_problems(Problem(("overlay", *problem.path), problem.message) for problem in problems)
    a = np.concatenate([brokers.a, np.array([ids[one.at] for one in attached], dtype=np.int64)])
    b = np.concatenate([brokers.b, len(ids) + np.arange(len(attached), dtype=np.int64)])
    own = np.array([one.latency for one in attached], dtype=np.int64)
    latency, back = (np.concatenate([rounds, own]) for rounds in brokers.directed_rounds.reshape(2, -1))
    order = np.lexsort((b, a))
    names = (*brokers.names, *(one.name for one in attached))
    return replace(
        brokers, names=names, a=a[order], b=b[order], latency_rounds=latency[order], n_clients=len(clients),
        n_servers=len(servers), back_rounds=back[order],
    )  # fmt: skip


def _generated_servers(spec: GeneratedServers, brokers: Overlay, seed: int) -> list[Server]:
    place: KeyPath = ("overlay", "servers", "generate")
    if spec.at == "central":
        nodes = _central(spec.count or 1, brokers, (*place, "count"))
    else:
        nodes = choose_nodes(spec.at, brokers, seed, "overlay.servers", (*place, "at")).tolist()
    return _named_attached(Server, spec, nodes, brokers, {*brokers.names}, place)


def _central(count: int, brokers: Overlay, place: KeyPath) -> list[int]:
    if count > brokers.n_brokers:
        message = f"count is {count}, the overlay has {brokers.n_brokers} brokers; give at most as many"
        raise InputError(Problem(place, message))
    far = {node: sum(found.values()) for node, found in nx.all_pairs_dijkstra_path_length(graph_of(brokers))}
    return sorted(sorted(far, key=lambda node: (far[node], node))[:count])


def _generated_clients(spec: GeneratedClients, brokers: Overlay, taken: set[str], seed: int) -> list[ListedClient]:
    place: KeyPath = ("overlay", "clients", "generate")
    nodes = choose_nodes(spec.at, brokers, seed, "overlay.clients", (*place, "at"))
    return _named_attached(ListedClient, spec, np.repeat(nodes, spec.per_broker).tolist(), brokers, taken, place)


def _named_attached(
    model: type[Node], spec: GeneratedServers | GeneratedClients, nodes: Sequence[int], brokers: Overlay,
    taken: set[str], place: KeyPath,
) -> list[Node]:  # fmt: skip
    made = [
        model(name=f"{spec.prefix}{number}", at=brokers.names[node], latency=spec.latency)
        for number, node in enumerate(nodes, 1)
    ]
    if twice := sorted({one.name for one in made} & taken):
        message = f"a {str(place[1])[:-1]} would be called {twice[0]!r}, as another node is; give another prefix"
        raise InputError(Problem((*place, "prefix"), message))
    return made


def rounding_note(graph: WeightedGraph, rounds: Ints, round_ms: float) -> str:
    """Returns a note on the shortest paths that rounding lengthens by more than 10 %, or an empty string.

    `rounds` contains the latency of each link in whole rounds. Only paths from at most ten nodes, which have evenly
    spaced ids, are examined.
    """
    if graph.ms is None or not (rounds * round_ms > graph.ms * (1 + MOST_CHANGE)).any():
        return ""
    found = _paths(graph, rounds, round_ms)
    longer = [path for path in found if path[1] > path[0] * (1 + MOST_CHANGE) + 1e-9]
    if not longer:
        return ""
    exact_ms, rounded_ms, first, last = max(longer, key=lambda path: (path[1] - path[0], path[0]))
    ratios = [rounded / exact for exact, rounded, *_ in longer if exact]
    half = f", half of them {median(ratios):.2g} times as long or more" if ratios else ""
    return (
        f"rounding up to rounds of {round_ms:g} ms makes {len(longer):,} of {len(found):,} paths more than "
        f"{MOST_CHANGE:.0%} longer{half}; {graph.names[first]} to {graph.names[last]} takes "
        f"{exact_ms:.3g} ms, and {rounded_ms:g} ms here; a smaller time.round_ms is more exact"
    )


def _paths(graph: WeightedGraph, rounds: Ints, round_ms: float) -> list[tuple[float, float, int, int]]:
    """Returns (exact ms, rounded ms, first node, last node) for each examined path."""
    network: nx.Graph[int] = nx.Graph()
    for a, b, ms, n_rounds in zip(*(of.tolist() for of in (graph.a, graph.b, graph.weights, rounds)), strict=True):
        network.add_edge(a, b, ms=ms, rounds=n_rounds)
    n_nodes = len(graph.names)
    found = []
    for first in sorted({int(at) for at in np.linspace(0, n_nodes - 1, min(n_nodes, _MAX_SOURCES))}):
        for last, nodes in nx.single_source_dijkstra_path(network, first, weight="ms").items():
            links = [network.edges[link] for link in pairwise(nodes)]
            if links:
                ms, n_rounds = (sum(link[name] for link in links) for name in ("ms", "rounds"))
                found.append((ms, n_rounds * round_ms, first, last))
    return found


def build_overlay(
    spec: OverlaySpec, *, seed: int, round_ms: float, needs_tree: bool, beside: Path | None,
    notes_rounding: bool = False, keeps_links: bool = False,
) -> Overlay:  # fmt: skip
    """Returns the overlay of one run, with latencies in whole rounds of `round_ms`, servers and clients.

    A spanning tree replaces the graph if the scenario or the protocol (`needs_tree`) needs one.

    If `notes_rounding`, the notes report paths that rounding lengthens (`rounding_note`). If `keeps_links` and the
    scenario requests no tree, the overlay keeps all links; the tree then determines only the brokers to which servers
    and clients are attached.
    """
    if spec.nodes is not None:
        return _with_fit_names(_without_links(spec.nodes))
    source = _source(spec, seed, round_ms, beside)
    whole = weighted.largest_component(source)
    _check_name(whole, spec.join_root, ("overlay", "join_root"))
    whole = _with_latency(whole, spec.latency, seed, round_ms, beside)
    graph = _cut(whole, spec, needs_tree=needs_tree)
    brokers = _in_rounds(graph, round_ms)
    rounding = rounding_note(graph, brokers.latency_rounds, round_ms) if notes_rounding else ""
    n_left, n_links = len(whole.a) - len(graph.a), len(whole.a)
    left = (
        f"{n_left} of {n_links} links are left out to form a tree; keys tree and root select the tree" if n_left else ""
    )
    told = (*graph.notes, graph.latency_note, _left_nodes(source, whole), left, rounding)
    notes = tuple(note for note in told if note)
    servers, clients = spec.servers, spec.clients
    if isinstance(servers, ServerGenerator):
        servers = _generated_servers(servers.generate, brokers, seed)
    if isinstance(clients, ClientGenerator):
        taken = {*brokers.names, *(server.name for server in servers)}
        clients = _generated_clients(clients.generate, brokers, taken, seed)
    asked = spec.file or spec.topohub or spec.generate
    if keeps_links and graph is not whole and not (asked and asked.tree):
        brokers = _in_rounds(whole, round_ms)
    return _with_fit_names(_with_attached(replace(brokers, notes=notes), servers, clients))


def _with_fit_names(overlay: Overlay) -> Overlay:
    """Returns `overlay`; rejects names that no key of a scenario accepts, and control characters."""
    for name in overlay.names:
        if len(name) > MAX_NAME:
            told = f"the overlay has node {shortened(name, _SHOWN)!r}; allowed: names of 1 to {MAX_NAME} characters"
            raise InputError(Problem(("overlay",), told))
        if (found := _CONTROL.search(name)) is not None:
            told = f"the name of node {name!r} contains the control character U+{ord(found[0]):04X}; remove it"
            raise InputError(Problem(("overlay",), told))
    return overlay


def _in_rounds(graph: WeightedGraph, round_ms: float) -> Overlay:
    rounds, back = np.ones(len(graph.a), dtype=np.int64), None
    if graph.ms is not None:
        rounds = latencies.to_rounds(graph.ms, round_ms)
    if graph.back_ms is not None:
        back = latencies.to_rounds(graph.back_ms, round_ms)
    return Overlay(graph.names, graph.a, graph.b, rounds, back_rounds=back)


def describe() -> list[tuple[str, str]]:
    """Returns the name and the description of each source of overlays, as ``roundtable list overlays`` prints them."""
    formats = "GraphML, GML, GEXF, Pajek, DOT, SNDlib, node-link JSON, Rocketfuel, DIMACS, edge list in text or Parquet"
    hub = f"one of {len(hub_names())} networks of the package topohub, e.g. topozoo/Abilene, sndlib/germany50"
    return [
        ("links", "links listed in the scenario: [a, b] or [a, b, latency in rounds]"),
        ("file", f"a file: {formats}"),
        ("topohub", hub),
        ("nodes", "nodes without links and their supervisors, for protocols that build the overlay themselves"),
        ("generate line", "a path of nodes"),
        ("generate star", "one centre with a link to every other node"),
        ("generate ring", "a cycle of nodes"),
        ("generate grid", "nodes in rows and columns, linked to their neighbours"),
        ("generate balanced_tree", "a tree in which every node has `branching` children, filled level by level"),
        ("generate random_tree", "each new node is linked to a drawn earlier node with less than `max_degree` links"),
        ("generate erdos_renyi", "each pair of nodes is linked with a `probability`; drawn until connected"),
        ("generate barabasi_albert", "each new node is linked to `attach` drawn nodes, preferably with many links"),
        (
            "generate watts_strogatz",
            "a ring with `neighbours`, links rewired with a `probability`; drawn until connected",
        ),
    ]


def _source(spec: OverlaySpec, seed: int, round_ms: float, beside: Path | None) -> WeightedGraph:
    match spec.file or spec.topohub or spec.generate:
        case FileOverlay() as file:
            with blamed_on("overlay", "file"):
                graph = load_file(find_file(file.path, beside), file)
            if not file.largest_component and len(parts := weighted.components(graph)) > 1:
                first, *others = (repr(graph.names[part[0]]) for part in parts)
                message = f"the overlay has {len(parts)} parts: no path leads from {first} to {listed(others, 5)}"
                cure = "set largest_component: true to take the largest part, or add links"
                raise InputError(Problem(("overlay", "file", "path"), f"{message}; {cure}"))
            return graph
        case TopohubOverlay(name=name):
            with blamed_on("overlay", "topohub"):
                return load_hub(name)
        case GenerateOverlay() as shape:
            return generate(shape, seed)
        case None:
            return _from_links(spec.links or [], spec.order or (), round_ms)


def _without_links(spec: NodesOverlay) -> Overlay:
    names = [f"{SUPERVISOR}{number + 1}" for number in range(spec.supervisors)]
    names += [f"{spec.prefix}{number + 1}" for number in range(spec.count)]
    none = np.zeros(0, dtype=np.int64)
    return Overlay(tuple(names), none, none, none, spec.count)


def _from_links(links: list[Link], order: Sequence[str], round_ms: float) -> WeightedGraph:
    # The model of links excludes self-loops and parallel links.
    index = {name: place for place, name in enumerate(order)}
    ends = np.array([[index.setdefault(name, len(index)) for name in link[:2]] for link in links], dtype=np.int64)
    there, back = (np.array([link[i] if len(link) > 2 else 1 for link in links]) * round_ms for i in (2, -1))
    a, b = ends.min(axis=1), ends.max(axis=1)
    is_forward, sorted_ = ends[:, 0] == a, np.lexsort((b, a))
    ms, back_ms = (np.where(is_forward, *both)[sorted_] for both in ((there, back), (back, there)))
    is_equal = all(len(link) < 4 for link in links)
    return WeightedGraph(tuple(index), a[sorted_], b[sorted_], ms, back_ms=None if is_equal else back_ms)


def _with_latency(
    graph: WeightedGraph, latency: Latency | None, seed: int, round_ms: float, beside: Path | None
) -> WeightedGraph:
    if latency is None:
        return graph
    if (given := latency.matrix or latency.pairs) is not None:
        with blamed_on("overlay", "latency"):
            path = find_file(given, beside, "matrix" if latency.matrix is not None else "pairs")
            return latencies.measured_graph(graph, latency, path, seed)
    ms = latencies.drawn_ms(graph, latency, seed, round_ms)
    return replace(graph, ms=ms, back_ms=None, latency_note="")


def _cut(graph: WeightedGraph, spec: OverlaySpec, *, needs_tree: bool) -> WeightedGraph:
    wanted: FileOverlay | TopohubOverlay | GenerateOverlay | None = spec.file or spec.topohub or spec.generate
    kind = "file" if spec.file else "topohub" if spec.topohub else "generate"
    root = _check_name(graph, wanted.root if wanted else None, ("overlay", kind, "root"))
    tree = wanted.tree if wanted else None
    if len(graph.a) == len(graph.names) - 1 or not (tree or needs_tree):
        return graph
    if wanted is None:
        raise InputError(_cycle_problem(spec.links or []))
    return weighted.shortest_path_tree(graph, root) if tree == "shortest_path" else weighted.minimum_tree(graph)


def _cycle_problem(links: list[Link]) -> Problem:
    parts: Any = nx.utils.UnionFind()  # `union` adds a link that closes no cycle, and returns None
    closing = (i for i, (a, b, *_) in enumerate(links) if parts[a] == parts[b] or parts.union(a, b))
    position = next(closing)
    forest = nx.Graph(link[:2] for link in links[:position])
    cycle: list[str] = nx.shortest_path(forest, *links[position][:2])
    shown = cycle if len(cycle) <= _MAX_NAMES else [*cycle[: _MAX_NAMES - 2], "...", cycle[-1]]
    return Problem(
        ("overlay", "links", position),
        f"this link closes the cycle {' - '.join([*shown, *cycle[:1]])}, and the protocol needs a tree; remove "
        f"one of these {len(cycle)} links, or put all links in an edge list for file: {{path: ..., tree: minimum}}",
    )


def _left_nodes(source: WeightedGraph, whole: WeightedGraph) -> str:
    kept = set(whole.names)
    left = [name for name in source.names if name not in kept]
    if not left:
        return ""
    number = f"{len(left)} of {len(source.names)} nodes"
    return f"{number} are left out, which the largest component does not reach: {listed(left, 5)}"


def _check_name(graph: WeightedGraph, name: str | None, place: KeyPath) -> int:
    if name is None:
        return 0  # the default node is the first
    if name not in graph.names:
        raise InputError(Problem(place, unknown_node(name, graph.names)))
    return graph.names.index(name)


def ids_by_name(overlay: Overlay) -> dict[str, int]:
    """Returns the node id of each name."""
    return {name: node for node, name in enumerate(overlay.names)}


def named_links(overlay: Overlay) -> Iterator[tuple[str, str]]:
    """Yields the names of the two ends of each link."""
    names = overlay.names
    return ((names[a], names[b]) for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))


def graph_of(overlay: Overlay) -> nx.Graph[int]:
    """Returns the overlay as a graph of node ids, with the latencies from ``a`` to ``b`` as weights of its links."""
    return weighted.network(len(overlay.names), overlay.a, overlay.b, overlay.latency_rounds)


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
