"""Protocol ``skipring``: the self-stabilizing supervised skip ring (Feldmann, Kolb, Scheideler, Strothmann)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.contract.audit import Evidence, arrow_rows, sql_audits, sql_files
from pipelines.contract.predicate import topics_of
from pipelines.contract.protocol import Ask, ComputedView, Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Count, Natural, Round, Strict
from pipelines.errors import Problem, listed
from udfs.skipring import replay
from udfs.skipring.legitimate import KINDS
from udfs.skipring.program import SkipRing
from udfs.skipring.start import EMPTY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SkipRingSettings(Strict):
    """Settings of protocol ``skipring``."""

    name: Literal["skipring"] = Field("skipring", description="selects this protocol")
    start: Literal[
        "empty", "legitimate", "arbitrary", "labels", "edges", "shortcuts", "database", "messages", "tries"
    ] = Field(
        "empty",
        description="initial state; empty: nodes join by calls; legitimate: the subscribers of the workload form the "
        "skip ring; arbitrary: all parts of a legitimate state are corrupted; any other value: only this "
        "part is corrupted",
    )
    start_until: Round | None = Field(
        None,
        description="if start is not empty: nodes that subscribe up to this round are members of the initial state; "
        "default: all subscribers",
    )
    start_publications: Count = Field(
        0, description="if start is not empty: number of publications of each topic in the initial state"
    )
    timeout_interval: Natural = Field(10, description="rounds from one Timeout of a node to the next")
    min_delay: Natural = Field(1, description="minimum delay of a message, in rounds")
    max_delay: Natural = Field(
        10, description="maximum delay of a message, in rounds; the delay of each message is random"
    )
    silence_intervals: Natural = Field(
        8,
        description="a subscriber requests its configuration if a ring neighbour has not introduced itself for more "
        "than this number of Timeouts",
    )
    detection_rounds: Natural = Field(
        5, description="rounds from a crash of a subscriber to its report to the supervisors"
    )
    key_bits: Annotated[int, Field(ge=8, le=256, strict=True)] = Field(
        64,
        description="number of bits of a publication's key (a prefix of SHA-256 of publisher, number and topic); too "
        "few bits for the number of publications are an error",
    )
    hash_bits: Annotated[int, Field(ge=32, le=256, multiple_of=4, strict=True)] = Field(
        128, description="number of bits of a hash in a trie (a prefix of SHA-256)"
    )
    max_label_bits: Annotated[int, Field(ge=4, le=61, strict=True)] = Field(
        20, description="maximum number of bits of a label in a corrupted initial state"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_delay > self.max_delay:
            raise ValueError(
                f"min_delay {self.min_delay} is above max_delay {self.max_delay}; allowed: min_delay <= max_delay"
            )
        longest = -(-self.max_delay // self.timeout_interval)
        if self.silence_intervals <= longest:
            raise ValueError(
                f"silence_intervals is {self.silence_intervals}, and a message may take {longest} intervals;"
                f" allowed: more than {longest}"
            )
        return self


_NEVER = 1 << 62
_KEY_ODDS = 1_000_000
"""`key_bits` is large enough if fewer than one in this number of runs has two publications with equal keys.

The estimate is the birthday bound.
"""
_WORKLOAD = {"subscriptions": "subscription", "publications": "publication"}


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields the reasons why the protocol rejects a scenario.

    Only subscribers may issue calls and crash. Subscriptions and publications must name a topic. Setting ``key_bits``
    must be large enough for the publications.
    """
    subscribers = listed(overlay.names[overlay.n_brokers :], 5)
    for part, table in _WORKLOAD.items():
        for index, node in enumerate(getattr(workload, table)["node_id"].to_pylist()):
            if node < overlay.n_brokers:
                message = f"{overlay.names[node]!r} is a supervisor; allowed: a subscriber ({subscribers})"
                yield Problem(("workload", part, index, "at"), message)
    yield from _subscription_problems(settings, workload)
    yield from _publication_problems(overlay, workload)
    yield from _key_problems(settings, workload)
    yield from _crash_problems(overlay, faults)


