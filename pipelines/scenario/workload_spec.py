"""The ``workload`` part of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.scenario.base import Count, NodeName, Positive, Round, Strict

Scalar = str | int | float | bool
Rounds = tuple[Round, Round]
Zipf = Annotated[float, Field(ge=0.0, le=10.0, description="exponent of the popularity; 0 is uniform")]
Nodes = list[NodeName] | Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | Literal["all", "leaves"]


class Subscription(Strict):
    """One subscription of a node, by topic, by content, or both."""

    at: NodeName
    round: Round = 0
    topic: str | None = Field(None, description="short for: topic = '...'")
    where: str | None = Field(None, description="attribute op value, joined by and; ops = != < <= > >= prefix suffix contains")
    until: Round | None = Field(None, description="the round of its unsubscribe call; without it the subscription stays")


class Publication(Strict):
    """One publication of a node."""

    at: NodeName
    round: Round = 0
    topic: str | None = None
    content: dict[str, Scalar] = Field(default_factory=dict)


class Join(Strict):
    """A node that joins the overlay while the run goes on; it has no link before."""

    node: NodeName
    to: NodeName = Field(description="the join point; the link between the two is in the overlay")
    round: Round


class SubscriptionFile(Strict):
    """Subscriptions from a CSV, TSV or Parquet file, one row each (e.g. Last.fm ``user_artists.dat``)."""

    path: str
    format: Literal["csv", "tsv", "parquet"] | None = Field(None, description="default: by the file's name")
    node: str = Field("node", description="column whose distinct values are spread over `nodes`, or are node names")
    topic: str | None = Field(None, description="column of the topic")
    where: str | None = Field(None, description="column of the predicate text")
    round: str | Round = Field(0, description="column, or one round for all")
    nodes: Nodes | None = Field(None, description="spread the column's values over these nodes; without it they are names")
    limit: Count | None = Field(None, description="only the first so many rows")


class PublicationFile(Strict):
    """Publications from a CSV, TSV or Parquet file, or from PADRES quote files (``[class,'STOCK'],[symbol,'A'],...``)."""

    path: str
    format: Literal["csv", "tsv", "parquet", "padres"] | None = None
    node: str | None = Field(None, description="column whose distinct values are spread over `nodes`, or are node names")
    topic: str | None = Field(None, description="column (attribute) of the topic")
    content: list[str] | None = Field(None, description="columns that make the content; default: all the others")
    round: str | Round = Field(0, description="column, or the first round; then `per_round` rows a round")
    per_round: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = 1
    reverse: bool = Field(False, description="the file is newest first: publish it backwards (PADRES)")
    nodes: Nodes | None = None
    limit: Count | None = None


class _GeneratedSubscriptions(Strict):
    nodes: Nodes = Field("all", description="who subscribes: names, a number of nodes (drawn), all, or leaves")
    per_node: Annotated[int, Field(ge=0, le=100_000, strict=True)] = Field(1, description="subscriptions of each of them")
    rounds: Rounds = Field((0, 0), description="first and last round of subscribe calls, drawn")
    lifetime: Rounds | None = Field(None, description="a subscription ends after so many rounds, drawn; none: it stays")


class _GeneratedPublications(Strict):
    nodes: Nodes = Field(1, description="who publishes: names, a number of nodes (drawn), all, or leaves")
    rounds: Rounds = Field((1, 10), description="first and last round of publications")
    rate: Positive = Field(1.0, description="publications of each of them a round; below 1, or the rest above, is a chance")


class _Topics(Strict):
    topics: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(10, description="number of topics")
    zipf: Zipf = 1.0


class AttributeRange(Strict):
    """One numeric attribute of generated content, uniform from low to high."""

    low: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    high: Annotated[float, Field(allow_inf_nan=False)] = 1000.0


def _two_attributes() -> dict[str, AttributeRange]:
    return {"a": AttributeRange(), "b": AttributeRange()}


class _Content(Strict):
    classes: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(20, description="classes, used as topics")
    zipf: Zipf = 1.0
    attributes: dict[str, AttributeRange] = Field(default_factory=_two_attributes)


class _Symbols(Strict):
    symbols: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(20, description="stocks, attribute `symbol`")
    zipf: Zipf = 1.0


class TopicSubscriptions(_Topics, _GeneratedSubscriptions):
    """Subscriptions to topics drawn by Zipf popularity, without repetition at one node."""

    kind: Literal["topics"]


class ContentSubscriptions(_Content, _GeneratedSubscriptions):
    """Subscriptions to a class and to a random interval of each attribute."""

    kind: Literal["content"]
    selectivity: Annotated[float, Field(gt=0.0, le=1.0)] = Field(0.5, description="length of an interval ÷ the whole range")


class QuoteSubscriptions(_Symbols, _GeneratedSubscriptions):
    """Subscriptions to stock quotes: symbol, price above, volume above."""

    kind: Literal["quotes"]


class TopicPublications(_Topics, _GeneratedPublications):
    """Publications on topics drawn by Zipf popularity."""

    kind: Literal["topics"]


class ContentPublications(_Content, _GeneratedPublications):
    """Publications of a class with uniform attribute values."""

    kind: Literal["content"]


class QuotePublications(_Symbols, _GeneratedPublications):
    """Stock quotes (symbol, price, volume): symbols by popularity, prices as a random walk."""

    kind: Literal["quotes"]
    volatility: Annotated[float, Field(gt=0.0, le=1.0)] = Field(0.02, description="of the price, from quote to quote")


class SubscriptionFileSource(Strict):
    """Subscriptions read from a file."""

    file: SubscriptionFile


class PublicationFileSource(Strict):
    """Publications read from a file."""

    file: PublicationFile


class SubscriptionGenerator(Strict):
    """Subscriptions made from the seed."""

    generate: Annotated[TopicSubscriptions | ContentSubscriptions | QuoteSubscriptions, Field(discriminator="kind")]


class PublicationGenerator(Strict):
    """Publications made from the seed."""

    generate: Annotated[TopicPublications | ContentPublications | QuotePublications, Field(discriminator="kind")]


class WorkloadSpec(Strict):
    """Who subscribes to what, who publishes what, who joins, and when."""

    subscriptions: list[Subscription] | SubscriptionFileSource | SubscriptionGenerator = Field(default_factory=list)
    publications: list[Publication] | PublicationFileSource | PublicationGenerator = Field(default_factory=list)
    joins: list[Join] = Field(default_factory=list)
