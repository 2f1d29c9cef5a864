"""The models of the ``workload`` part of a scenario: subscriptions, publications, other calls, and files of calls."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator

from pipelines.contract.predicate import parse_predicates
from pipelines.contract.settings import (
    BY_FORM,
    BY_KIND,
    MAX_NODES,
    ORDERED,
    Count,
    FilePath,
    Flag,
    ListOr,
    Natural,
    NodeName,
    Nodes,
    Number,
    Positive,
    Round,
    Scalar,
    Share,
    Strict,
    Topic,
    end_problems,
    repetition_problems,
)
from pipelines.errors import Problem
from pipelines.scenario.times import Timed, TimedSpan

MAX_TOPICS = 10_000_000
Rounds = Annotated[tuple[Round, Round], ORDERED]
Key = Annotated[str, Field(min_length=1, max_length=1000)]
Guarantee = Literal["eventual", "causal", "total"]
_ZIPF = "exponent of the Zipf distribution of popularity; 0: all are equally popular"
Zipf = Annotated[float, Field(ge=0.0, le=10.0, strict=True, description=_ZIPF)]
_Topic = Annotated[int, Field(ge=1, le=MAX_TOPICS, strict=True)]
_Classes = Annotated[int, Field(ge=1, le=100_000, strict=True)]


class _Call(Timed):
    at: NodeName = Field(description="the node that calls")
    round: Round = Field(description="the round of the call")


class JoinCallSpec(_Call):
    """A server joins its bundle, a group of repositories that serve topics together."""

    kind: Literal["join"] = Field(description="selects this type of call")


class LeaveCallSpec(_Call):
    """A server leaves its bundle once other servers hold copies of all data that it stores."""

    kind: Literal["leave"] = Field(description="selects this type of call")


class RemoveCallSpec(_Call):
    """Removes a dead server from the caller's bundle, as if the dead server had issued a leave call."""

    kind: Literal["remove"] = Field(description="selects this type of call")
    peer: NodeName = Field(description="the dead server")


class _OnTopic(_Call):
    topic: Topic | None = Field(None, description="the topic; default: the topic without a name")
    peer: NodeName = Field(description="call steer: the new server; calls register and deregister: the client")


class SteerCallSpec(_OnTopic):
    """A client changes from its server to the server `peer`."""

    kind: Literal["steer"] = Field(description="selects this type of call")


class RegisterCallSpec(_OnTopic):
    """The owner of a topic authorises the client `peer` to publish or to subscribe."""

    kind: Literal["register"] = Field(description="selects this type of call")
    role: Literal["publisher", "subscriber"] = Field(description="the authorised role")


class DeregisterCallSpec(_OnTopic):
    """The owner of a topic withdraws the authorisation of the client `peer`."""

    kind: Literal["deregister"] = Field(description="selects this type of call")
    role: Literal["publisher", "subscriber"] = Field(description="the withdrawn role")


OtherCall: TypeAlias = Annotated[
    JoinCallSpec | LeaveCallSpec | RemoveCallSpec | SteerCallSpec | RegisterCallSpec | DeregisterCallSpec, BY_KIND
]


class ListedSubscription(TimedSpan):
    """A subscription of a node, by topic, by content, or by both."""

    at: NodeName = Field(description="the node that calls")
    round: Round = Field(0, description="the round of the call")
    topic: Topic | None = Field(
        None, description="the topic; an abbreviation for the comparison topic = '...' in where"
    )
    where: Annotated[str, Field(max_length=100_000)] | None = Field(
        None,
        description="the predicate: comparisons `attribute operator value`, joined by `and`; operators: = != < <= > "
        ">= prefix suffix contains filter",
    )
    until: Round | None = Field(
        None, description="the round of the unsubscribe call; default: the subscription does not end"
    )

    @field_validator("where")
    @classmethod
    def _where_reads(cls, where: str | None) -> str | None:
        if where is not None and where.strip():
            parse_predicates(None, where)
        return where

    def _problems(self) -> Iterator[Problem]:
        parse_predicates(self.topic, self.where)
        yield from end_problems(self.round, self.until)


class ListedPublication(Timed):
    """A publication of a node, with a topic, content, or both."""

    at: NodeName = Field(description="the node that calls")
    round: Round = Field(0, description="the round of the call")
    topic: Topic | None = Field(None, description="the topic; in predicates it is the attribute topic")
    content: dict[str, Scalar] = Field(default_factory=dict, description="mapping of attributes to their values")
    guarantee: Guarantee | None = Field(None, description="the order of delivery, for protocols with several orders")
    keys: list[Key] = Field(
        default_factory=list, description="key items of the publication; messages with a common key item are ordered"
    )

    def _problems(self) -> Iterator[Problem]:
        yield from (repeated := list(repetition_problems(("keys",), self.keys)))
        if not repeated and self.topic is None and "content" not in self.model_fields_set:
            message = "the publication has neither topic nor content, so it satisfies no subscription; give one of them"
            yield Problem((), message)
        if "topic" in self.content:
            message = "the content has an attribute 'topic'; write topic: beside at: and round: instead"
            yield Problem(("content", "topic"), message)


