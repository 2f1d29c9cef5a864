"""The ``overlay`` part of a scenario: its source, its nodes, and link latencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import networkx as nx
from pydantic import Field, Tag, model_validator

from pipelines.contract.settings import (
    MAX_NODES,
    ORDERED,
    Composed,
    FilePath,
    Flag,
    LatencyRounds,
    NodeName,
    Nodes,
    Positive,
    Prefix,
    Share,
    Strict,
    by_form,
    nodes_form,
    one_of,
    repetition_problems,
)
from pipelines.errors import OverlayError, Problem, nearest

LATENCY_SOURCES = ("rounds", "ms", "uniform", "lognormal_ms", "matrix", "pairs")
_MEASURED = ("unit", "round_trip", "per_direction", "zero_is_unknown", "missing")
_PAIRS = ("source", "destination", "value")
_SHOWN_PARTS = 5
Tree = Literal["minimum", "shortest_path"]
LatencyUnit = Literal["us", "ms", "s", "km"]
OverlayFormat = Literal[
    "graphml",
    "gml",
    "gexf",
    "pajek",
    "dot",
    "json",
    "sndlib",
    "dimacs",
    "rocketfuel",
    "cch",
    "pssim",
    "edges",
    "parquet",
]
Size = Annotated[int, Field(ge=1, le=MAX_NODES, strict=True)]
SUPERVISOR = "supervisor"
SUBSCRIBER = "subscriber"
Kind = Literal[
    "line", "star", "ring", "grid", "balanced_tree", "random_tree", "erdos_renyi", "barabasi_albert", "watts_strogatz"
]
_FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    kind: (frozenset(required), frozenset(optional))
    for kind, required, optional in (
        ("line", {"nodes"}, ()),
        ("star", {"nodes"}, ()),
        ("ring", {"nodes"}, ()),
        ("grid", (), {"nodes", "rows", "columns"}),
        ("balanced_tree", {"nodes"}, {"branching"}),
        ("random_tree", {"nodes"}, {"max_degree"}),
        ("erdos_renyi", {"nodes", "probability"}, ()),
        ("barabasi_albert", {"nodes"}, {"attach"}),
        ("watts_strogatz", {"nodes", "probability"}, {"neighbours"}),
    )
}
"""Kind → the settings of its own that it must have, and those that it may have."""
_OWN = frozenset().union(*(required | optional for required, optional in _FIELDS.values()))


class Latency(Strict):
    """Where link latencies come from when the overlay's own are not wanted: exactly one of the choices."""

    rounds: LatencyRounds | None = Field(None, description="the same for every link, in rounds")
    ms: Positive | None = Field(None, description="the same for every link, in milliseconds")
    uniform: Annotated[tuple[LatencyRounds, LatencyRounds], ORDERED] | None = Field(
        None, description="drawn per link, in rounds, ends included"
    )
    lognormal_ms: tuple[Positive, Positive] | None = Field(None, description="drawn per link: median in ms, sigma")
    matrix: FilePath | None = Field(
        None,
        description="a file of latencies: CSV with the nodes' names, or numbers as of PlanetLab and King, also .gz",
    )
    pairs: FilePath | None = Field(
        None, description="a file with a row for each pair of nodes: its ends and the latency, as of WonderNetwork"
    )
    draw_rows: Flag = Field(False, description="matrix: the seed draws the row of each node, instead of by its name")
    source: Composed | None = Field(
        None, description="pairs: the column of one end; default: source, src, from and the like, else the first"
    )
    destination: Composed | None = Field(
        None,
        description="pairs: the column of the other end; default: destination, dst, to and the like, else the second",
    )
    value: Composed | None = Field(
        None,
        description="pairs: the column of the latency; default: latency, ms, rtt, avg and the like, else the third",
    )
    unit: Literal["us", "ms", "s"] = Field("ms", description="matrix, pairs: of the numbers")
    round_trip: Flag | None = Field(
        None,
        description="matrix, pairs: a link takes half of a number; default: true for a matrix and for columns that are "
        "called rtt, or avg, min, max as of ping",
    )
    per_direction: Flag = Field(
        False, description="matrix, pairs: a link takes to either end what the file says; else the mean of both"
    )
    zero_is_unknown: Flag = Field(False, description="matrix, pairs: 0 stands for a latency that is not known")
    missing: Literal["error", "mean", "draw"] = Field(
        "error",
        description="matrix, pairs: for links that the file does not know; mean: the mean of its latencies; draw: one "
        "of them, drawn",
    )

    @model_validator(mode="after")
    def _one_choice(self) -> Latency:
        one_of(self, LATENCY_SOURCES, "latency")
        problems = []
        if self.draw_rows and self.matrix is None:
            problems.append(Problem(("draw_rows",), "draw_rows is given without matrix; add that, or leave it out"))
        for names, needed in ((_PAIRS, ("pairs",)), (_MEASURED, ("matrix", "pairs"))):
            if all(getattr(self, name) is None for name in needed):
                problems += [
                    Problem((name,), f"{name} is given without {' or '.join(needed)}; add that, or leave it out")
                    for name in names
                    if name in self.model_fields_set
                ]
        if problems:
            raise OverlayError(*problems)
        return self


