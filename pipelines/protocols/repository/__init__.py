"""Protocol ``repository``: reliable delivery through repositories (Pallickara, Bulut, Fox: NaradaBrokering)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Annotated, Any, Literal

import networkx as nx
from pydantic import Field

from pipelines.contract.audit import arrow_bound, sql_audits, sql_files
from pipelines.contract.predicate import topics_of
from pipelines.contract.protocol import Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Composed, Natural, NodeName, Strict, repetition_problems
from pipelines.errors import KeyPath, Problem, listed, nearest
from udfs.reach import repository_beyond
from udfs.repository.program import Repository, bundle_of

Count = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]


class BundleSettings(Strict):
    """A bundle: repositories that serve the same topics."""

    repositories: list[NodeName] | None = Field(None, description="the repositories (default: all)")
    topics: Annotated[list[Composed], Field(min_length=1)] | None = Field(
        None, description="the topics (default: all that no other bundle lists)"
    )

    def _problems(self) -> Iterator[Problem]:
        yield from repetition_problems(("repositories",), self.repositories or ())
        yield from repetition_problems(("topics",), self.topics or ())


class TopicSettings(Strict):
    """The clients that may publish on a topic and subscribe to it."""

    owner: NodeName = Field(description="the client that registers the publishers and subscribers of the topic")
    publishers: list[NodeName] = Field([], description="the publishers that are registered before round 0")
    subscribers: list[NodeName] = Field([], description="the subscribers that are registered before round 0")

    def _problems(self) -> Iterator[Problem]:
        yield from repetition_problems(("publishers",), self.publishers)
        yield from repetition_problems(("subscribers",), self.subscribers)


class RepositorySettings(Strict):
    """Settings of protocol ``repository``."""

    name: Literal["repository"] = Field("repository", description="selects this protocol")
    bundles: list[BundleSettings] = Field(
        [], description="repositories with the topics that they serve (default: all repositories serve all topics)"
    )
    bundle_size: Natural | None = Field(
        None,
        description="if bundles is not set: number n; the first n repositories serve all topics (default: all "
        "repositories)",
    )
    topics: dict[Composed, TopicSettings] = Field(
        {}, description="mapping of each topic with an owner to its clients; everybody may use all other topics"
    )
    baseline: bool = Field(False, description="true: best effort, without repositories, P2R-Order or acknowledgements")
    publisher_rounds: Natural = Field(
        20,
        description="T_p: rounds until a client repeats a request without an answer; messages that some repository "
        "lacks are repeated every 3 T_p",
    )
    failure_rounds: Natural = Field(
        100,
        description="T_fail: rounds without an event from its steering repository until a publisher seeks another one",
    )
    acknowledge_rounds: Natural = Field(
        10, description="T_a: rounds until a subscriber repeats acknowledgements that the repository has not confirmed"
    )
    acknowledge_count: Count = Field(
        1,
        description="number of deliveries after which a subscriber sends an acknowledgement before T_a ends; 0: it "
        "always waits for T_a",
    )
    wait_rounds: Natural = Field(10, description="T_w: rounds until a subscriber requests a missing message")
    nak_rounds: Natural = Field(
        15, description="T_n: rounds until a repository requests a missing message from its publisher"
    )
    rectify_rounds: Natural = Field(
        40, description="T_d: rounds without an acknowledgement until a repository sends R2S-Rectify"
    )
    idle_rounds: Natural = Field(
        60, description="T_idle: rounds without an event from the steering repository until a subscriber polls it"
    )
    assist_rounds: Natural = Field(
        100,
        description="T_assist: rounds that a recovering repository waits for another operational repository; then it "
        "recovers from its own disk. A member without an event for T_assist counts as down, so T_assist must not be "
        "shorter than T_g (gossip_rounds)",
    )
    gossip_rounds: Natural = Field(10, description="T_g: rounds between two gossip messages of a repository")
    fetch_rounds: Natural = Field(
        15,
        description="T_f: rounds until a repository requests missing messages from the other repositories of its "
        "bundle",
    )
    fetch_batch: Natural = Field(100, description="maximum number of messages that a repository requests at once")
    tries: Natural = Field(
        3, description="k: number of requests without an answer after which a client seeks another repository"
    )
    void_rounds: Natural = Field(
        200,
        description="T_void: rounds without an event from a publisher until repositories stop waiting for its missing "
        "messages",
    )
    store_rounds: Count = Field(0, description="rounds that a repository takes to write a message to its disk")
    retrieve_rounds: Count = Field(0, description="rounds that a repository takes to read a message from its disk")
    reroute_rounds: Natural = Field(
        5, description="rounds from a broker's crash or recovery until the other nodes change their routes"
    )

    def _problems(self) -> Iterator[Problem]:
        first: dict[str | None, int] = {}
        for index, bundle in enumerate(self.bundles):
            for topic in bundle.topics or (None,):
                before = first.setdefault(topic, index)
                if before != index:
                    what = f"topic {topic!r} belongs" if topic is not None else "the topics that no bundle lists belong"
                    message = f"{what} to bundle {before + 1} of the list already; allowed: each topic in one bundle"
                    yield Problem(("bundles", index, "topics"), message)


_SUBSCRIPTIONS: KeyPath = ("workload", "subscriptions")
_PUBLICATIONS: KeyPath = ("workload", "publications")
_CALLS: KeyPath = ("workload", "calls")
_AT_CLIENTS = ("steer", "register", "deregister")
_JOINED = {"leave": ("node_id",), "remove": ("node_id", "peer"), "steer": ("peer",)}
"""The repositories of a call that must have joined before: the caller (``node_id``) or the peer."""
_STAYING = {"remove": "node_id", "steer": "peer"}
"""The repository of a call that must neither leave nor be removed up to the round of the call."""


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields the reasons why the protocol rejects a scenario.

    Subscriptions, publications and calls must belong to clients or repositories of the overlay. Calls about a
    repository need a member of the bundle. A repository must serve each topic in round 0. Clients must wait long enough
    for the answer of the nearest repository that serves their topic to the end, and repositories for the gossip of a
    member.
    """
    found = [*_server_problems(settings, overlay), *_topic_problems(settings, overlay)]
    yield from found
    yield from _subscription_problems(overlay, workload)
    for index, node in enumerate(workload.publication["node_id"].to_pylist()):
        yield from _named((*_PUBLICATIONS, index, "at"), overlay.names[node], "client", _clients(overlay))
    if not found:
        yield from _call_problems(settings, overlay, workload)
    if not found and not settings.baseline:
        yield from _unserved(settings, overlay, workload)
        yield from _unheard(settings, overlay)
        if not len(faults.replacement):
            yield from _too_distant(settings, overlay, workload, faults)


