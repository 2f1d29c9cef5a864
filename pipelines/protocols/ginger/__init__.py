"""Ginger: eventual, causal and total delivery over one broker tree (Matos, Ginger, chapters 3 to 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from pipelines.contract.audit import SLOW_CRASHING_RUN, Reader, arrow_rows
from pipelines.contract.predicate import topics_of
from pipelines.contract.protocol import DerivedTable, Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import NodeName, Strict
from pipelines.errors import Problem, nearest
from pipelines.protocols.ginger.audits import AUDITS, RELATIONS
from pipelines.protocols.ginger.waits import WAITED, WAITS
from udfs.batches import BEYOND
from udfs.ginger.bound import beyond_runs
from udfs.ginger.program import Ginger
from udfs.ginger.records import Locked, locked_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN = """
with joins as (
  select c.run_id, c.node_id, c.contact, l.issued_round
  from state_contact c
  left join state_call_log l on l.run_id = c.run_id and l.source = c.node_id and l.kind = 'join'
  where c.is_joining
), nodes as (
  select run_id, array_sort(collect_list(struct(node_id, name, role))) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst, latency_rounds))) as links from link group by run_id
), faults as (
  select run_id, array_sort(collect_list(struct(round, kind, node_id))) as faults
  from fault_event
  where kind in ('crash', 'recovery')
  group by run_id
), subscriptions as (
  select s.run_id, array_sort(collect_list(struct(s.subscriber, p.text as topic, s.issued_round))) as subscriptions
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
  group by s.run_id
), joined as (
  select run_id, array_sort(collect_list(struct(node_id, contact, issued_round))) as joins from joins group by run_id
)
select r.run_id, r.parameters, n.nodes, l.links, f.faults, s.subscriptions, j.joins
from run r
join nodes n on n.run_id = r.run_id
join links l on l.run_id = r.run_id
join faults f on f.run_id = r.run_id
left join subscriptions s on s.run_id = r.run_id
left join joined j on j.run_id = r.run_id
"""
"""The runs in which a broker crashes, as their scenarios have them; a join has a round as long as it is not over."""


def beyond(reader: Reader) -> DataFrame:
    """Returns the runs whose faults are too much for the protocol.

    Crashes beside slow messages are: timers and the failure detector go by the latencies of links (rules G8 and G14).

    Args:
        reader: The store.

    Returns:
        ``run_id, round, reason``; a run may have several rows.
    """
    return arrow_rows(reader.sql(GIVEN), beyond_runs, BEYOND).unionByName(reader.sql(SLOW_CRASHING_RUN))


_SUBSCRIPTIONS = ("workload", "subscriptions")
_PUBLICATIONS = ("workload", "publications")
_GUARANTEES = "eventual, causal, total"


@dataclass(frozen=True)
class _Topic:
    """A topic: the clients that subscribe to it, the brokers of its sub-tree, and when all of them know it."""

    clients: frozenset[int]
    brokers: frozenset[int]
    confirmed_round: int


class _Tree:
    """Distances in rounds, and edge brokers."""

    def __init__(self, overlay: Overlay) -> None:
        self.n_brokers = overlay.n_brokers
        self.links: list[list[tuple[int, int]]] = [[] for _ in overlay.names]
        for a, b, latency in zip(overlay.a.tolist(), overlay.b.tolist(), overlay.latency_rounds.tolist(), strict=True):
            self.links[a].append((b, latency))
            self.links[b].append((a, latency))
        self._paths: dict[int, dict[int, tuple[int, int]]] = {}

    def edge(self, client: int) -> int:
        """Returns the edge broker of a client."""
        return self.links[client][0][0]

    def from_node(self, start: int) -> dict[int, tuple[int, int]]:
        """Returns for each broker the rounds from a node to it, and the node before it on the way."""
        if start not in self._paths:
            found = {start: (0, start)}
            order = [start]
            for node in order:
                for other, latency in self.links[node]:
                    if other not in found and other < self.n_brokers:
                        found[other] = (found[node][0] + latency, node)
                        order.append(other)
            self._paths[start] = found
        return self._paths[start]

    def path(self, start: int, end: int) -> set[int]:
        """Returns the brokers from one to another."""
        before = self.from_node(start)
        path = {end}
        while end != start:
            end = before[end][1]
            path.add(end)
        return path

    def confirmed(self, client: int, round_: int) -> int:
        """Returns the round in which a client has the answer of all brokers to its Subscribe."""
        return round_ + 2 * max(rounds for rounds, _ in self.from_node(client).values())


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields what the protocol cannot run with, each problem at its place.

    Args:
        settings: A `GingerSettings`.
        overlay: A tree of brokers with clients.
        workload: Its calls.
        faults: Its faults.
    """
    brokers = overlay.names[: overlay.n_brokers]
    if settings.root is not None and settings.root not in brokers:
        hint = nearest(settings.root, brokers[:2000])
        yield Problem(
            ("protocol", "root"), f"there is no broker {settings.root!r};{hint} allowed: a broker of the overlay"
        )
    found = [*_call_problems(overlay, workload)]
    yield from found
    if not found:
        tree = _Tree(overlay)
        topics = _topics(tree, workload.subscription)
        yield from _topic_problems(overlay, workload, tree, topics)
        yield from _join_problems(overlay, workload, topics)
    yield from _unsupported(overlay, faults)
    most = 2 * settings.max_hops * max(overlay.latency_rounds.tolist(), default=0)
    if (len(faults.crash) or len(workload.join)) and settings.timer_rounds < most:
        message = (
            f"in {settings.timer_rounds} rounds no answer may come over {settings.max_hops} of the slowest links;"
            f" allowed: {most} or more"
        )
        yield Problem(("protocol", "timer_rounds"), message)