class Join(Timed):
    """A node that joins the overlay during the run; before it joins, it has no link."""

    node: NodeName = Field(description="the node that joins")
    to: NodeName = Field(
        description="the join point, that is, the node of the overlay to which the joining node gets a link"
    )
    round: Round = Field(description="the round of the join call")


class Move(Timed):
    """An application that moves: it unsubscribes at node `at` and subscribes again at node `to`."""

    at: NodeName = Field(description="the node that the application leaves")
    to: NodeName = Field(description="the node that the application moves to")
    round: Round = Field(description="the round of the unsubscribe calls at the first node")
    away: Round = Field(1, description="rounds from the unsubscribe calls to the subscribe calls at the second node")

    def _problems(self) -> Iterator[Problem]:
        if self.to == self.at:
            yield Problem(("to",), f"{self.at} moves to itself; name another node, or leave the move out")


class GeneratedJoins(Strict):
    """Randomly chosen brokers that join one at a time; each is a leaf of the overlay when it joins."""

    count: Annotated[int, Field(ge=1, le=MAX_NODES, strict=True)] = Field(description="number of joins")
    nodes: Nodes = Field(
        "all", description="nodes that may join: names, a number of randomly chosen nodes, all, leaves, or brokers"
    )
    rounds: Rounds = Field(description="first and last round of the join calls; the calls have different random rounds")


class JoinGenerator(Strict):
    """A generator of joins, instead of a list."""

    generate: GeneratedJoins = Field(description="number, nodes and rounds of the joins")


class _GeneratedSubscriptions(Strict):
    nodes: Nodes = Field(
        "all", description="subscribers: names, a number of randomly chosen nodes, all, leaves, brokers, or clients"
    )
    per_node: Annotated[int, Field(ge=0, le=100_000, strict=True)] = Field(
        1, description="number of subscriptions of each node"
    )
    rounds: Rounds = Field(
        (0, 0), description="first and last round of the subscribe calls; the round of each call is random"
    )
    lifetime: Rounds | None = Field(
        None,
        description="minimum and maximum number of rounds until a subscription ends; default: subscriptions do not end",
    )


class _GeneratedPublications(Strict):
    nodes: Nodes = Field(
        1, description="publishers: names, a number of randomly chosen nodes, all, leaves, brokers, or clients"
    )
    rounds: Rounds = Field((1, 10), description="first and last round of publications")
    rate: Positive = Field(
        1.0,
        description="mean number of publications of each node in a round; the fractional part is the probability of"
        " an additional publication",
    )


class _Topics(Strict):
    topics: _Topic = Field(10, description="number of topics")
    levels: Annotated[list[_Topic], Field(min_length=2)] | None = Field(
        None,
        description="replaces topics; number of names in each level: [3, 4] means the 12 topics topic1/1 to topic3/4",
    )
    zipf: Zipf = 1.0

    @property
    def n_topics(self) -> int:
        """The number of topics: `topics`, or the product of `levels`."""
        return self.topics if self.levels is None else prod(self.levels)

    def _problems(self) -> Iterator[Problem]:
        if self.levels is not None and "topics" in self.model_fields_set:
            yield Problem(("levels",), "levels and topics are given; allowed: one of the two, so leave one out")
        if self.n_topics > MAX_TOPICS:
            yield Problem(("levels",), f"the levels make {self.n_topics:,} topics; allowed: at most {MAX_TOPICS:,}")


class AttributeRange(Strict):
    """A numeric attribute of generated content, uniformly distributed from `low` to `high`."""

    low: Number = Field(default=0.0, description="lowest value")
    high: Number = Field(default=1000.0, description="highest value")

    def _problems(self) -> Iterator[Problem]:
        if self.low > self.high:
            yield Problem(("low",), f"low is {self.low:g}, above high, {self.high:g}; allowed: low <= high")


class _Content(Strict):
    classes: _Classes = Field(20, description="number of classes; a class is a topic")
    zipf: Zipf = 1.0
    attributes: dict[str, AttributeRange] = Field(
        default_factory=lambda: {"a": AttributeRange(), "b": AttributeRange()},
        min_length=1,
        description="mapping of each attribute to the range of its values",
    )