def _servers(overlay: Overlay) -> Sequence[str]:
    return overlay.names[overlay.n_brokers : overlay.first_client]


def _clients(overlay: Overlay) -> Sequence[str]:
    return overlay.names[overlay.first_client :]


def _named(place: KeyPath, name: str, role: str, names: Sequence[str]) -> Iterator[Problem]:
    """Yields a problem if `name` is not one of `names`, the names of the nodes with role `role`."""
    if name not in names:
        allowed = f"allowed: one of {listed(names, 5)}" if names else f"the overlay has no {role}"
        yield Problem(place, f"{name!r} is not a {role};{nearest(name, names[:2000])} {allowed}")


def _server_problems(settings: Any, overlay: Overlay) -> Iterator[Problem]:  # noqa: ANN401
    if not overlay.n_servers and not settings.baseline:
        message = "protocol repository needs repositories; add overlay.servers, or set protocol.baseline: true"
        yield Problem(("overlay",), message)
    size, n_servers = settings.bundle_size, overlay.n_servers
    if size is not None and (settings.bundles or settings.baseline):
        reason = "protocol.bundles also lists" if settings.bundles else "protocol.baseline excludes"
        message = f"{reason} the repositories that serve topics; leave one of the two out"
        yield Problem(("protocol", "bundle_size"), message)
    elif size is not None and n_servers and size >= n_servers:
        allowed = f"allowed: fewer than {n_servers}, or leave it out (null in a grid), and all serve all topics"
        yield Problem(("protocol", "bundle_size"), f"the overlay has no more than {n_servers} servers; {allowed}")
    for index, bundle in enumerate(settings.bundles):
        for number, name in enumerate(bundle.repositories or ()):
            yield from _named(("protocol", "bundles", index, "repositories", number), name, "server", _servers(overlay))


