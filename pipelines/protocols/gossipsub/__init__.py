"""Protocol ``gossipsub``: libp2p's gossipsub, specification v1.1 without scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

import networkx as nx
import pyarrow as pa
from pydantic import Field, model_validator

from pipelines.contract.audit import arrow_bound, sql_audits, sql_files
from pipelines.contract.predicate import topics_of
from pipelines.contract.protocol import Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Flag, Natural, Share, Strict
from pipelines.errors import Problem
from udfs.gossipsub import GossipSub
from udfs.reach import gossipsub_beyond

_Degree = Annotated[int, Field(ge=0, le=1_000, strict=True)]
_Heartbeats = Annotated[int, Field(ge=1, le=100_000, strict=True)]


class GossipSubSettings(Strict):
    """Settings of protocol ``gossipsub``; defaults are those of the specification."""

    name: Literal["gossipsub"] = Field("gossipsub", description="selects this protocol")
    d: _Degree = Field(
        6,
        description="D: target number of neighbours in the mesh of a topic; a node restores it if the mesh has fewer "
        "than D_lo or more than D_hi neighbours",
    )
    d_lo: _Degree = Field(
        4, description="D_lo: minimum number of neighbours in the mesh of a topic; a node with fewer grafts neighbours"
    )
    d_hi: _Degree = Field(
        12, description="D_hi: maximum number of neighbours in the mesh of a topic; a node with more prunes neighbours"
    )
    d_lazy: _Degree = Field(
        6, description="D_lazy: minimum number of neighbours outside the mesh that receive gossip at a heartbeat"
    )
    d_out: _Degree = Field(
        2,
        description="D_out: minimum number of outbound neighbours in the mesh; a neighbour is outbound if the node "
        "has opened the connection",
    )
    gossip_factor: Share = Field(
        0.25,
        description="proportion of the neighbours outside the mesh that receive gossip at a heartbeat, if these are "
        "more than d_lazy",
    )
    heartbeat_rounds: Natural = Field(
        100, description="rounds from one heartbeat to the next; the specification has 1 s"
    )
    history_length: _Heartbeats = Field(
        5, description="mcache_len: number of heartbeats that a publication stays in the cache"
    )
    history_gossip: _Heartbeats = Field(
        3, description="mcache_gossip: number of heartbeats at which a node gossips about a publication"
    )
    prune_backoff: _Heartbeats = Field(
        60, description="number of heartbeats after a PRUNE in which neither of the two nodes grafts the other"
    )
    unsubscribe_backoff: _Heartbeats = Field(
        10, description="as prune_backoff, for the PRUNE that a node sends when it leaves the topic"
    )
    fanout_ttl: _Heartbeats = Field(
        60,
        description="number of heartbeats for which a node stores the fanout of a topic after its last publication on "
        "the topic; fanout: the neighbours that receive the publications of a node that has not joined the topic",
    )
    seen_ttl: _Heartbeats = Field(
        120, description="number of heartbeats for which a node remembers the id of a publication"
    )
    flood_publish: Flag = Field(
        True,
        description="true: a publisher sends its publication to all neighbours that have announced the topic; "
        "false: to its mesh or fanout",
    )
    relay: Flag = Field(
        True,
        description="true: brokers join all topics; false: only subscribers join a topic, as in the specification, "
        "and the links between subscribers must connect all of them",
    )
    detection_rounds: Natural = Field(5, description="rounds from a crash to its report to the neighbours")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.d_lo <= self.d <= self.d_hi:
            raise ValueError(f"d is {self.d}, d_lo {self.d_lo}, d_hi {self.d_hi}; allowed: d_lo <= d <= d_hi")
        if self.d_out and (self.d_out >= self.d_lo or 2 * self.d_out > self.d):
            given = f"d_out is {self.d_out}, d_lo {self.d_lo}, d {self.d}"
            raise ValueError(f"{given}; allowed: 0, or less than d_lo and at most half of d")
        if self.history_gossip > self.history_length:
            given = f"history_gossip is {self.history_gossip}, history_length {self.history_length}"
            raise ValueError(f"{given}; allowed: history_gossip <= history_length")
        if self.seen_ttl <= self.history_length:
            given = f"seen_ttl is {self.seen_ttl}, history_length {self.history_length}"
            raise ValueError(f"{given}; allowed: history_length < seen_ttl, or gossip brings publications again")
        return self


_SHOWN = 5


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields the reasons why the protocol rejects a scenario.

    Each subscription and publication must name a topic. Without relays, a path of subscribers must connect any two
    subscribers of a topic, and a publisher must be a subscriber or have a link to one.
    """
    topics = topics_of(workload.subscription["predicate"]).to_pylist()
    members: dict[str, set[int]] = {}
    for index, (node, topic) in enumerate(zip(workload.subscription["node_id"].to_pylist(), topics, strict=True)):
        if topic is None:
            message = "its predicate names no topic, and gossipsub has a mesh for each; allowed: topic: a name"
            yield Problem(("workload", "subscriptions", index), message)
        else:
            members.setdefault(topic, set()).add(node)
    for index, topic in enumerate(workload.publication["topic"].to_pylist()):
        if topic is None:
            yield Problem(("workload", "publications", index), "a publication of protocol gossipsub needs a topic:")
    if not settings.relay:
        yield from _unreached(overlay, members, workload.publication)