def link_problems(links: Sequence[tuple[Any, ...]]) -> Iterator[Problem]:
    """Yields the problems of undirected links ``(a, b)`` or ``(a, b, latency)``; paths start at ``links``."""
    first: dict[frozenset[str], int] = {}
    for index, (a, b, *_) in enumerate(links):
        if a == b:
            yield Problem(
                ("links", index), f"the link joins {a!r} to itself; allowed: links between two different nodes"
            )
            continue
        before = first.setdefault(frozenset((a, b)), index)
        if before != index:
            yield Problem(
                ("links", index),
                f"the link {a!r} - {b!r} is there already, as number {before + 1} of the list;"
                " links are undirected: write each once, in either direction",
            )
    yield from _connection_problems(links)


def _connection_problems(links: Sequence[tuple[Any, ...]]) -> Iterator[Problem]:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from((a, b) for a, b, *_ in links)
    parts = [next(iter(part)) if len(part) == 1 else min(part) for part in nx.connected_components(graph)]
    if len(parts) > 1:
        shown = ", ".join(repr(name) for name in parts[:_SHOWN_PARTS])
        more = f" and {len(parts) - _SHOWN_PARTS} more" if len(parts) > _SHOWN_PARTS else ""
        yield Problem(
            ("links",),
            f"the links leave {len(parts)} parts that are not connected, with one node of each: {shown}{more};"
            " add links between them",
        )


def _link_tag(value: Any) -> str | None:  # noqa: ANN401 - any value of the file
    return (
        ("<pair>" if len(value) < 3 else "<latency>" if len(value) == 3 else "<latencies>")
        if isinstance(value, (list, tuple))
        else None
    )


Link = Annotated[
    Annotated[tuple[NodeName, NodeName], Tag("<pair>")]
    | Annotated[tuple[NodeName, NodeName, LatencyRounds], Tag("<latency>")]
    | Annotated[tuple[NodeName, NodeName, LatencyRounds, LatencyRounds], Tag("<latencies>")],
    by_form(_link_tag),
]


class _Rooted(Strict):
    """What the sources of graphs share: how the graph is cut down to a tree."""

    tree: Tree | None = Field(None, description="the spanning tree to cut the graph down to")
    root: NodeName | None = Field(None, description="the root of a shortest_path tree")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = list(self._problems())
        if problems:
            raise OverlayError(*problems)
        return self

    def _problems(self) -> Iterator[Problem]:
        if self.root is not None and self.tree != "shortest_path":
            yield Problem(("root",), "root is given without tree: shortest_path; add that, or leave root out")


