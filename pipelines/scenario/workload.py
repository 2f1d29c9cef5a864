"""The ``workload`` part of a scenario: subscriptions, publications, and other calls."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, Tag, field_validator, model_validator

from pipelines.contract.predicate import parse_predicates
from pipelines.contract.settings import (
    MAX_NODES,
    ORDERED,
    NodeName,
    Nodes,
    Number,
    Positive,
    Round,
    Scalar,
    Share,
    Strict,
    Topic,
    by_form,
    by_name,
    nodes_form,
    repetition_problems,
)
from pipelines.errors import Problem, WorkloadError
from pipelines.scenario.times import Timed, TimedSpan
from pipelines.scenario.workload_files import PublicationFile, SubscriptionFile

MAX_TOPICS = 10_000_000
Rounds = Annotated[tuple[Round, Round], ORDERED]
Key = Annotated[str, Field(min_length=1, max_length=1000)]
Guarantee = Literal["eventual", "causal", "total"]
Zipf = Annotated[float, Field(ge=0.0, le=10.0, strict=True, description="exponent of the popularity; 0 is uniform")]


class _Call(Timed):
    at: NodeName = Field(description="the node that calls")
    round: Round = Field(description="the round of the call")


class JoinCallSpec(_Call):
    """A server joins its bundle."""

    kind: Literal["join"] = Field(description="what is called")


class LeaveCallSpec(_Call):
    """A server leaves, as soon as other servers hold all that it stores."""

    kind: Literal["leave"] = Field(description="what is called")


class RemoveCallSpec(_Call):
    """A server removes a dead server from the members, as if that had left."""

    kind: Literal["remove"] = Field(description="what is called")
    peer: NodeName = Field(description="the server that is dead")


class _OnTopic(_Call):
    topic: Topic | None = Field(None, description="the topic; default: the topic without a name")
    peer: NodeName = Field(description="the other node that the call is about")


class SteerCallSpec(_OnTopic):
    """A client changes its server."""

    kind: Literal["steer"] = Field(description="what is called")


class RegisterCallSpec(_OnTopic):
    """The owner of a topic authorises a client."""

    kind: Literal["register"] = Field(description="what is called")
    role: Literal["publisher", "subscriber"] = Field(description="what the client may be")


class DeregisterCallSpec(_OnTopic):
    """The owner of a topic withdraws the authorisation of a client."""

    kind: Literal["deregister"] = Field(description="what is called")
    role: Literal["publisher", "subscriber"] = Field(description="what the client was")


OtherCall: TypeAlias = Annotated[
    Annotated[JoinCallSpec, Tag("<join>")]
    | Annotated[LeaveCallSpec, Tag("<leave>")]
    | Annotated[RemoveCallSpec, Tag("<remove>")]
    | Annotated[SteerCallSpec, Tag("<steer>")]
    | Annotated[RegisterCallSpec, Tag("<register>")]
    | Annotated[DeregisterCallSpec, Tag("<deregister>")],
    by_name("kind"),
]
OTHER_CALLS = (JoinCallSpec, LeaveCallSpec, RemoveCallSpec, SteerCallSpec, RegisterCallSpec, DeregisterCallSpec)
"""The models of `OtherCall`."""


class ListedSubscription(TimedSpan):
    """One subscription of a node, by topic, by content, or both."""

    at: NodeName = Field(description="the node that calls")
    round: Round = Field(0, description="the round of the call")
    topic: Topic | None = Field(None, description="short for: topic = '...'")
    where: Annotated[str, Field(max_length=100_000)] | None = Field(
        None, description="attribute op value, joined by and; ops = != < <= > >= prefix suffix contains filter"
    )
    until: Round | None = Field(
        None, description="the round of its unsubscribe call; without it the subscription stays"
    )

    @field_validator("where")
    @classmethod
    def _where_reads(cls, where: str | None) -> str | None:
        if where is not None and where.strip():
            parse_predicates(None, where)
        return where

    @model_validator(mode="after")
    def _is_one(self) -> ListedSubscription:
        parse_predicates(self.topic, self.where)
        if self.until is not None and self.until <= self.round:
            raise WorkloadError(
                Problem(
                    ("until",),
                    f"until is {self.until}, not after round {self.round}; allowed: {self.round + 1} or later",
                )
            )
        return self


class ListedPublication(Timed):
    """One publication of a node."""

    at: NodeName = Field(description="the node that calls")
    round: Round = Field(0, description="the round of the call")
    topic: Topic | None = Field(None, description="attribute topic of the publication")
    content: dict[str, Scalar] = Field(default_factory=dict, description="attribute → value")
    guarantee: Guarantee | None = Field(
        None, description="the order it is delivered in, where the protocol has several"
    )
    keys: list[Key] = Field(default_factory=list, description="key items: what its order is about")

    @model_validator(mode="after")
    def _keys_once(self) -> ListedPublication:
        problems = list(repetition_problems(("keys",), self.keys))
        if problems:
            raise WorkloadError(*problems)
        return self

    @model_validator(mode="after")
    def _says_something(self) -> ListedPublication:
        if self.topic is None and "content" not in self.model_fields_set:
            message = "the publication has neither topic nor content, so it satisfies no subscription; give one of them"
            raise WorkloadError(Problem((), message))
        return self

    @model_validator(mode="after")
    def _one_topic(self) -> ListedPublication:
        if "topic" in self.content:
            raise WorkloadError(
                Problem(
                    ("content", "topic"),
                    "the content has an attribute 'topic'; write topic: beside at: and round: instead",
                )
            )
        return self


class Join(Timed):
    """A node that joins the overlay during the run; it has no link before."""

    node: NodeName = Field(description="the node that joins")
    to: NodeName = Field(description="the join point; the link between the two is in the overlay")
    round: Round = Field(description="the round of the join call")


class Move(Timed):
    """An application that moves: it unsubscribes at its node and repeats its subscriptions at another one."""

    at: NodeName = Field(description="the node that it leaves")
    to: NodeName = Field(description="the node that it goes to")
    round: Round = Field(description="the round of its unsubscribe calls")
    away: Round = Field(1, description="rounds from the unsubscribe calls to the subscribe calls at the other node")

    @model_validator(mode="after")
    def _goes(self) -> Move:
        if self.to == self.at:
            message = f"{self.at} moves to itself; name another node, or leave the move out"
            raise WorkloadError(Problem(("to",), message))
        return self


class GeneratedJoins(Strict):
    """Brokers that join one after the other: drawn leaves of the overlay, then leaves of the remainder."""

    count: Annotated[int, Field(ge=1, le=MAX_NODES, strict=True)] = Field(description="exact number of joins")
    nodes: Nodes = Field("all", description="who may join: names, a number of nodes (drawn), all, leaves, or brokers")
    rounds: Rounds = Field(description="first and last round of a join call, drawn; no two join in one round")


class JoinGenerator(Strict):
    """Joins made from the seed."""

    generate: GeneratedJoins


class _GeneratedSubscriptions(Strict):
    nodes: Nodes = Field(
        "all", description="who subscribes: names, a number of nodes (drawn), all, leaves, brokers, or clients"
    )
    per_node: Annotated[int, Field(ge=0, le=100_000, strict=True)] = Field(
        1, description="subscriptions of each of them"
    )
    rounds: Rounds = Field((0, 0), description="first and last round of subscribe calls, drawn")
    lifetime: Rounds | None = Field(None, description="rounds until a subscription ends, drawn; without it: it stays")


class _GeneratedPublications(Strict):
    nodes: Nodes = Field(
        1, description="who publishes: names, a number of nodes (drawn), all, leaves, brokers, or clients"
    )
    rounds: Rounds = Field((1, 10), description="first and last round of publications")
    rate: Positive = Field(
        1.0, description="publications of each of them a round; below 1, or the rest above, is a chance"
    )


class _Topics(Strict):
    topics: Annotated[int, Field(ge=1, le=MAX_TOPICS, strict=True)] = Field(10, description="number of topics")
    levels: Annotated[list[Annotated[int, Field(ge=1, le=MAX_TOPICS, strict=True)]], Field(min_length=2)] | None = (
        Field(
            None, description="in place of topics: names in each level; [3, 4] are the 12 topics topic1/1 to topic3/4"
        )
    )
    zipf: Zipf = 1.0

    @property
    def n_topics(self) -> int:
        """The number of topics."""
        return self.topics if self.levels is None else prod(self.levels)

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.levels is not None and "topics" in self.model_fields_set:
            message = "levels and topics are given; allowed: one of the two, so leave one out"
            raise WorkloadError(Problem(("levels",), message))
        if self.n_topics > MAX_TOPICS:
            message = f"the levels make {self.n_topics:,} topics; allowed: at most {MAX_TOPICS:,}"
            raise WorkloadError(Problem(("levels",), message))
        return self


class AttributeRange(Strict):
    """One numeric attribute of generated content, uniform from low to high."""

    low: Number = Field(default=0.0, description="lowest value")
    high: Number = Field(default=1000.0, description="highest value")

    @model_validator(mode="after")
    def _ordered(self) -> AttributeRange:
        if self.low > self.high:
            raise WorkloadError(
                Problem(("low",), f"low is {self.low:g}, above high, {self.high:g}; allowed: low <= high")
            )
        return self


def _two_attributes() -> dict[str, AttributeRange]:
    return {"a": AttributeRange(), "b": AttributeRange()}


class _Content(Strict):
    classes: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(20, description="classes, used as topics")
    zipf: Zipf = 1.0
    attributes: dict[str, AttributeRange] = Field(
        default_factory=_two_attributes, min_length=1, description="attribute → the range of its values"
    )


class _Symbols(Strict):
    symbols: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(20, description="stocks, attribute `symbol`")
    zipf: Zipf = 1.0


class TopicSubscriptions(_Topics, _GeneratedSubscriptions):
    """Subscriptions to topics drawn by Zipf popularity, without repetition at one node."""

    kind: Literal["topics"] = Field(description="what is drawn")

    wildcards: Share = Field(
        0.0,
        description="levels: share of subscriptions to filters of MQTT, half with #, half with +",
    )

    @model_validator(mode="after")
    def _enough_topics(self) -> TopicSubscriptions:
        if self.per_node > self.n_topics:
            message = (
                f"{self.per_node} topics a node cannot be drawn from {self.n_topics}; allowed: at most {self.n_topics}"
            )
            raise WorkloadError(Problem(("per_node",), message))
        if self.wildcards and self.levels is None:
            message = "wildcards is given without levels; add them, or leave wildcards out"
            raise WorkloadError(Problem(("wildcards",), message))
        return self


class ContentSubscriptions(_Content, _GeneratedSubscriptions):
    """Subscriptions to a class and to a random interval of each attribute."""

    kind: Literal["content"] = Field(description="what is drawn")
    selectivity: Annotated[float, Field(gt=0.0, le=1.0, strict=True)] = Field(
        0.5, description="length of an interval ÷ the whole range"
    )


class QuoteSubscriptions(_Symbols, _GeneratedSubscriptions):
    """Subscriptions to stock quotes: symbol, price above, volume above."""

    kind: Literal["quotes"] = Field(description="what is drawn")


class TopicPublications(_Topics, _GeneratedPublications):
    """Publications on topics drawn by Zipf popularity."""

    kind: Literal["topics"] = Field(description="what is drawn")


class ContentPublications(_Content, _GeneratedPublications):
    """Publications of a class with uniform attribute values."""

    kind: Literal["content"] = Field(description="what is drawn")


class QuotePublications(_Symbols, _GeneratedPublications):
    """Stock quotes (symbol, price, volume): symbols by popularity, prices as a random walk."""

    kind: Literal["quotes"] = Field(description="what is drawn")
    volatility: Annotated[float, Field(gt=0.0, le=1.0, strict=True)] = Field(
        0.02, description="volatility of the price, from quote to quote"
    )


class BankPublications(Strict):
    """Operations on the accounts of a bank: getBalance eventual, deposit causal, the others in total order."""

    kind: Literal["bank"] = Field(description="what is drawn")
    nodes: Nodes = Field("clients", description="who operates: names, a number of nodes (drawn), all, clients, ...")
    topic: Topic = Field("bank", description="topic of all operations; each operates on all accounts")
    round: Round = Field(description="the first round of an operation")
    operations: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        100, description="operations of each node"
    )
    interval: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        5, description="rounds from an operation to the next of the same node"
    )
    accounts: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        100, description="account1, account2, ...; with a single one transfer is withdraw"
    )
    eventual: Share = Field(0.4, description="share of getBalance")
    causal: Share = Field(
        0.3, description="share of deposit; the rest is withdraw, transfer and applyInterest in equal parts"
    )
    most: Annotated[int, Field(ge=1, le=10**12, strict=True)] = Field(10_000, description="largest amount, in cents")
    interest: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        5, description="interest rate of applyInterest, per thousand"
    )

    @property
    def rounds(self) -> tuple[int, int]:
        """First and last round of operations."""
        return self.round, self.round + self.operations * self.interval - 1

    @model_validator(mode="after")
    def _shares(self) -> BankPublications:
        if self.eventual + self.causal > 1.0:
            message = f"eventual and causal make {self.eventual + self.causal:g}; allowed: together at most 1"
            raise WorkloadError(Problem(("causal",), message))
        return self


class SubscriptionFileSource(Strict):
    """Subscriptions read from a file."""

    file: SubscriptionFile


class PublicationFileSource(Strict):
    """Publications read from a file."""

    file: PublicationFile


class SubscriptionGenerator(Strict):
    """Subscriptions made from the seed."""

    generate: Annotated[
        Annotated[TopicSubscriptions, Tag("<topics>")]
        | Annotated[ContentSubscriptions, Tag("<content>")]
        | Annotated[QuoteSubscriptions, Tag("<quotes>")],
        by_name("kind"),
    ] = Field(description="what is drawn, and how often")


class PublicationGenerator(Strict):
    """Publications made from the seed."""

    generate: Annotated[
        Annotated[TopicPublications, Tag("<topics>")]
        | Annotated[ContentPublications, Tag("<content>")]
        | Annotated[QuotePublications, Tag("<quotes>")]
        | Annotated[BankPublications, Tag("<bank>")],
        by_name("kind"),
    ] = Field(description="what is drawn, and how often")


class WorkloadSpec(Strict):
    """Who subscribes to what, who publishes what, who joins or calls anything else, and when."""

    subscriptions: Annotated[
        Annotated[list[ListedSubscription], Tag("<list>")]
        | Annotated[SubscriptionFileSource, Tag("<file>")]
        | Annotated[SubscriptionGenerator, Tag("<generate>")],
        by_form(nodes_form),
    ] = Field(default_factory=list, description="a list, a file, or a generator")
    publications: Annotated[
        Annotated[list[ListedPublication], Tag("<list>")]
        | Annotated[PublicationFileSource, Tag("<file>")]
        | Annotated[PublicationGenerator, Tag("<generate>")],
        by_form(nodes_form),
    ] = Field(default_factory=list, description="a list, a file, or a generator")
    topics: Literal["exact", "mqtt"] = Field(
        default="exact", description="mqtt: + and # in topics of subscriptions are the wildcards of MQTT; exact: names"
    )
    joins: Annotated[
        Annotated[list[Join], Tag("<list>")] | Annotated[JoinGenerator, Tag("<generate>")], by_form(nodes_form)
    ] = Field(default_factory=list, description="nodes that join the overlay during a run: a list, or a generator")
    moves: list[Move] = Field(
        default_factory=list, description="applications that take their subscriptions to another node, in any order"
    )
    calls: list[OtherCall] = Field(default_factory=list, description="other calls, for protocols that take some")

    @model_validator(mode="after")
    def _filters(self) -> Self:
        made = self.subscriptions.generate if isinstance(self.subscriptions, SubscriptionGenerator) else None
        if isinstance(made, TopicSubscriptions) and made.wildcards and self.topics != "mqtt":
            message = "wildcards need topics: mqtt beside subscriptions; write that, or leave wildcards out"
            raise WorkloadError(Problem(("subscriptions", "generate", "wildcards"), message))
        return self
