"""Protocol ``ginger``: eventual, causal and total delivery over one tree of brokers (Matos, Ginger, chapters 3 to 5).

The module declares the settings of the protocol, the scenarios that it rejects (`problems`), and its bound: the set of
faults that the protocol tolerates (`beyond`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from pipelines.contract.audit import (
    SLOW_CRASHING_RUN,
    Reader,
    Relation,
    arrow_bound,
    arrow_rows,
    sql_audits,
    sql_files,
)
from pipelines.contract.predicate import topics_of
from pipelines.contract.protocol import DerivedTable, Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Natural, NodeName, Strict
from pipelines.errors import Problem, listed, nearest
from udfs.ginger.bank import BALANCES, replay
from udfs.ginger.bound import START_PARENTS, beyond_runs, start_parents
from udfs.ginger.program import Ginger
from udfs.ginger.records import Locked, locked_rows
from udfs.ginger.tree import BROKEN, Tree, broken_trees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SQL = sql_files("pipelines.protocols.ginger.audits")
_BOUND = sql_files("pipelines.protocols.ginger")
BOUND_INPUT = _BOUND["bound"]
"""SQL for the input of `udfs.ginger.bound.beyond_runs`: one row for each run with crashes."""
_SLOW_JOIN = f"with repair_limit as ({_SQL['repair_limit']})\nselect * from (\n{_BOUND['slow_join']}\n) found"


def beyond(reader: Reader) -> DataFrame:
    """Returns the runs of a store with faults beyond the bound: ``run_id, round, reason``, one row per reason.

    Runs that have both crashes and slow messages are beyond the bound: timers and failure detectors depend on the
    latencies of links (rules G8 and G14). So do the timers of joins.
    """
    slow = reader.sql(SLOW_CRASHING_RUN).unionByName(reader.sql(_SLOW_JOIN))
    return arrow_bound(BOUND_INPUT, beyond_runs)(reader).unionByName(slow)


_SUBSCRIPTIONS = ("workload", "subscriptions")
_PUBLICATIONS = ("workload", "publications")
_GUARANTEES = "eventual, causal, total"


@dataclass(frozen=True)
class _Topic:
    brokers: frozenset[int]  # the brokers of the sub-tree
    confirmed_round: int  # the round in which the last subscription is confirmed


def _tree(overlay: Overlay) -> Tree:
    src, dst = overlay.directed_links
    rows = zip(src.tolist(), dst.tolist(), overlay.directed_rounds.tolist(), strict=True)
    return Tree(0, {(a, b): rounds for a, b, rounds in rows}, range(overlay.n_brokers, len(overlay.names)))


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields the reasons why the protocol rejects a scenario, each with the scenario key that causes it.

    Args:
        settings: A `GingerSettings`.
        overlay: A tree of brokers with clients.
        workload: The calls of the scenario.
        faults: The faults of the scenario.
    """
    brokers = overlay.names[: overlay.n_brokers]
    if settings.root is not None and settings.root not in brokers:
        hint = nearest(settings.root, brokers[:2000])
        yield Problem(
            ("protocol", "root"), f"the overlay has no broker {settings.root!r};{hint} allowed: a broker of the overlay"
        )
    elif settings.root in {overlay.names[node] for node in workload.join["node_id"].to_pylist()}:
        message = f"{settings.root!r} joins later; allowed: a broker that is in the overlay from the beginning"
        yield Problem(("protocol", "root"), message)
    found = [*_call_problems(overlay, workload)]
    yield from found
    if not found:
        tree = _tree(overlay)
        topics = _topics(tree, workload.subscription)
        yield from _topic_problems(overlay, workload, tree, topics)
        yield from _join_problems(overlay, workload, topics, faults)
    for node in faults.crash["node_id"].to_pylist():
        if node >= overlay.n_brokers:
            yield Problem(("faults",), f"{overlay.names[node]!r} is a client; with protocol ginger only brokers crash")
    most = 2 * settings.max_hops * max(overlay.directed_rounds.tolist(), default=0)
    if (len(faults.crash) or len(workload.join)) and settings.timer_rounds < most:
        message = (
            f"{settings.timer_rounds} rounds are less than the time for an answer over {settings.max_hops} of the"
            f" slowest links; allowed: {most} or more"
        )
        yield Problem(("protocol", "timer_rounds"), message)