class FileOverlay(_Rooted):
    """An overlay read from a file: a graph with attributes, a map of routers, or an edge list in text or Parquet."""

    path: FilePath = Field(description="the file, beside the scenario or in the installed data")
    member: str | None = Field(None, description="the file inside a .tar.gz or .zip archive, e.g. Abilene.graphml")
    format: OverlayFormat | None = Field(
        None,
        description="default: by the file's name, else by its beginning; rocketfuel: .graph, also Repetita's; cch: "
        "Rocketfuel's maps of routers; json: node-link; edges: an edge list in text",
    )
    names: Composed | None = Field(
        None, description="the attribute that names the nodes; default: label, else name, else their ids"
    )
    src: Composed | None = Field(
        None, description="edge lists: the column of one end; default: src, source, from and the like, else the first"
    )
    dst: Composed | None = Field(
        None,
        description="edge lists: the column of the other end; default: dst, target, to and the like, else the second",
    )
    latency: Composed | None = Field(
        None, description="the column of an edge list (1, 2, 3 where there are no titles), or the attribute of edges"
    )
    latency_unit: LatencyUnit = Field(
        "ms",
        description="of latency and of .graph and pssim delays; km: the length of the link, for light in fibre",
    )
    largest_component: Flag = Field(True, description="take the largest component of a graph that is not connected")


class TopohubOverlay(_Rooted):
    """A real network from the package ``topohub``, with great-circle distances as latencies."""

    name: str = Field(min_length=1, description="e.g. topozoo/Geant2012, sndlib/germany50, caida/...")


class GenerateOverlay(_Rooted):
    """An overlay made from the seed."""

    kind: Kind = Field(description="the shape")
    nodes: Size | None = Field(
        None, description="number of nodes (all kinds but grid, which may give rows and columns)"
    )
    rows: Size | None = Field(None, description="grid")
    columns: Size | None = Field(None, description="grid")
    branching: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        2, description="balanced_tree: children a node"
    )
    max_degree: Annotated[int, Field(ge=2, le=MAX_NODES, strict=True)] | None = Field(None, description="random_tree")
    probability: Share | None = Field(None, description="erdos_renyi: of a link; watts_strogatz: of rewiring")
    attach: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        2, description="barabasi_albert: links a new node"
    )
    neighbours: Annotated[int, Field(ge=2, le=1000, strict=True)] = Field(
        4, description="watts_strogatz: ring neighbours"
    )
    prefix: Prefix = Field("N", description="nodes are called prefix1, prefix2, ...")

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        yield from self._key_problems()
        yield from self._size_problems()

    def _key_problems(self) -> Iterator[Problem]:
        required, optional = _FIELDS[self.kind]
        given = {name for name in _OWN & self.model_fields_set if getattr(self, name) is not None}
        allowed = ", ".join(sorted(required | optional))
        for name in sorted(given - required - optional):
            owners = ", ".join(kind for kind, (must, may) in _FIELDS.items() if name in must | may)
            yield Problem(
                (name,), f"{name} does not belong to kind {self.kind}; allowed here: {allowed} ({name} is for {owners})"
            )
        for name in sorted(required - given):
            yield Problem((), f"kind {self.kind} needs the key {name!r}; its settings: {allowed}")
        if self.kind == "grid" and given & _OWN not in ({"nodes"}, {"rows", "columns"}):
            yield Problem((), "kind grid needs either rows and columns, or nodes")

    def _size_problems(self) -> Iterator[Problem]:
        if (self.rows or 1) * (self.columns or 1) > MAX_NODES:
            yield Problem(
                ("rows",), f"{self.rows} rows of {self.columns} nodes are too many; allowed: {MAX_NODES} nodes in all"
            )
        if self.nodes is None:
            return
        if self.kind == "ring" and self.nodes < 3:
            yield Problem(("nodes",), f"a ring of {self.nodes} nodes is none; allowed: 3 or more")
        if self.kind == "barabasi_albert" and self.attach >= self.nodes:
            yield Problem(("attach",), f"attach is {self.attach} with {self.nodes} nodes; allowed: less than nodes")
        if self.kind == "watts_strogatz" and self.neighbours >= self.nodes:
            yield Problem(
                ("neighbours",), f"neighbours is {self.neighbours} with {self.nodes} nodes; allowed: less than nodes"
            )