def _unsupported(overlay: Overlay, faults: Faults) -> Iterator[Problem]:
    for node in faults.crash["node_id"].to_pylist():
        if node >= overlay.n_brokers:
            yield Problem(("faults",), f"{overlay.names[node]!r} is a client; with protocol ginger only brokers crash")


def _join_problems(overlay: Overlay, workload: Workload, topics: Mapping[str, _Topic]) -> Iterator[Problem]:
    """Brokers join when the sub-trees stand; that no client hangs on them says `workload.joins`."""
    first = max((topic.confirmed_round for topic in topics.values()), default=0)
    for index, row in enumerate(workload.join.to_pylist()):
        place, node = ("workload", "joins", index), row["node_id"]
        if node >= overlay.n_brokers:
            yield Problem((*place, "node"), f"{overlay.names[node]!r} is a client; allowed: a broker without clients")
        if row["round"] < first:
            message = f"round {row['round']} is before all subscriptions are confirmed; allowed: {first} or later"
            yield Problem((*place, "round"), message)


def _call_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    rows = workload.subscription.append_column("topic", topics_of(workload.subscription["predicate"]))
    for index, row in enumerate(rows.to_pylist()):
        yield from _not_a_client(overlay, row["node_id"], (*_SUBSCRIPTIONS, index, "at"))
        if row["topic"] is None:
            message = f"{row['predicate']} is not a topic alone; allowed with protocol ginger: topic: a name, no where:"
            yield Problem((*_SUBSCRIPTIONS, index), message)
        if row["end_round"] is not None:
            yield Problem((*_SUBSCRIPTIONS, index, "until"), "protocol ginger has no unsubscription; leave until: out")
    yield from _twice(overlay, rows)
    for index, row in enumerate(workload.publication.to_pylist()):
        yield from _not_a_client(overlay, row["node_id"], (*_PUBLICATIONS, index, "at"))
        if row["topic"] is None:
            yield Problem((*_PUBLICATIONS, index), "a publication of protocol ginger needs a topic:; add one")
        if row["guarantee"] is None:
            message = f"a publication of protocol ginger needs a key guarantee; allowed: {_GUARANTEES}"
            yield Problem((*_PUBLICATIONS, index), message)


def _not_a_client(overlay: Overlay, node: int, place: tuple[str | int, ...]) -> Iterator[Problem]:
    if node < overlay.n_brokers:
        clients = overlay.names[overlay.n_brokers :]
        some = ", ".join(clients[:5]) + (", ..." if len(clients) > 5 else "")
        allowed = f"allowed: a client ({some})" if clients else "add clients with overlay.clients"
        yield Problem(
            place, f"{overlay.names[node]!r} is a broker; with protocol ginger clients publish and subscribe; {allowed}"
        )


def _twice(overlay: Overlay, subscription: pa.Table) -> Iterator[Problem]:
    first: dict[tuple[int, str], int] = {}
    for index, (node, topic) in enumerate(
        zip(subscription["node_id"].to_pylist(), subscription["topic"].to_pylist(), strict=True)
    ):
        before = first.setdefault((node, topic), index)
        if before != index and topic is not None:
            message = f"{overlay.names[node]!r} subscribes to {topic!r} already, as number {before + 1}; allowed: once"
            yield Problem((*_SUBSCRIPTIONS, index), message)