def _join_problems(
    overlay: Overlay, workload: Workload, topics: Mapping[str, _Topic], faults: Faults
) -> Iterator[Problem]:  # fmt: skip
    """Yields problems of joins: by a client, before all subscriptions are confirmed, or after a crash of the broker."""
    crashed = {row["node_id"]: row["round"] for row in reversed(faults.crash.to_pylist())}
    first = max((topic.confirmed_round for topic in topics.values()), default=0)
    for index, row in enumerate(workload.join.to_pylist()):
        key, node = ("workload", "joins", index), row["node_id"]
        if node >= overlay.n_brokers:
            yield Problem((*key, "node"), f"{overlay.names[node]!r} is a client; allowed: a broker without clients")
        if row["round"] < first:
            message = f"round {row['round']} is before all subscriptions are confirmed; allowed: {first} or later"
            yield Problem((*key, "round"), message)
        if (crash := crashed.get(node)) is not None and crash <= row["round"]:
            message = f"{overlay.names[node]!r} crashes in round {crash}; allowed: a round before it, or a later crash"
            yield Problem((*key, "round"), message)


def _call_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    first: dict[tuple[int, str], int] = {}
    rows = workload.subscription.append_column("topic", topics_of(workload.subscription["predicate"]))
    for index, row in enumerate(rows.to_pylist()):
        key, node, topic = (*_SUBSCRIPTIONS, index), row["node_id"], row["topic"]
        yield from _not_a_client(overlay, node, (*key, "at"))
        before = first.setdefault((node, topic), index)
        if topic is None:
            message = f"{row['predicate']} is not a topic alone; allowed with protocol ginger: topic: a name, no where:"
            yield Problem(key, message)
        elif before != index:
            message = f"{overlay.names[node]!r} subscribes to {topic!r} already, as number {before + 1}; allowed: once"
            yield Problem(key, message)
        if row["end_round"] is not None:
            yield Problem((*key, "until"), "protocol ginger has no unsubscription; leave until: out")
    for index, row in enumerate(workload.publication.to_pylist()):
        yield from _not_a_client(overlay, row["node_id"], (*_PUBLICATIONS, index, "at"))
        if row["topic"] is None:
            yield Problem((*_PUBLICATIONS, index), "a publication of protocol ginger needs a topic:; add one")
        if row["guarantee"] is None:
            message = f"a publication of protocol ginger needs a key guarantee; allowed: {_GUARANTEES}"
            yield Problem((*_PUBLICATIONS, index), message)


def _not_a_client(overlay: Overlay, node: int, key: tuple[str | int, ...]) -> Iterator[Problem]:
    if node < overlay.n_brokers:
        clients = overlay.names[overlay.n_brokers :]
        allowed = f"allowed: a client ({listed(clients, 5)})" if clients else "add clients with overlay.clients"
        message = f"{overlay.names[node]!r} is a broker; with protocol ginger clients publish and subscribe; {allowed}"
        yield Problem(key, message)


def _topic_problems(
    overlay: Overlay, workload: Workload, tree: Tree, topics: Mapping[str, _Topic]
) -> Iterator[Problem]:
    for index, row in enumerate(workload.publication.to_pylist()):
        key = (*_PUBLICATIONS, index)
        name, client = row["topic"], overlay.names[row["node_id"]]
        topic = topics.get(name)
        if topic is None:
            hint = nearest(name, sorted(topics))
            yield Problem((*key, "topic"), f"nobody subscribes to {name!r};{hint} allowed: a topic with subscribers")
        elif tree.parent[row["node_id"]] not in topic.brokers:
            inside = listed(sorted(overlay.names[broker] for broker in topic.brokers), 5)
            message = (
                f"{client!r} is at {overlay.names[tree.parent[row['node_id']]]!r}, outside the sub-tree of {name!r};"
                f" allowed: clients at {inside}, or subscribe {client!r} to it"
            )
            yield Problem((*key, "at"), message)
        elif row["round"] < topic.confirmed_round:
            message = (
                f"round {row['round']} is before the subscriptions of {name!r} are confirmed; allowed: round"
                f" {topic.confirmed_round} or later"
            )
            yield Problem((*key, "round"), message)


def _topics(tree: Tree, subscription: pa.Table) -> dict[str, _Topic]:
    calls: dict[str, list[tuple[int, int]]] = {}
    rows = subscription.select(["node_id", "round"]).to_pylist()
    for name, row in zip(topics_of(subscription["predicate"]).to_pylist(), rows, strict=True):
        calls.setdefault(name, []).append((row["node_id"], row["round"]))
    topics = {}
    for name, of_topic in calls.items():
        brokers = frozenset(tree.members({tree.parent[client] for client, _ in of_topic}))
        topics[name] = _Topic(brokers, max(round_ + tree.confirm_rounds(client) for client, round_ in of_topic))
    return topics


