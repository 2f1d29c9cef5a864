"""libp2p's gossipsub, specification v1.1 without scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import networkx as nx
from pydantic import Field, model_validator

from pipelines.contract.audit import Audit, Reader, arrow_rows, sql_files
from pipelines.contract.predicate import topics_of
from pipelines.contract.protocol import Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Flag, Share, Strict
from pipelines.errors import Problem
from udfs.batches import BEYOND
from udfs.gossipsub import GossipSub
from udfs.reach import gossipsub_beyond

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Degree = Annotated[int, Field(ge=0, le=1_000, strict=True)]
_Rounds = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
_Heartbeats = Annotated[int, Field(ge=1, le=100_000, strict=True)]


class GossipSubSettings(Strict):
    """Settings of protocol ``gossipsub``; defaults are those of the specification."""

    name: Literal["gossipsub"] = "gossipsub"
    d: _Degree = Field(6, description="D: neighbours that a node wants in the mesh of a topic")
    d_lo: _Degree = Field(4, description="D_lo: with fewer neighbours in the mesh a node grafts others")
    d_hi: _Degree = Field(12, description="D_hi: with more neighbours in the mesh a node prunes some")
    d_lazy: _Degree = Field(6, description="D_lazy: neighbours outside the mesh that a heartbeat gossips to, at least")
    d_out: _Degree = Field(2, description="D_out: neighbours in the mesh whose connection the node has opened itself")
    gossip_factor: Share = Field(
        0.25, description="share of the neighbours outside the mesh that a heartbeat gossips to, if that is more"
    )
    heartbeat_rounds: _Rounds = Field(
        100, description="rounds from one heartbeat to the next; the specification has 1 s"
    )
    history_length: _Heartbeats = Field(5, description="mcache_len: heartbeats that a publication stays in the cache")
    history_gossip: _Heartbeats = Field(3, description="mcache_gossip: heartbeats that gossip about a publication")
    prune_backoff: _Heartbeats = Field(60, description="heartbeats after a PRUNE in which neither end grafts the other")
    unsubscribe_backoff: _Heartbeats = Field(10, description="the same where the PRUNE comes of leaving the topic")
    fanout_ttl: _Heartbeats = Field(
        60, description="heartbeats after its last publication to a topic that it has not joined for which a node keeps"
        " the fanout"
    )  # fmt: skip
    seen_ttl: _Heartbeats = Field(120, description="heartbeats for which a node remembers a publication")
    flood_publish: Flag = Field(
        True, description="a publisher sends to all neighbours of the topic, not to its mesh or fanout"
    )
    relay: Flag = Field(
        True,
        description="brokers join all topics; false: only subscribers do, as in the specification, and these have to be"
        " joined by links between themselves",
    )
    detection_rounds: _Rounds = Field(5, description="rounds from a crash to the end of its connections")

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


_NUMBERS = ("d_lo", "d_hi", "d_lazy", "history_length", "heartbeat_rounds")
_SETTINGS = ", ".join(
    f"cast(get_json_object(r.parameters, \"$['protocol.{name}']\") as bigint) as {name}" for name in _NUMBERS
)
GIVEN = f"""
with nodes as (
  select run_id, array_sort(collect_list(node_id)) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links, max(latency_rounds) as latency_rounds
  from link
  group by run_id
), crashes as (
  select run_id,
    array_sort(collect_list(struct(crash_round as round, node_id, recovery_round is null as is_final))) as crashes
  from node_recovery
  group by run_id
), slow as (
  select run_id, min(round) as slow_round from fault_event where kind in ('pause', 'delay') group by run_id
), ended as (
  select run_id, min(unsubscribed_round) as left_round from subscription group by run_id
)
select r.run_id, n.nodes, l.links, coalesce(l.latency_rounds, 0) as latency_rounds, c.crashes, s.slow_round,
  e.left_round, get_json_object(r.parameters, "$['protocol.relay']") = 'true' as relay, {_SETTINGS}
