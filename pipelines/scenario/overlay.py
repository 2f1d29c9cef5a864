"""The models of the ``overlay`` part of a scenario: source of the links, nodes, and link latencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import networkx as nx
from pydantic import Discriminator, Field, Tag

from pipelines.contract.settings import (
    MAX_NODES,
    ORDERED,
    Composed,
    FilePath,
    Flag,
    LatencyRounds,
    ListOr,
    NamesOr,
    NodeName,
    Nodes,
    Positive,
    Prefix,
    Share,
    Strict,
    one_of,
    repeated_links,
    repetition_problems,
)
from pipelines.errors import Problem, listed, nearest

OVERLAY_SOURCES = ("links", "file", "topohub", "generate", "nodes")
LATENCY_SOURCES = ("rounds", "ms", "uniform", "lognormal_ms", "matrix", "pairs")
_MEASURED = ("unit", "round_trip", "per_direction", "zero_is_unknown", "missing")
_PAIRS = ("source", "destination", "value")
_SHOWN_PARTS = 5
MAX_SEARCHED = 2000
"""Number of names that are compared to find the name nearest to an unknown name."""
Tree = Literal["minimum", "shortest_path"]
LatencyUnit = Literal["us", "ms", "s", "km"]
OverlayFormat = Literal[
    "graphml", "gml", "gexf", "pajek", "dot", "json", "sndlib", "dimacs", "rocketfuel", "cch", "pssim", "edges",
    "parquet",
]  # fmt: skip
Size = Annotated[int, Field(ge=1, le=MAX_NODES, strict=True)]
_Thousand = Annotated[int, Field(ge=1, le=1000, strict=True)]
SUPERVISOR = "supervisor"
SUBSCRIBER = "subscriber"
Kind = Literal[
    "line", "star", "ring", "grid", "balanced_tree", "random_tree", "erdos_renyi", "barabasi_albert", "watts_strogatz"
]
_FIELDS: Mapping[Kind, tuple[set[str], set[str]]] = {
    "line": ({"nodes"}, set()),
    "star": ({"nodes"}, set()),
    "ring": ({"nodes"}, set()),
    "grid": (set(), {"nodes", "rows", "columns"}),
    "balanced_tree": ({"nodes"}, {"branching"}),
    "random_tree": ({"nodes"}, {"max_degree"}),
    "erdos_renyi": ({"nodes", "probability"}, set()),
    "barabasi_albert": ({"nodes"}, {"attach"}),
    "watts_strogatz": ({"nodes", "probability"}, {"neighbours"}),
}
"""Maps a kind of generated overlay to its required keys and its optional keys."""
_OWN = set[str]().union(*(required | optional for required, optional in _FIELDS.values()))


class Latency(Strict):
    """Latencies of the links between brokers: exactly one of rounds, ms, uniform, lognormal_ms, matrix and pairs."""

    rounds: LatencyRounds | None = Field(None, description="latency of every link, in rounds")
    ms: Positive | None = Field(None, description="latency of every link, in milliseconds")
    uniform: Annotated[tuple[LatencyRounds, LatencyRounds], ORDERED] | None = Field(
        None, description="minimum and maximum latency in rounds; each link has a random latency between them"
    )
    lognormal_ms: tuple[Positive, Positive] | None = Field(
        None, description="median in ms and sigma of the log-normal distribution of the latencies of links"
    )
    matrix: FilePath | None = Field(
        None, description="a latency matrix: CSV with node names, or only numbers (PlanetLab, King); also .gz or .xz"
    )
    pairs: FilePath | None = Field(
        None, description="a file with a row for each pair of nodes: two ends and a latency (WonderNetwork)"
    )
    draw_rows: Flag = Field(
        False,
        description="matrix: the seed chooses a row of the matrix for each node; the names in the matrix are ignored",
    )
    source: Composed | None = Field(
        None, description="pairs: column of one end; default: the column called source, src or from, else the first"
    )
    destination: Composed | None = Field(
        None, description="pairs: column of the other end; default: the column called dst or to, else the second"
    )
    value: Composed | None = Field(
        None, description="pairs: column of the latency; default: the column called latency or rtt, else the third"
    )
    unit: Literal["us", "ms", "s"] = Field("ms", description="matrix, pairs: unit of the numbers")
    round_trip: Flag | None = Field(
        None,
        description="matrix, pairs: the numbers are round-trip times, so the latency of a link is half of the "
        "number; default: true for a matrix and for columns called rtt, ping, avg, min or max",
    )
    per_direction: Flag = Field(
        False,
        description="matrix, pairs: true: each direction of a link has its own latency; false: both have the mean "
        "of the two latencies",
    )
    zero_is_unknown: Flag = Field(False, description="matrix, pairs: 0 means that the latency is unknown")
    missing: Literal["error", "mean", "draw"] = Field(
        "error",
        description="matrix, pairs: latency of a link that is not in the file; error: the scenario is rejected; mean: "
        "the mean of the file's latencies; draw: a random latency of the file",
    )

    def _problems(self) -> Iterator[Problem]:
        one_of(self, LATENCY_SOURCES, "latency")
        if self.draw_rows and self.matrix is None:
            yield Problem(("draw_rows",), "draw_rows is given without matrix; add that, or leave it out")
        for names, needed in ((_PAIRS, ("pairs",)), (_MEASURED, ("matrix", "pairs"))):
            for name in names if all(getattr(self, one) is None for one in needed) else ():
                if name in self.model_fields_set:
                    yield Problem((name,), f"{name} is given without {' or '.join(needed)}; add that, or leave it out")


def _link_tag(value: Any) -> str | None:  # noqa: ANN401 - any value of the file
    if not isinstance(value, (list, tuple)):
        return None
    return "<pair>" if len(value) < 3 else "<latency>" if len(value) == 3 else "<latencies>"


Link = Annotated[
    Annotated[tuple[NodeName, NodeName], Tag("<pair>")]
    | Annotated[tuple[NodeName, NodeName, LatencyRounds], Tag("<latency>")]
    | Annotated[tuple[NodeName, NodeName, LatencyRounds, LatencyRounds], Tag("<latencies>")],
    Discriminator(_link_tag, custom_error_type="form", custom_error_message="unknown"),
]


class _Rooted(Strict):
    tree: Tree | None = Field(None, description="the spanning tree that replaces the graph")
    root: NodeName | None = Field(None, description="the root of a shortest_path tree")

    def _problems(self) -> Iterator[Problem]:
        if self.root is not None and self.tree != "shortest_path":
            yield Problem(("root",), "root is given without tree: shortest_path; add that, or leave root out")


class FileOverlay(_Rooted):
    """An overlay from a file: a graph with attributes, a map of routers, or an edge list in text or Parquet."""

    path: FilePath = Field(description="the file, beside the scenario or in the installed data")
    member: str | None = Field(None, description="the file inside a .tar.gz or .zip archive, e.g. Abilene.graphml")
    format: OverlayFormat | None = Field(
        None,
        description="format of the file; default: determined by the file's name, else by its first lines; rocketfuel: "
        ".graph (Rocketfuel, Repetita); cch: Rocketfuel's router maps; json: node-link; edges: an edge "
        "list in text",
    )
    names: Composed | None = Field(
        None, description="the attribute that names the nodes; default: label, else name, else the ids of the nodes"
    )
    src: Composed | None = Field(
        None, description="edge lists: column of one end; default: the column called src or from, else the first"
    )
    dst: Composed | None = Field(
        None, description="edge lists: column of the other end; default: the column called dst or to, else the second"
    )
    latency: Composed | None = Field(
        None,
        description="edge lists: column of the latency (its number, if there is no header); graphs: edge attribute"
        " of the latency",
    )
    latency_unit: LatencyUnit = Field(
        "ms",
        description="unit of latencies, and of delays in .graph and pssim files; km: length of a fibre, at 200 km/ms",
    )
    largest_component: Flag = Field(
        True, description="true: use the largest component of a graph that is not connected; false: reject the graph"
    )


class TopohubOverlay(_Rooted):
    """A real network from the package ``topohub``; great-circle distances determine the latencies."""

    name: str = Field(
        min_length=1, description="name of the network in the package, e.g. topozoo/Geant2012 or sndlib/germany50"
    )


class GenerateOverlay(_Rooted):
    """A generated overlay: it has a regular shape, or the seed determines its links."""

    kind: Kind = Field(description="the shape")
    nodes: Size | None = Field(None, description="number of nodes; required, except for a grid with rows and columns")
    rows: Size | None = Field(None, description="grid: number of rows")
    columns: Size | None = Field(None, description="grid: number of columns")
    branching: _Thousand = Field(2, description="balanced_tree: number of children of each node")
    max_degree: Annotated[int, Field(ge=2, le=MAX_NODES, strict=True)] | None = Field(
        None, description="random_tree: maximum number of links of a node"
    )
    probability: Share | None = Field(
        None, description="erdos_renyi: probability of each link; watts_strogatz: probability of rewiring a link"
    )
    attach: _Thousand = Field(2, description="barabasi_albert: number of links of each new node")
    neighbours: Annotated[int, Field(ge=2, le=1000, strict=True)] = Field(
        4, description="watts_strogatz: number of neighbours of each node in the ring"
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
            message = f"{name} does not belong to kind {self.kind}; allowed here: {allowed} ({name} is for {owners})"
            yield Problem((name,), message)
        for name in sorted(required - given):
            yield Problem((), f"kind {self.kind} needs the key {name!r}; its settings: {allowed}")
        if self.kind == "grid" and given & _OWN not in ({"nodes"}, {"rows", "columns"}):
            yield Problem((), "kind grid needs either rows and columns, or nodes")

    def _size_problems(self) -> Iterator[Problem]:
        if (self.rows or 1) * (self.columns or 1) > MAX_NODES:
            message = f"{self.rows} rows of {self.columns} nodes are too many; allowed: {MAX_NODES} nodes in all"
            yield Problem(("rows",), message)
        if self.nodes is None:
            return
        if self.kind == "ring" and self.nodes < 3:
            yield Problem(("nodes",), f"a ring cannot have {self.nodes} nodes; allowed: 3 or more")
        if self.kind == "barabasi_albert" and self.attach >= self.nodes:
            yield Problem(("attach",), f"attach is {self.attach} with {self.nodes} nodes; allowed: less than nodes")
        if self.kind == "watts_strogatz" and self.neighbours >= self.nodes:
            message = f"neighbours is {self.neighbours} with {self.nodes} nodes; allowed: less than nodes"
            yield Problem(("neighbours",), message)


class NodesOverlay(Strict):
    """Nodes without links, for protocols that build the overlay themselves."""

    count: Size = Field(description="number of nodes with applications; they are called prefix1, prefix2, ...")
    supervisors: _Thousand = Field(
        1,
        description="number of additional nodes that supervise the `count` nodes; they are called supervisor1, "
        "supervisor2, ...",
    )
    prefix: Prefix = Field("N", description="prefix of the names of the nodes with applications")

    def _problems(self) -> Iterator[Problem]:
        if self.prefix == SUPERVISOR:
            message = f"prefix {SUPERVISOR!r} belongs to the names of supervisors; allowed: any other prefix"
            yield Problem(("prefix",), message)


class Attached(Strict):
    """A node with a single link, which leads to a broker."""

    name: NodeName = Field(description="the name of the node; no other node has it")
    at: NodeName = Field(description="the edge broker, that is, the broker to which the node is linked")
    latency: LatencyRounds = Field(1, description="latency of the link to the edge broker, in rounds")


class ListedClient(Attached):
    """A client: an application that publishes and subscribes through its edge broker."""


class Server(Attached):
    """A server: a node that is linked to a broker, for protocols with servers."""


class GeneratedServers(Strict):
    """Generated servers: one server at each selected broker."""

    at: NamesOr[Literal["all", "central"]] = Field(
        "central",
        description="brokers: names, all, or central: the brokers with the lowest total latency to all other brokers",
    )
    count: Size | None = Field(None, description="at: central: number of brokers with a server; default: 1")
    prefix: Prefix = Field("R", description="servers are called prefix1, prefix2, ...")
    latency: LatencyRounds = Field(1, description="latency of each server's link, in rounds")

    def _problems(self) -> Iterator[Problem]:
        if self.count is not None and self.at != "central":
            yield Problem(("count",), "count is given without at: central; write that, or leave count out")


def attached_problems(lists: Mapping[str, Sequence[Attached]], brokers: Sequence[str]) -> Iterator[Problem]:
    """Yields a problem for each repeated name and each unknown edge broker of servers and clients.

    `lists` maps ``servers`` and ``clients`` to lists of nodes. If `brokers` is empty, the brokers are unknown.
    """
    known, first = {*brokers}, dict[str, str]()
    for key, attached in lists.items():
        for index, one in enumerate(attached):
            taken = "broker; allowed: a name that no broker has" if one.name in known else first.get(one.name)
            if taken is not None:
                yield Problem((key, index, "name"), f"{one.name!r} is a {taken}")
            first.setdefault(one.name, f"{key[:-1]} already, as number {index + 1}; allowed: each name once")
            if known and one.at not in known:
                hint = nearest(one.at, brokers[:MAX_SEARCHED])
                message = f"the overlay has no broker {one.at!r};{hint} allowed: {listed(brokers)}"
                yield Problem((key, index, "at"), message)


class ServerGenerator(Strict):
    """A generator of servers, instead of a list."""

    generate: GeneratedServers = Field(description="brokers and number of the servers")


class GeneratedClients(Strict):
    """Generated clients: an equal number of clients at each selected broker."""

    at: Nodes = Field("all", description="edge brokers: names, a number of randomly chosen brokers, all, or leaves")
    per_broker: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        1, description="number of clients at each broker"
    )
    prefix: Prefix = Field("C", description="clients are called prefix1, prefix2, ...")
    latency: LatencyRounds = Field(1, description="latency of each client's link, in rounds")


class ClientGenerator(Strict):
    """A generator of clients, instead of a list."""

    generate: GeneratedClients = Field(description="brokers and number of the clients")


class OverlaySpec(Strict):
    """The overlay: exactly one of links, file, topohub, generate and nodes.

    Servers and clients can be added to brokers.
    """

    links: Annotated[list[Link], Field(min_length=1)] | None = Field(
        None,
        description="undirected links [a, b], [a, b, latency in rounds], or [a, b, latency from a to b, from b to a]",
    )
    file: FileOverlay | None = Field(None, description="a graph in a file")
    topohub: TopohubOverlay | None = Field(None, description="a real network from the package topohub")
    generate: GenerateOverlay | None = Field(None, description="a generated graph")
    nodes: NodesOverlay | None = Field(None, description="nodes without links: the protocol builds the overlay itself")
    order: Annotated[list[NodeName], Field(min_length=1)] | None = Field(
        None,
        description="links: names of all nodes, in the order of their ids; default: the order in which the names "
        "occur in links",
    )
    latency: Latency | None = Field(
        None,
        description="latencies of all links between brokers; default: the latencies of the links, file, network or "
        "generator",
    )
    clients: ListOr[ListedClient, ClientGenerator] = Field(
        default_factory=list, description="a list of clients, or a generator"
    )
    servers: ListOr[Server, ServerGenerator] = Field(
        default_factory=list, description="a list of servers, or a generator; for protocols with servers"
    )
    start: Literal["joined", "joining"] = Field(
        "joined",
        description="joined: all links exist in round 0; joining: the protocol's join operation creates every link",
    )
    join_root: NodeName | None = Field(
        None, description="if start is joining: the only node that has joined before round 0; default: the first node"
    )

    def _problems(self) -> Iterator[Problem]:
        one_of(self, OVERLAY_SOURCES, "overlay")
        yield from self._link_problems()
        yield from self._order_problems()
        lists = {"servers": self.servers, "clients": self.clients}
        brokers = dict.fromkeys(name for link in self.links or () for name in link[:2])
        yield from attached_problems({key: of for key, of in lists.items() if isinstance(of, list)}, [*brokers])
        yield from self._join_problems()
        given = {"latency": self.latency, "clients": self.clients, "servers": self.servers}
        for name, value in {**given, "start": self.start == "joining"}.items():
            if value and self.nodes is not None:
                yield Problem((name,), f"overlay.nodes has no links, so that {name} means nothing; leave it out")

    def _link_problems(self) -> Iterator[Problem]:
        yield from repeated_links(self.links or ())
        graph: nx.Graph[str] = nx.Graph()
        graph.add_edges_from((link[0], link[1]) for link in self.links or ())
        parts = [min(part) for part in nx.connected_components(graph)]
        if len(parts) > 1:
            yield Problem(
                ("links",),
                f"the links leave {len(parts)} parts that are not connected, with one node of each: "
                f"{listed(list(map(repr, parts)), _SHOWN_PARTS)}; add links between them",
            )

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

    def _join_problems(self) -> Iterator[Problem]:
        if self.join_root is None:
            return
        if self.start != "joining":
            yield Problem(("join_root",), "join_root is given without start: joining; add that, or leave join_root out")
        names = {name for link in self.links or () for name in link[:2]}
        if names and self.join_root not in names:
            message = f"no link names the node {self.join_root!r};{nearest(self.join_root, sorted(names))}"
            yield Problem(("join_root",), f"{message} allowed: a node of overlay.links")