class _Symbols(Strict):
    symbols: _Classes = Field(20, description="number of stocks")
    zipf: Zipf = 1.0


class TopicSubscriptions(_Topics, _GeneratedSubscriptions):
    """Subscriptions to random topics with Zipf popularity; no node subscribes to a topic twice."""

    kind: Literal["topics"] = Field(description="selects this generator")
    wildcards: Share = Field(
        0.0,
        description="levels: proportion of subscriptions that have an MQTT filter; half of these filters contain #,"
        " half contain +",
    )

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.per_node > self.n_topics:
            message = f"{self.per_node} topics a node cannot be drawn from {self.n_topics}"
            yield Problem(("per_node",), f"{message}; allowed: at most {self.n_topics}")
        if self.wildcards and self.levels is None:
            yield Problem(("wildcards",), "wildcards is given without levels; add them, or leave wildcards out")


class ContentSubscriptions(_Content, _GeneratedSubscriptions):
    """Subscriptions to a randomly chosen class and to a random interval of each attribute."""

    kind: Literal["content"] = Field(description="selects this generator")
    selectivity: Annotated[float, Field(gt=0.0, le=1.0, strict=True)] = Field(
        0.5, description="length of each interval divided by the length of the attribute's range"
    )


class QuoteSubscriptions(_Symbols, _GeneratedSubscriptions):
    """Subscriptions to one stock each: to its quotes with a price and a volume above random limits."""

    kind: Literal["quotes"] = Field(description="selects this generator")


class TopicPublications(_Topics, _GeneratedPublications):
    """Publications on random topics with Zipf popularity."""

    kind: Literal["topics"] = Field(description="selects this generator")


class ContentPublications(_Content, _GeneratedPublications):
    """Publications of a randomly chosen class, with uniformly distributed attribute values."""

    kind: Literal["content"] = Field(description="selects this generator")


class QuotePublications(_Symbols, _GeneratedPublications):
    """Stock quotes (symbol, price, volume): random symbols with Zipf popularity; prices are random walks."""

    kind: Literal["quotes"] = Field(description="selects this generator")
    volatility: Annotated[float, Field(gt=0.0, le=1.0, strict=True)] = Field(
        0.02, description="standard deviation of the logarithm of the price between two quotes of a stock"
    )


class BankPublications(Strict):
    """Operations on bank accounts: getBalance in eventual order, deposit in causal order, the rest in total order."""

    kind: Literal["bank"] = Field(description="selects this generator")
    nodes: Nodes = Field(
        "clients", description="publishers: names, a number of randomly chosen nodes, all, leaves, brokers, or clients"
    )
    topic: Topic = Field("bank", description="the topic of all operations")
    round: Round = Field(description="the first round of the operations")
    operations: Natural = Field(100, description="number of operations of each node")
    interval: Natural = Field(5, description="rounds between two operations of a node")
    accounts: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        100, description="number of accounts (account1, account2, ...); with one account, withdraw replaces transfer"
    )
    eventual: Share = Field(0.4, description="proportion of getBalance among the operations")
    causal: Share = Field(
        0.3,
        description="proportion of deposit; the remaining operations are in equal parts withdraw, transfer and "
        "applyInterest",
    )
    most: Annotated[int, Field(ge=1, le=10**12, strict=True)] = Field(10_000, description="maximum amount, in cents")
    interest: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        5, description="interest rate of applyInterest, per thousand"
    )

    @property
    def rounds(self) -> tuple[int, int]:
        """First and last round of operations."""
        return self.round, self.round + self.operations * self.interval - 1

    def _problems(self) -> Iterator[Problem]:
        if (total := self.eventual + self.causal) > 1.0:
            yield Problem(("causal",), f"eventual and causal make {total:g}; allowed: together at most 1")


_FORMAT = (
    "csv: any delimiter; tsv: tabs, no quotes; jsonl: a JSON object per line; default: determined by the file's name"
)
_NODE = "column of the calling node: its name, or, if nodes is set, a value that is mapped to one of these nodes"
ColumnOrRound = Annotated[Annotated[str, Field(min_length=1)] | Round, BY_FORM]