def _topic_problems(
    overlay: Overlay, workload: Workload, tree: _Tree, topics: Mapping[str, _Topic]
) -> Iterator[Problem]:  # fmt: skip
    for index, row in enumerate(workload.publication.to_pylist()):
        place = (*_PUBLICATIONS, index)
        name, client = row["topic"], overlay.names[row["node_id"]]
        topic = topics.get(name)
        if topic is None:
            hint = nearest(name, sorted(topics))
            yield Problem((*place, "topic"), f"nobody subscribes to {name!r};{hint} allowed: a topic with subscribers")
        elif tree.edge(row["node_id"]) not in topic.brokers:
            inside = _listed(sorted(overlay.names[broker] for broker in topic.brokers))
            message = (
                f"{client!r} is at {overlay.names[tree.edge(row['node_id'])]!r}, outside the sub-tree of {name!r};"
                f" allowed: clients at {inside}, or subscribe {client!r} to it"
            )
            yield Problem((*place, "at"), message)
        elif row["round"] < topic.confirmed_round:
            message = (
                f"round {row['round']} is before the subscriptions of {name!r} are confirmed; allowed: round"
                f" {topic.confirmed_round} or later"
            )
            yield Problem((*place, "round"), message)


def _topics(tree: _Tree, subscription: pa.Table) -> Mapping[str, _Topic]:
    calls: dict[str, list[tuple[int, int]]] = {}
    names = topics_of(subscription["predicate"]).to_pylist()
    for name, node, round_ in zip(
        names, subscription["node_id"].to_pylist(), subscription["round"].to_pylist(), strict=True
    ):
        calls.setdefault(name, []).append((node, round_))
    return {name: _topic(tree, of_topic) for name, of_topic in calls.items()}


def _topic(tree: _Tree, calls: Sequence[tuple[int, int]]) -> _Topic:
    edges = sorted({tree.edge(client) for client, _ in calls})
    brokers = {broker for edge in edges for broker in tree.path(edges[0], edge)}
    confirmed = max(tree.confirmed(client, round_) for client, round_ in calls)
    return _Topic(frozenset(client for client, _ in calls), frozenset(brokers), confirmed)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


class GingerSettings(Strict):
    """Settings of protocol ``ginger``."""

    name: Literal["ginger"] = "ginger"
    root: NodeName | None = Field(None, description="the broker at the root of the tree (default: the first)")
    start_balance: Annotated[int, Field(ge=0, le=10**15, strict=True)] = Field(
        100_000, description="workload bank: cents on every account at the start"
    )
    total_degree: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        8, description="connections of a broker beyond which it takes in no more, unless it has to (totalDegree)"
    )
    detection_rounds: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        5, description="rounds after the last message of a failed neighbour could come until its failure is noticed"
    )
    timer_rounds: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        200, description="how long a node waits for the answers of an election; three times as long for others"
    )
    buffer_size: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        150, description="events of a topic that a node keeps to send them again (bufferSize); of older ones the ids"
    )
    collect_every: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = Field(
        0,
        description="messages of a topic after which a node tells what it has had, so that buffers forget it; 0: never",
    )
    max_hops: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        3, description="hops over which a broker's entry in a path is passed on (maxHops)"
    )


PROTOCOL = Protocol(
    name="ginger",
    summary="eventual, causal and total order on one tree of brokers, with locks on key items",
    settings=GingerSettings,
    program=Ginger,
    audits=AUDITS,
    audit_relations=RELATIONS,
    bound=beyond,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    waits=WAITS,
    waited=WAITED,
    shown=[DerivedTable("locked", Locked, "pending", locked_rows)],
    needs_tree=True,
    confirms=True,
    steps="pipelines.protocols.ginger.dataflow",
    steps_bear_faults=False,
    draws=False,
    variants=(*({"max_hops": hops} for hops in (2, 3, 5)), *({"total_degree": degree} for degree in (4, 16))),
    application=("Metadata",),
    acknowledgement=(
        "TotalAck",
        "TotalProcessed",
        "Received",
        "Collect",
    ),
    recovery=(
        "Failed",
        "ParentRequest",
        "ParentResponse",
        "ParentBuffer",
        "LostMessageRequest",
        "LostMessages",
        "TreeViewUpdate",
        "RootElection",
        "Exception",
        "Repeat",
        "NeighborDown",
    ),
    views="pipelines.protocols.ginger.views",
    orders=("eventual", "causal", "total"),
    check=problems,
)