from run r
join nodes n on n.run_id = r.run_id
left join links l on l.run_id = r.run_id
left join crashes c on c.run_id = r.run_id
left join slow s on s.run_id = r.run_id
left join ended e on e.run_id = r.run_id
"""  # noqa: S608 - built of constants


def beyond(reader: Reader) -> DataFrame:
    """Returns the runs in which deliveries are a matter of draws (README, section Bound).

    Args:
        reader: The store.

    Returns:
        ``run_id, round, reason``; one row a run.
    """
    return arrow_rows(reader.sql(GIVEN), gossipsub_beyond, BEYOND)


_SHOWN = 5


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields what the protocol cannot run with, each problem at its place.

    Args:
        settings: A `GossipSubSettings`.
        overlay: The nodes and their links.
        workload: Its calls.
        faults: Its faults; the protocol is played with all kinds.
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
    for index in range(len(workload.join)):
        message = "nodes of protocol gossipsub are connected from the start; leave joins out"
        yield Problem(("workload", "joins", index), message)
    if not settings.relay:
        yield from _scattered(overlay, members)


def _scattered(overlay: Overlay, members: dict[str, set[int]]) -> Iterator[Problem]:
    """Yields the topics whose subscribers have no way to one another past nodes that pass nothing on."""
    links = list(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    for topic, nodes in members.items():
        graph = nx.Graph((a, b) for a, b in links if a in nodes and b in nodes)
        graph.add_nodes_from(nodes)
        parts = sorted(nx.connected_components(graph), key=min)
        if len(parts) > 1:
            some = [overlay.names[min(part)] for part in parts[:_SHOWN]]
            message = (
                f"subscribers of topic {topic!r} are in {len(parts)} parts without links between them ("
                f"{', '.join(some)}{', ...' if len(parts) > _SHOWN else ''}), and nodes that do not subscribe relay"
                " nothing; allowed: relay: true, or links between subscribers"
            )
            yield Problem(("protocol", "relay"), message)


_SQL = sql_files("pipelines.protocols.gossipsub.audits")
RELATIONS = {name: _SQL[name] for name in ("setting", "had", "pruned", "member", "standing")}
"""The rows that several audits read."""
AUDITS = (
    Audit("symmetric_mesh", "of two nodes each has the other in its mesh, or none has", _SQL["symmetric_mesh"]),
    Audit("bounded_mesh", "after a heartbeat no mesh has more than `d_hi` neighbours", _SQL["bounded_mesh"]),
    Audit(
        "pushes_over_mesh", "a node pushes what others published over grafted links only",
        _SQL["pushes_over_mesh"], is_unconditional=True,
    ),
    Audit(
        "replies_when_asked", "a REPLY answers an IWANT that names its publication",
        _SQL["replies_when_asked"], is_unconditional=True,
    ),
    Audit(
        "bounded_gossip", "a node gossips about a publication in at most `history_gossip` heartbeats",
        _SQL["bounded_gossip"], is_unconditional=True,
    ),
    Audit(
        "never_back", "a publication goes back neither to its sender nor to its publisher",
        _SQL["never_back"], is_unconditional=True,
    ),
    Audit(
        "asks_for_gossip", "IWANT names publications of an IHAVE that the node has not had",
        _SQL["asks_for_gossip"], is_unconditional=True,
    ),
    Audit(
        "asks_at_once", "a subscriber asks for what an IHAVE names and it lacks",
        _SQL["asks_at_once"], is_unconditional=True,
    ),
    Audit(
        "answers_from_cache", "an IWANT is answered for `history_length` heartbeats, and no longer",
        _SQL["answers_from_cache"], is_unconditional=True,
    ),
    Audit(
        "heartbeats", "heartbeats of a node are whole intervals apart", _SQL["heartbeats"], is_unconditional=True,
    ),
    Audit(
        "backoff", "after a PRUNE no end grafts the other within the backoff", _SQL["backoff"], is_unconditional=True,
    ),
    Audit(
        "refuses_in_backoff", "a GRAFT within a backoff is answered with PRUNE",
        _SQL["refuses_in_backoff"], is_unconditional=True,
    ),
    Audit(
        "floods_own", "a flooded publication goes to all neighbours that have announced the topic",
        _SQL["floods_own"], is_unconditional=True,
    ),
    Audit(
        "keeps_fanout", "a fanout stays while its node publishes, and ends afterwards",
        _SQL["keeps_fanout"], is_unconditional=True,
    ),
    Audit(
        "gossips_widely", "gossip goes to D_lazy of the neighbours outside the mesh",
        _SQL["gossips_widely"], is_unconditional=True,
    ),
    Audit("fills_mesh", "at the end no mesh lacks neighbours that its node may graft", _SQL["fills_mesh"]),
    Audit(
        "known_peers", "neighbours know of each other which topics they have joined",
        _SQL["known_peers"], is_unconditional=True,
    ),
)  # fmt: skip

PROTOCOL = Protocol(
    name="gossipsub",
    summary="libp2p's pubsub v1.1 without scores: a mesh a topic, and gossip about what came",
    settings=GossipSubSettings,
    program=GossipSub,
    audits=AUDITS,
    audit_relations=RELATIONS,
    bound=beyond,
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