def _subscription_problems(settings: Any, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    """Yields a problem for each invalid subscription.

    A subscription must name a topic. If it is part of the initial state, it must be issued in round 0 (rule K20).
    """
    for index, row in enumerate(_subscriptions(workload)):
        if row["topic"] is None:
            message = (
                f"{row['predicate']} is not a topic alone; allowed with protocol skipring: topic: a name, no where:"
            )
            yield Problem(("workload", "subscriptions", index), message)
        is_early = settings.start != EMPTY and (settings.start_until is None or row["round"] <= settings.start_until)
        if is_early and row["round"]:
            message = f"it is part of the start (start: {settings.start}) and issued in round {row['round']}"
            allowed = "round 0, or a round after protocol.start_until"
            yield Problem(("workload", "subscriptions", index), f"{message}; allowed: {allowed}")


def _publication_problems(overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    """Yields a problem for each publication by a node that is not subscribed to the topic.

    The node has no neighbours in the topic's ring to which it could send the publication (rule K17).
    """
    standing: dict[tuple[int, str | None], list[tuple[int, int]]] = {}
    for row in _subscriptions(workload):
        end = _NEVER if row["end_round"] is None else row["end_round"]
        standing.setdefault((row["node_id"], row["topic"]), []).append((row["round"], end))
    for index, row in enumerate(workload.publication.select(["node_id", "round", "topic"]).to_pylist()):
        node, round_, topic = row.values()
        if topic is None:
            yield Problem(("workload", "publications", index), "a publication of protocol skipring needs a topic:")
        elif not any(first <= round_ < end for first, end in standing.get((node, topic), ())):
            message = f"{overlay.names[node]!r} publishes in round {round_} to {topic!r}, and has not subscribed to it"
            yield Problem(("workload", "publications", index), f"{message}; allowed: a subscriber of the topic")


def _key_problems(settings: Any, workload: Workload) -> Iterator[Problem]:  # noqa: ANN401
    """Yields a problem if `key_bits` is too small: of two publications with equal keys, one is lost (rule K11)."""
    counts = Counter(workload.publication["topic"].to_pylist())
    if settings.start != EMPTY:
        topics = {row["topic"] for row in _subscriptions(workload)}
        counts.update(dict.fromkeys(topics, settings.start_publications))
    n_pairs = sum(n * (n - 1) // 2 for n in counts.values())
    least = (n_pairs * _KEY_ODDS - 1).bit_length() if n_pairs else 0
    if settings.key_bits < least:
        message = (
            f"{settings.key_bits} bits, and {sum(counts.values())} publications on {len(counts)} topics: two"
            f" publications of a topic may have equal keys, and one of them is then lost; allowed: {least} or more"
        )
        yield Problem(("protocol", "key_bits"), message)


def _subscriptions(workload: Workload) -> Iterator[dict[str, Any]]:
    topics = topics_of(workload.subscription["predicate"]).to_pylist()
    for row, topic in zip(workload.subscription.to_pylist(), topics, strict=True):
        yield {**row, "topic": topic}


def _crash_problems(overlay: Overlay, faults: Faults) -> Iterator[Problem]:
    """Yields a problem for each crash of a supervisor, and for each recovery of a subscriber (rule K8)."""
    for row in faults.crash.to_pylist():
        name = overlay.names[row["node_id"]]
        if row["node_id"] < overlay.n_brokers:
            yield Problem(("faults",), f"{name!r} is a supervisor; with protocol skipring only subscribers crash")
        elif row["end_round"] is not None:
            message = f"{name!r} recovers in round {row['end_round']}; with protocol skipring subscribers crash"
            yield Problem(("faults",), f"{message} for good: leave until: out")


_KINDS = ", ".join(f"'{kind}'" for kind in KINDS)
HISTORY = sql_files(__name__)["history"].format(kinds=_KINDS)


def convergence(ask: Ask) -> DataFrame:
    """Returns the rounds in which topics became legitimate after each disturbance (rule K19).

    Returns:
        One row per run, topic and disturbance: columns `replay.CONVERGENCE`, and ``name``, the name of the node.
    """
    columns = [name for name, _ in replay.CONVERGENCE]
    columns.insert(columns.index("node_id") + 1, "name")
    named = ask("select run_id, node_id, name from node")
    played = arrow_rows(ask(HISTORY), replay.convergence, replay.CONVERGENCE)
    return played.join(named, ["run_id", "node_id"], "left").select(columns)


def progress(ask: Ask) -> DataFrame:
    """Returns the measures of topics (`replay.PROGRESS`): a row for each topic and round that changed its state."""
    return arrow_rows(ask(HISTORY), replay.progress, replay.PROGRESS)


def broken_topic(evidence: Evidence) -> DataFrame:
    """Returns the violations of guarantees by topics (sections 1.1 and 2.1, rule K9), with columns `replay.BROKEN`.

    Audits read this relation.
    """
    return arrow_rows(evidence.reader.sql(HISTORY), replay.violations, replay.BROKEN)


_TOPIC = {"topic": "the topic", "n_subscribers": "number of subscribers of the topic that are up"}
_CONVERGENCE = ComputedView(
    """When was the ring of each topic legitimate, and did it stay legitimate?
One row per run, topic and disturbance (protocol skipring). A disturbance is the start of the run, a subscription, an
unsubscription or a crash. The view replays the tables state_configuration_change, state_database_change and
sent_message.""",
    convergence,
    {
        **_TOPIC,
        "disturbance": "index of the disturbance of the topic, from 0: the start of the run",
        "round": "round of the disturbance",
        "cause": "event that disturbs the ring: start (of the run), subscribe, unsubscribe, or crash",
        "node_id": "node that subscribed, unsubscribed or crashed; null: the cause is start",
        "n_configurations": "number of changes of explicit state (rule K18) until the next disturbance, without those "
        "at node_id",
        "explicit_round": "first round from which the explicit state of the nodes is that of the skip ring; null: no "
        "such round before the next disturbance or the end",
        "clean_round": "first round from which, in addition, no message in flight contradicts this state (rule K9); "
        "null: as for explicit_round",
        "changed_round": "first round after clean_round in which explicit state changed; null: it did not change "
        "(closure)",
        "problem": "reason why the state before the next disturbance, or at the end, is not legitimate; null: it is "
        "legitimate",
        "is_last": "whether the disturbance is the last one of the topic",
    },
)
_PROGRESS = ComputedView(
    """How many labels are wrong in each round, how many subscribers are in the database, and what is the diameter?
One row per run, topic and round in which explicit state changed (protocol skipring). The values do not change until
the round of the next row.""",
    progress,
    {
        **_TOPIC,
        "round": "round in which explicit state changed",
        "n_recorded": "number of subscribers in the database of the supervisor",
        "n_wrong_labels": "number of subscribers that have no label, or a label that differs from their label in the "
        "database",
        "max_degree": "maximum number of neighbours of a subscriber",
        "n_edges": "number of undirected edges between subscribers",
        "diameter": "maximum number of hops between two subscribers; null: two subscribers are not connected, or "
        "the topic has more than 500 subscribers and a wrong label",
    },
)
_SQL = sql_files("pipelines.protocols.skipring.audits")
_RELATIONS = (
    "endless_partition", "ring_setting", "lacking", "nowhere", "pause_span", "ring_message", "ring_state", "tuple_span",
    "topic_supervisor", "crash_report",
)  # fmt: skip
"""The relations that audits read. A relation may read the relations before it."""
PROTOCOL = Protocol(
    name="skipring",
    summary="self-stabilizing supervised skip ring: a ring for each topic, which converges from any state",
    settings=SkipRingSettings,
    program=SkipRing,
    audits=sql_audits("pipelines.protocols.skipring.audits"),
    audit_relations={**{name: _SQL[name] for name in _RELATIONS}, "broken_topic": broken_topic},
    bound=_SQL["endless_partition"],
    undecided=_SQL["undecided"],
    waits={"trie_node": _SQL["waits"]},
    made_views={"convergence": _CONVERGENCE, "convergence_round": _PROGRESS},
    application=("PublishNew",),
    recovery=("Publish", "CheckTrie", "CheckAndPublish"),
    views="pipelines.protocols.skipring.views",
    check=problems,
    maintenance=("Introduce", "IntroduceShortcut", "SetData", "GetConfiguration", "CheckTrie"),
    confirms_delivery=False,
    creates_links=True,
    edges="held_edge",
)