def _topic_problems(settings: Any, overlay: Overlay) -> Iterator[Problem]:  # noqa: ANN401
    for topic, rules in settings.topics.items():
        place: KeyPath = ("protocol", "topics", topic)
        yield from _named((*place, "owner"), rules.owner, "client", _clients(overlay))
        for key in ("publishers", "subscribers"):
            for index, name in enumerate(getattr(rules, key)):
                yield from _named((*place, key, index), name, "client", _clients(overlay))


def _subscription_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    topics = topics_of(workload.subscription["predicate"], is_alone=False).to_pylist()
    has_topics = workload.publication["topic"].null_count < len(workload.publication)
    for index, (row, topic) in enumerate(zip(workload.subscription.to_pylist(), topics, strict=True)):
        yield from _named((*_SUBSCRIPTIONS, index, "at"), overlay.names[row["node_id"]], "client", _clients(overlay))
        if topic is None and (has_topics or "topic" in row["predicate"]):
            message = f"{row['predicate']} asks for no topic by its name, and repositories serve topics"
            allowed = "allowed: topic: a name, or publications and subscriptions without topics"
            yield Problem((*_SUBSCRIPTIONS, index), f"{message}; {allowed}")


def _call_problems(settings: Any, overlay: Overlay, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    first: dict[tuple[int, str], int] = {}
    for index, row in enumerate(workload.other_call.to_pylist()):
        place, kind, at = (*_CALLS, index), row["kind"], overlay.names[row["node_id"]]
        role, names = ("client", _clients(overlay)) if kind in _AT_CLIENTS else ("server", _servers(overlay))
        yield from _named((*place, "at"), at, role, names)
        if kind not in _AT_CLIENTS and at in names:
            yield from _named((*place, "at"), at, "member of a bundle", _members(settings, overlay))
        if kind == "steer":
            serving = bundle_of(row["topic"] or "", settings.model_dump(), _servers(overlay))
            served = [name for name in _servers(overlay) if name in serving]
            yield from _named((*place, "peer"), overlay.names[row["peer"]], "server of the topic", served)
        elif kind in ("join", "leave"):
            before = first.setdefault((row["node_id"], kind), index)
            if before != index:
                yield Problem((*place, "kind"), f"{at!r} calls {kind} already by entry {before}; allowed: once")
        elif kind == "remove":
            named = [{*names} for names in _bundles(settings, overlay)]
            others = [name for name in _servers(overlay) if name != at and any({at, name} <= of for of in named)]
            role = "member of the caller's bundles other than the caller"
            yield from _named((*place, "peer"), overlay.names[row["peer"]], role, others)
        else:
            yield from _registration_problems(settings, overlay, row, place)
    yield from _membership_problems(overlay, workload)


def _registration_problems(settings: Any, overlay: Overlay, row: dict[str, Any], place: KeyPath) -> Iterator[Problem]:  # noqa: ANN401
    yield from _named((*place, "peer"), overlay.names[row["peer"]], "client", _clients(overlay))
    rules = settings.topics.get(row["topic"] or "")
    if rules is None:
        message = f"topic {row['topic'] or ''!r} is open to everybody; add it to protocol.topics with its owner"
        yield Problem((*place, "topic"), message)
    elif rules.owner != overlay.names[row["node_id"]]:
        yield Problem((*place, "at"), f"{rules.owner!r} owns topic {row['topic'] or ''!r}, and registers its clients")


def _membership_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    """Yields a problem for each call that needs a repository before it has joined, or when it leaves or is removed."""
    rows = workload.other_call.to_pylist()
    joins = {row["node_id"]: row["round"] for row in rows if row["kind"] == "join"}
    ends: dict[int, int] = {}
    for row in rows:
        node = {"leave": row["node_id"], "remove": row["peer"]}.get(row["kind"])
        if node is not None:
            ends[node] = min(row["round"], ends.get(node, row["round"]))
    for index, row in enumerate(rows):
        place, called = (*_CALLS, index, "round"), f"{row['kind']} is called in round {row['round']}"
        for node in (row[key] for key in _JOINED.get(row["kind"], ())):
            if row["round"] <= joins.get(node, -1):
                message = f"{called}, and {overlay.names[node]!r} joins in round {joins[node]}"
                yield Problem(place, f"{message}; allowed: {joins[node] + 1} or later")
        node = row.get(_STAYING.get(row["kind"], ""))
        if node in ends and row["round"] >= ends[node]:
            message = f"{called}, and {overlay.names[node]!r} leaves or is removed in round {ends[node]}"
            yield Problem(place, f"{message}; allowed: an earlier round")


def _bundles(settings: Any, overlay: Overlay) -> list[Sequence[str]]:  # noqa: ANN401
    """Returns the names of the repositories of each bundle."""
    servers = _servers(overlay)
    if not settings.bundles:
        return [servers[: settings.bundle_size]]
    return [servers if bundle.repositories is None else bundle.repositories for bundle in settings.bundles]


def _members(settings: Any, overlay: Overlay) -> list[str]:  # noqa: ANN401
    """Returns the names of the repositories that serve any topic at some time."""
    named = {name for names in _bundles(settings, overlay) for name in names}
    return [name for name in _servers(overlay) if name in named]


def _unserved(settings: Any, overlay: Overlay, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    """Yields a problem for each topic that no repository serves in round 0."""
    calls, given = workload.other_call.to_pylist(), settings.model_dump()
    later = {overlay.names[row["node_id"]] for row in calls if row["kind"] == "join"}
    used = [
        *topics_of(workload.subscription["predicate"], is_alone=False).to_pylist(),
        *workload.publication["topic"].to_pylist(),
        *(row["topic"] for row in calls if row["kind"] in ("register", "deregister")),
    ]
    for topic in sorted({topic or "" for topic in used}):
        if not bundle_of(topic, given, _servers(overlay)) - later:
            message = f"no repository serves topic {topic!r} from the start"
            allowed = "allowed: a bundle for it, with a repository that does not join later"
            yield Problem(("protocol", "bundles"), f"{message}; {allowed}")


def _unheard(settings: Any, overlay: Overlay) -> Iterator[Problem]:  # noqa: ANN401
    """Yields a problem if members count as down between two of their gossip messages.

    For example, a leaving repository waits for heard members in rounds that may all be in these intervals (rule P26).
    """
    waited, gossip = settings.assist_rounds, settings.gossip_rounds
    if waited < gossip and any(len(names) > 1 for names in _bundles(settings, overlay)):
        message = f"a member counts as down after T_assist = {waited} rounds, and sends gossip every T_g = {gossip}"
        allowed = f"allowed: {gossip} or more, or a lower gossip_rounds"
        yield Problem(("protocol", "assist_rounds"), f"{message} rounds; {allowed}")


def _too_distant(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields problems if a client stops waiting for an answer before the nearest repository can answer.

    This repository serves the topic to the end. The number of rounds is a lower bound for the time until an answer: the
    lowest latency of any such repository for the request, and the lowest latency for the answer.
    """
    links = zip(*(column.tolist() for column in (*overlay.directed_links, overlay.directed_rounds)), strict=True)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_weighted_edges_from(links)
    longest = {"publisher_rounds": (0, 0), "failure_rounds": (0, 0)}
    for members, clients in _clients_by_members(settings, overlay, workload, faults).items():
        one_way = [nx.multi_source_dijkstra_path_length(one, members) for one in (graph, graph.reverse()) if members]
        for node, is_publisher in clients:
            answer = int(sum(lengths[node] for lengths in one_way)), node
            for name in ("publisher_rounds", "failure_rounds") if is_publisher else ("publisher_rounds",):
                longest[name] = max(longest[name], answer)
    waits = ("publisher_rounds", "T_p (k + 1)", settings.tries + 1), ("failure_rounds", "T_fail", 1)
    for name, what, n_requests in waits:
        (rounds, node), limit = longest[name], getattr(settings, name) * n_requests
        if rounds > limit:
            message = f"{overlay.names[node]!r} waits {what} = {limit} rounds for an answer, which takes {rounds}"
            allowed = f"allowed: {-(-rounds // n_requests)} or more"
            yield Problem(("protocol", name), f"{message}; {allowed}")


def _clients_by_members(
    settings: Any,  # noqa: ANN401
    overlay: Overlay,
    workload: Workload,
    faults: Faults,
) -> dict[frozenset[int], set[tuple[int, bool]]]:
    """Maps each set of repositories to the clients of its topics, each with whether the client publishes.

    Repositories that leave, are removed or crash permanently are excluded, unless no other repository serves the topic.
    """
    calls, given = workload.other_call.to_pylist(), settings.model_dump()
    gone = {row["node_id"] for row in faults.crash.to_pylist() if row["end_round"] is None}
    gone |= {row["node_id"] for row in calls if row["kind"] == "leave"}
    gone |= {row["peer"] for row in calls if row["kind"] == "remove"}
    topics = topics_of(workload.subscription["predicate"], is_alone=False).to_pylist()
    used = [*zip(topics, workload.subscription["node_id"].to_pylist(), repeat(False))]
    used += zip(workload.publication["topic"].to_pylist(), workload.publication["node_id"].to_pylist(), repeat(True))
    ids = {name: node for node, name in enumerate(overlay.names)}
    serving, found = dict[str | None, frozenset[int]](), defaultdict[frozenset[int], set[tuple[int, bool]]](set)
    for topic, node, is_publisher in used:
        if topic not in serving:
            members = frozenset(ids[name] for name in bundle_of(topic or "", given, _servers(overlay)))
            serving[topic] = members - gone or members
        found[serving[topic]].add((node, is_publisher))
    return found


_SQL, _WAITS = (sql_files(f"pipelines.protocols.repository.{folder}") for folder in ("audits", "waits"))
_RELATIONS = (
    "ordered_delivery", "placed_delivery", "acknowledged_number", "acknowledged_seq",
    "announced_message", "gossip_entry",
)  # fmt: skip
_HELD = ("recovery", "queued", "unstable", "slot", "expected", "buffered")
PROTOCOL = Protocol(
    name="repository",
    summary="publish/subscribe with storage: repositories number, store and recover publications",
    settings=RepositorySettings,
    program=Repository,
    audits=sql_audits("pipelines.protocols.repository.audits"),
    audit_relations={name: _SQL[name] for name in _RELATIONS},
    bound=arrow_bound(sql_files(__name__)["bound"], repository_beyond),
    undecided=_SQL["undecided"],
    waits={name: _WAITS[name] for name in _HELD},
    waited=_WAITS["waited"],
    confirms=True,
    confirms_delivery=False,
    variants=({}, {"bundle_size": 1}, {"bundle_size": 2}, {"baseline": True}),
    draws=False,
    application=("Message", "P2R-Order", "R2S*-Persistent"),
    acknowledgement=("R2P-ACK", "S2R-ACK", "R2S-Sync", "Gossip-ACK"),
    recovery=(
        "P2R-Retransmit", "P2R-Dropped", "P2R-Recovery", "R2P-NAK", "R2P-Recovery", "R2S-Retransmit", "R2S-Rectify",
        "S2R-NAK", "S2R-Recovery", "R2R-NAK", "R2R-Retransmit", "R2R-Assist", "R2R-Recovery", "Broker-Up",
    ),
    views="pipelines.protocols.repository.views",
    check=problems,
    maintenance=(
        "Gossip-ACK", "Gossip-LEAVE", "C2R-Probe", "R2C-Probe", "P2R-Dropped", "P2R-Recovery", "P2R-Order", "R2P-ACK",
        "R2P-NAK", "S2R-Recovery", "R2S-Rectify", "R2R-NAK", "R2R-Assist", "R2R-Recovery", "R2C-Migrate", "Refuse",
    ),
    servers="repository",
    calls=("steer", "register", "deregister", "join", "leave", "remove"),
)  # fmt: skip