class GingerSettings(Strict):
    """Settings of protocol ``ginger``."""

    name: Literal["ginger"] = Field("ginger", description="selects this protocol")
    root: NodeName | None = Field(None, description="the broker at the root of the tree; default: the first broker")
    start_balance: Annotated[int, Field(ge=0, le=10**15, strict=True)] = Field(
        100_000, description="initial balance of every account in workload bank, in cents"
    )
    total_degree: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        8,
        description="totalDegree: a broker with this number of connections accepts another broker only if the request "
        "has the flag breakDegree; a broker accepts all clients",
    )
    detection_rounds: Natural = Field(
        5, description="rounds from the arrival of a failed neighbour's last message to the report of the failure"
    )
    timer_rounds: Natural = Field(
        200,
        description="rounds that a node waits for the vote of a sibling, in addition to the latencies; other timers "
        "wait three times this number",
    )
    buffer_size: Natural = Field(
        150,
        description="bufferSize: maximum number of events of a topic for which a node stores the whole message, to "
        "send it again; for older events it stores only ids",
    )
    collect_every: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = Field(
        0,
        description="number of new messages of a topic after which a node reports the received messages to its "
        "parent, for garbage collection; 0: no garbage collection",
    )
    max_hops: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        3, description="maxHops: maximum number of links between a node and a broker in its view"
    )


_WAITS = sql_files("pipelines.protocols.ginger.waits")
OPERATION = _SQL["bank_operation"]
_REPLICAS = f"""
select run_id, node_id, topic, start_balance,
  array_sort(collect_list(struct(position, source, source_seq, guarantee, content))) as operations
from ({OPERATION}) operation
group by run_id, node_id, topic, start_balance
"""  # noqa: S608 - built of constants
_TREES = """
select run_id, array_sort(collect_list(struct(node_id, above as parent))) as nodes
from up_node
where role = 'broker'
group by run_id
"""
_RELATIONS: dict[str, Relation] = {
    **{name: _SQL[name] for name in ("quiet_run", "key_item", "up_node", "repair_limit")},
    "balance": lambda evidence: arrow_rows(evidence.sql(_REPLICAS), replay, BALANCES),
    "broken_tree": lambda evidence: arrow_rows(evidence.sql(_TREES), broken_trees, BROKEN),
    "start_parent": lambda evidence: arrow_rows(evidence.sql(BOUND_INPUT), start_parents, START_PARENTS),
    **{name: _SQL[name] for name in ("election_message", "election", "newcomer")},
}
"""The relations that audits read. A relation may read the relations before it.

Three of them are computed in Python. A balance depends on all earlier operations of its replica. ``broken_tree`` has
the live brokers that have no path to the root at the end of quiescent runs, and all roots of a run except the one with
the lowest id. ``start_parent`` has the parents of brokers in the initial trees of runs with crashes.
"""
PROTOCOL = Protocol(
    name="ginger",
    summary="eventual, causal and total order on one tree of brokers, with locks on key items",
    settings=GingerSettings,
    program=Ginger,
    audits=sql_audits("pipelines.protocols.ginger.audits"),
    audit_relations=_RELATIONS,
    bound=beyond,
    undecided=_SQL["undecided"],
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    waits={name: _WAITS[name] for name in ("repair", "entry_queue", "hold", "pending", "gap")},
    waited=_WAITS["waited"],
    shown=[DerivedTable("locked", Locked, "pending", locked_rows)],
    needs_tree=True,
    confirms=True,
    steps="pipelines.protocols.ginger.dataflow",
    steps_bear_faults=False,
    draws=False,
    variants=(*({"max_hops": hops} for hops in (2, 3, 5)), *({"total_degree": degree} for degree in (4, 16))),
    application=("Metadata",),
    acknowledgement=("TotalAck", "TotalProcessed", "Received", "Collect"),
    recovery=(
        "Failed", "Current", "ParentRequest", "ParentResponse", "Disconnect", "ParentBuffer",
        "LostMessageRequest", "LostMessages", "TreeViewUpdate", "RootElection", "Exception", "Repeat", "NeighborDown",
    ),
    views="pipelines.protocols.ginger.views",
    orders=("eventual", "causal", "total"),
    check=problems,
)  # fmt: skip
