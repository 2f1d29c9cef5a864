"""The ``overlay`` part of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.scenario.base import MAX_NODES, LatencyRounds, NodeName, Positive, Share, Strict

Tree = Literal["minimum", "shortest_path"]
Size = Annotated[int, Field(ge=1, le=MAX_NODES, strict=True)]
Link = tuple[NodeName, NodeName] | tuple[NodeName, NodeName, LatencyRounds]


class FileOverlay(Strict):
    """An overlay read from a file: GraphML, Rocketfuel ``.graph``, pssim text, or an edge list in CSV or Parquet."""

    path: str = Field(min_length=1, description="the file, beside the scenario or in the installed data")
    member: str | None = Field(None, description="the file inside a .tar.gz or .zip archive, e.g. Abilene.graphml")
    tree: Tree | None = Field(None, description="the spanning tree to cut the graph down to")
    root: NodeName | None = Field(None, description="the root of a shortest_path tree")
    src: str = Field("src", description="edge lists: the column of one end")
    dst: str = Field("dst", description="edge lists: the column of the other end")
    latency: str | None = Field(None, description="edge lists: the column of the latency in ms")
    largest_component: bool = Field(True, description="take the largest component of a graph that is not connected")


class TopohubOverlay(Strict):
    """A real network from the package ``topohub``, with great-circle distances as latencies."""

    name: str = Field(min_length=1, description="e.g. topozoo/Geant2012, sndlib/germany50, caida/...")
    tree: Tree | None = None
    root: NodeName | None = None


class GenerateOverlay(Strict):
    """An overlay made from the seed."""

    kind: Literal[
        "line", "star", "ring", "grid", "balanced_tree", "random_tree", "erdos_renyi", "barabasi_albert", "watts_strogatz"
    ]
    nodes: Size | None = Field(None, description="number of nodes (all kinds but grid, which may give rows and columns)")
    rows: Size | None = Field(None, description="grid")
    columns: Size | None = Field(None, description="grid")
    branching: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(2, description="balanced_tree: children a node")
    max_degree: Annotated[int, Field(ge=2, le=MAX_NODES, strict=True)] | None = Field(None, description="random_tree")
    probability: Share | None = Field(None, description="erdos_renyi: of a link; watts_strogatz: of rewiring")
    attach: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(2, description="barabasi_albert: links a new node")
    neighbours: Annotated[int, Field(ge=2, le=1000, strict=True)] = Field(4, description="watts_strogatz: ring neighbours")
    prefix: str = Field("N", max_length=50, description="nodes are called prefix1, prefix2, ...")
    tree: Tree | None = None
    root: NodeName | None = None


class Latency(Strict):
    """Where link latencies come from when the overlay's own are not wanted: exactly one of the choices."""

    rounds: LatencyRounds | None = Field(None, description="the same for every link, in rounds")
    ms: Positive | None = Field(None, description="the same for every link, in milliseconds")
    uniform: tuple[LatencyRounds, LatencyRounds] | None = Field(None, description="drawn per link, in rounds, ends included")
    lognormal_ms: tuple[Positive, Positive] | None = Field(None, description="drawn per link: median in ms, sigma")
    matrix: str | None = Field(None, description="a file of round-trip times in ms (PlanetLab text, .gz, or CSV with titles)")


class OverlaySpec(Strict):
    """The broker overlay: exactly one of links, file, topohub, generate."""

    links: list[Link] | None = Field(None, description="undirected links [a, b] or [a, b, latency in rounds]")
    file: FileOverlay | None = None
    topohub: TopohubOverlay | None = None
    generate: GenerateOverlay | None = None
    latency: Latency | None = None
    start: Literal["joined", "joining"] = Field(
        "joined", description="joined: the overlay stands at round 0; joining: every link is made by the protocol's join"
    )
    join_root: NodeName | None = Field(None, description="start: joining — the node that is there first (default: the first)")