def _unreached(overlay: Overlay, members: dict[str, set[int]], publication: pa.Table) -> Iterator[Problem]:
    """Yields problems for topics with nodes that no path of subscribers connects with all subscribers."""
    graph = nx.Graph(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    graph.add_nodes_from(range(len(overlay.names)))
    published = set(zip(publication["topic"].to_pylist(), publication["node_id"].to_pylist(), strict=True))
    for topic, nodes in members.items():
        parts = sorted(map(min, nx.connected_components(graph.subgraph(nodes))))
        if len(parts) > 1:
            what = f"subscribers of topic {topic!r} are in {len(parts)} parts without links between them"
            yield _without_relay(what, [overlay.names[node] for node in parts], "links between subscribers")
        far = sorted(at for of, at in published if of == topic and at not in nodes and nodes.isdisjoint(graph[at]))
        if far:
            what = f"publishers of topic {topic!r} have no link to a subscriber"
            yield _without_relay(what, [overlay.names[node] for node in far], "links to subscribers")


def _without_relay(what: str, names: Sequence[str], allowed: str) -> Problem:
    some = f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
    reason = "nodes that do not subscribe relay nothing"
    return Problem(("protocol", "relay"), f"{what} ({some}), and {reason}; allowed: relay: true, or {allowed}")


_SQL = sql_files("pipelines.protocols.gossipsub.audits")
_RELATIONS = (
    "ended", "first_fault", "joined", "had", "forgotten", "pruned", "parted", "grafted", "member", "standing",
    "in_mesh", "gossip_id",
)  # fmt: skip
PROTOCOL = Protocol(
    name="gossipsub",
    summary="libp2p's gossipsub v1.1 without scores: a mesh for each topic, and gossip about received publications",
    settings=GossipSubSettings,
    program=GossipSub,
    audits=sql_audits("pipelines.protocols.gossipsub.audits"),
    audit_relations={name: _SQL[name] for name in _RELATIONS},
    bound=arrow_bound(sql_files(__name__)["bound"], gossipsub_beyond),
    undecided=_SQL["undecided"],
    assumes=frozenset({"no_loss", "order"}),
    waits={"cached": _SQL["waits"]},
    maintenance=("HELLO", "ANNOUNCE", "GRAFT", "PRUNE"),
    application=("PUB",),
    recovery=("IHAVE", "IWANT", "REPLY", "HELLO"),
    variants=({}, {"flood_publish": False}),
    views="pipelines.protocols.gossipsub.views",
    check=problems,
)