class NodesOverlay(Strict):
    """Nodes without links, for protocols that make the overlay themselves."""

    count: Size = Field(description="nodes with applications; they are called prefix1, prefix2, ...")
    supervisors: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        1, description="nodes that serve them, beside these; they are called supervisor1, supervisor2, ..."
    )
    prefix: Prefix = Field("N", description="prefix of the names of the nodes with applications")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.prefix == SUPERVISOR:
            raise OverlayError(Problem(("prefix",), f"prefix is {SUPERVISOR!r}, as supervisors are; allowed: another"))
        return self


class Attached(Strict):
    """A node with one link, to a broker."""

    name: NodeName = Field(description="its name; no other node has it")
    at: NodeName = Field(description="its edge broker")
    latency: LatencyRounds = Field(1, description="latency of the link to its edge broker, in rounds")


class ListedClient(Attached):
    """A client: an application that publishes and subscribes through its edge broker."""


class Server(Attached):
    """A server: neither broker nor client, for protocols that have some."""


class GeneratedServers(Strict):
    """A server at each of some brokers."""

    at: Annotated[
        Annotated[list[NodeName], Field(min_length=1), Tag("<list>")]
        | Annotated[Literal["all", "central"], Tag("<text>")],
        by_form(nodes_form),
    ] = Field("central", description="brokers: names, all, or the most central ones: the least latency to all others")
    count: Size | None = Field(None, description="at: central — number of brokers with clients (default: 1)")
    prefix: Prefix = Field("R", description="servers are called prefix1, prefix2, ...")
    latency: LatencyRounds = Field(1, description="latency of each server's link, in rounds")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.count is not None and self.at != "central":
            raise OverlayError(
                Problem(("count",), "count is given without at: central; write that, or leave count out")
            )
        return self


class ServerGenerator(Strict):
    """Servers placed by rule."""

    generate: GeneratedServers


class GeneratedClients(Strict):
    """A number of clients at each of some brokers."""

    at: Nodes = Field("all", description="edge brokers: names, a number of brokers (drawn), all, or leaves")
    per_broker: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(1, description="clients of each of them")
    prefix: Prefix = Field("C", description="clients are called prefix1, prefix2, ...")
    latency: LatencyRounds = Field(1, description="latency of each client's link, in rounds")


class ClientGenerator(Strict):
    """Clients made by rule."""

    generate: GeneratedClients


def _attached_tag(value: Any) -> str | None:  # noqa: ANN401 - any value of the file
    if isinstance(value, (list, tuple)):
        return "<list>"
    has_generate = (
        "generate" in value if isinstance(value, Mapping) else isinstance(value, (ClientGenerator, ServerGenerator))
    )
    return "<generate>" if has_generate else None