class _RowFile(Strict):
    path: FilePath = Field(description="the file, beside the scenario or in the installed data")
    at_ms: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="replaces round; column of the time: ISO 8601 timestamps, or numbers; numbers count from 1970 if "
        "this dates all of them after July 1998, else from the start of the run",
    )
    unit: Literal["s", "ms", "us", "ns"] | None = Field(
        None,
        description="unit of the numbers in columns at_ms and until_ms; default: ms from the start of the run, or the "
        "detected unit of numbers from 1970",
    )
    nodes: Nodes | None = Field(
        None,
        description="the nodes to which the values of column `node` are mapped; default: the values are names of nodes",
    )
    limit: Count | None = Field(None, description="read only this number of rows, from the first row on")

    def _problems(self) -> Iterator[Problem]:
        for key, other in (("at_ms", "round"), ("until_ms", "until")):
            is_given = other in self.model_fields_set and getattr(self, other) is not None
            if getattr(self, key, None) is not None and is_given:
                yield Problem((key,), f"{key} and {other} are given; allowed: one of the two, so leave one out")
        if self.unit is not None and self.at_ms is None and getattr(self, "until_ms", None) is None:
            yield Problem(("unit",), "unit is given without at_ms; add that, or leave unit out")


class SubscriptionFile(_RowFile):
    """Subscriptions from CSV, JSON lines or Parquet, one subscription per row (e.g. Last.fm ``user_artists.dat``)."""

    format: Literal["csv", "tsv", "jsonl", "parquet"] | None = Field(None, description=_FORMAT)
    node: str = Field("node", description=_NODE)
    topic: str | None = Field(None, description="column of the topic")
    where: str | None = Field(None, description="column of the predicate")
    round: ColumnOrRound = Field(0, description="column of the round, or one round for all rows")
    until: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="column of the round of the unsubscribe call; empty: the subscription does not end"
    )
    until_ms: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="replaces until; column of the time of the unsubscribe call, with values as in at_ms"
    )


class PublicationFile(_RowFile):
    """Publications from CSV, JSON lines, Parquet, or PADRES quotes (``[class,'STOCK'],[symbol,'A'],...``)."""

    format: Literal["csv", "tsv", "jsonl", "parquet", "padres"] | None = Field(None, description=_FORMAT)
    node: str | None = Field(None, description=_NODE)
    topic: str | None = Field(None, description="column of the topic; format padres: attribute of the topic")
    content: list[str] | None = Field(None, description="columns of the content; default: all other columns")
    round: ColumnOrRound = Field(
        0,
        description="column of the round; or a number, the first round: each round gets the next `per_round` rows of "
        "the file",
    )
    per_round: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        1, description="number of rows that each round gets, if round is a number"
    )
    reverse: Flag = Field(
        False, description="publish the last row of the file first; for files whose first row is the newest (PADRES)"
    )


class SubscriptionFileSource(Strict):
    """Subscriptions from a file."""

    file: SubscriptionFile = Field(description="the file, and the columns to read")


class PublicationFileSource(Strict):
    """Publications from a file."""

    file: PublicationFile = Field(description="the file, and the columns to read")


class SubscriptionGenerator(Strict):
    """Subscriptions that are generated from the seed."""

    generate: Annotated[TopicSubscriptions | ContentSubscriptions | QuoteSubscriptions, BY_KIND] = Field(
        description="the generator and its settings"
    )


class PublicationGenerator(Strict):
    """Publications that are generated from the seed."""

    generate: Annotated[TopicPublications | ContentPublications | QuotePublications | BankPublications, BY_KIND] = (
        Field(description="the generator and its settings")
    )


class WorkloadSpec(Strict):
    """The calls of applications: subscriptions, publications, joins, moves and other calls, each with a round."""

    subscriptions: Annotated[list[ListedSubscription] | SubscriptionFileSource | SubscriptionGenerator, BY_FORM] = (
        Field(default_factory=list, description="a list of subscriptions, a file, or a generator")
    )
    publications: Annotated[list[ListedPublication] | PublicationFileSource | PublicationGenerator, BY_FORM] = Field(
        default_factory=list, description="a list of publications, a file, or a generator"
    )
    topics: Literal["exact", "mqtt"] = Field(
        default="exact", description="mqtt: + and # in topics of subscriptions are MQTT wildcards; exact: plain names"
    )
    joins: ListOr[Join, JoinGenerator] = Field(
        default_factory=list, description="a list of nodes that join the overlay during a run, or a generator"
    )
    moves: list[Move] = Field(
        default_factory=list,
        description="applications that move with their subscriptions to another node; the list can have any order",
    )
    calls: list[OtherCall] = Field(default_factory=list, description="other calls, for protocols that define them")

    def _problems(self) -> Iterator[Problem]:
        made = self.subscriptions.generate if isinstance(self.subscriptions, SubscriptionGenerator) else None
        if isinstance(made, TopicSubscriptions) and made.wildcards and self.topics != "mqtt":
            message = "wildcards need topics: mqtt beside subscriptions; write that, or leave wildcards out"
            yield Problem(("subscriptions", "generate", "wildcards"), message)