class OverlaySpec(Strict):
    """The overlay: exactly one of links, file, topohub, generate, nodes; and the servers and clients at its brokers."""

    links: Annotated[list[Link], Field(min_length=1)] | None = Field(
        None,
        description="undirected links [a, b], [a, b, latency in rounds], or [a, b, latency from a to b, from b to a]",
    )
    file: FileOverlay | None = Field(None, description="a graph in a file")
    topohub: TopohubOverlay | None = Field(None, description="a real network from the package topohub")
    generate: GenerateOverlay | None = Field(None, description="a graph made from the seed")
    nodes: NodesOverlay | None = Field(None, description="nodes without links: the protocol makes the overlay itself")
    order: Annotated[list[NodeName], Field(min_length=1)] | None = Field(
        None, description="links: all their nodes, in the order of their ids; without it as links name them first"
    )
    latency: Latency | None = Field(None, description="link latencies in place of the overlay's own")
    clients: Annotated[
        Annotated[list[ListedClient], Tag("<list>")] | Annotated[ClientGenerator, Tag("<generate>")],
        by_form(_attached_tag),
    ] = Field(default_factory=list, description="a list, or a generator")
    servers: Annotated[
        Annotated[list[Server], Tag("<list>")] | Annotated[ServerGenerator, Tag("<generate>")],
        by_form(_attached_tag),
    ] = Field(default_factory=list, description="a list, or a generator, for protocols with servers at brokers")
    start: Literal["joined", "joining"] = Field(
        "joined",
        description="joined: the overlay stands at round 0; joining: every link is made by the protocol's join",
    )
    join_root: NodeName | None = Field(
        None, description="start: joining — the node that does not join, but exists from the start (default: the first)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> OverlaySpec:
        one_of(self, ("links", "file", "topohub", "generate", "nodes"), "overlay")
        problems = [
            *link_problems(self.links or ()), *self._order_problems(), *self._attached_problems(),
            *self._join_problems(),
            *self._no_link_problems(),
        ]  # fmt: skip
        if problems:
            raise OverlayError(*problems)
        return self

    def _order_problems(self) -> Iterator[Problem]:
        if self.order is None:
            return
        if self.links is None:
            yield Problem(("order",), "order is given without links; leave it out")
            return
        yield from repetition_problems(("order",), self.order)
        names = {name for link in self.links for name in link[:2]}
        for index, name in enumerate(self.order):
            if name not in names:
                message = f"no link names the node {name!r};{nearest(name, sorted(names))} allowed: a node of links"
                yield Problem(("order", index), message)
        if missing := sorted(names - set(self.order)):
            yield Problem(("order",), f"order lacks {', '.join(missing[:5])}; allowed: all nodes of links")

    def _attached_problems(self) -> Iterator[Problem]:
        brokers = {name for link in self.links or () for name in link[:2]}
        first: dict[str, tuple[str, int]] = {}
        for key, of in (("servers", self.servers), ("clients", self.clients)):
            for index, one in enumerate(of if isinstance(of, list) else ()):
                before = first.setdefault(one.name, (key, index))
                if before != (key, index):
                    there = f"{one.name!r} is a {before[0][:-1]} already, as number {before[1] + 1} of the list"
                    yield Problem((key, index, "name"), f"{there}; allowed: each name once")
                if one.name in brokers:
                    message = f"{one.name!r} is a broker of overlay.links; allowed: a name that no broker has"
                    yield Problem((key, index, "name"), message)
                if brokers and one.at not in brokers:
                    hint = nearest(one.at, sorted(brokers))
                    message = f"no link names the broker {one.at!r};{hint} allowed: a broker of overlay.links"
                    yield Problem((key, index, "at"), message)

    def _no_link_problems(self) -> Iterator[Problem]:
        given = {
            "latency": self.latency, "clients": self.clients, "servers": self.servers,
            "start": self.start == "joining",
        }  # fmt: skip
        for name in (name for name, value in given.items() if value and self.nodes is not None):
            yield Problem((name,), f"overlay.nodes has no links, so that {name} means nothing; leave it out")

    def _join_problems(self) -> Iterator[Problem]:
        if self.join_root is None:
            return
        if self.start != "joining":
            yield Problem(("join_root",), "join_root is given without start: joining; add that, or leave join_root out")
        names = {name for link in self.links or () for name in link[:2]}
        if names and self.join_root not in names:
            hint = nearest(self.join_root, sorted(names))
            yield Problem(
                ("join_root",), f"no link names the node {self.join_root!r};{hint} allowed: a node of overlay.links"
            )
