"""The ``workload`` part of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.scenario.base import Count, NodeName, Positive, Round, Strict

Scalar = str | int | float | bool
Rounds = tuple[Round, Round]
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


class Topics(Strict):
    """Generator: topics with Zipf popularity; `nodes` publish, others subscribe."""

    kind: Literal["topics"]
    topics: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = 10
    zipf: Annotated[float, Field(ge=0.0, le=10.0)] = Field(1.0, description="exponent of the popularity; 0 is uniform")
    publishers: Nodes = 1
    subscribers: Nodes = "all"
    subscriptions_per_node: Annotated[int, Field(ge=0, le=100_000, strict=True)] = 1
    subscribe_rounds: Rounds = (0, 0)
    publish_rounds: Rounds = Field((1, 10), description="first and last round of publications")
    publications_per_round: Positive = Field(1.0, description="of each publisher; below 1 it is a chance per round")
    lifetime: Rounds | None = Field(None, description="a subscription ends after so many rounds, drawn; none: it stays")


class AttributeRange(Strict):
    """One numeric attribute of generated content."""

    low: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    high: Annotated[float, Field(allow_inf_nan=False)] = 1000.0


class Content(Strict):
    """Generator: classes (topics) with numeric attributes; a subscription asks for a range of each attribute."""

    kind: Literal["content"]
    classes: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 20
    zipf: Annotated[float, Field(ge=0.0, le=10.0)] = 1.0
    attributes: dict[str, AttributeRange] = Field(default_factory=lambda: {"a": AttributeRange(), "b": AttributeRange()})
    selectivity: Annotated[float, Field(gt=0.0, le=1.0)] = Field(0.5, description="share of each attribute's range asked for")
    publishers: Nodes = 1
    subscribers: Nodes = "all"
    subscriptions_per_node: Annotated[int, Field(ge=0, le=100_000, strict=True)] = 1
    subscribe_rounds: Rounds = (0, 0)
    publish_rounds: Rounds = (1, 10)
    publications_per_round: Positive = 1.0
    lifetime: Rounds | None = None


class Quotes(Strict):
    """Generator: stock quotes; symbols by popularity, prices as a random walk, and subscriptions on symbol, price, volume."""

    kind: Literal["quotes"]
    symbols: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 20
    zipf: Annotated[float, Field(ge=0.0, le=10.0)] = 1.0
    volatility: Annotated[float, Field(gt=0.0, le=1.0)] = Field(0.02, description="of the price from quote to quote")
    publishers: Nodes = 1
    subscribers: Nodes = "all"
    subscriptions_per_node: Annotated[int, Field(ge=0, le=100_000, strict=True)] = 1
    subscribe_rounds: Rounds = (0, 0)
    publish_rounds: Rounds = (1, 10)
    publications_per_round: Positive = 1.0
    lifetime: Rounds | None = None


class SubscriptionSource(Strict):
    """Subscriptions read from a file."""

    file: SubscriptionFile


class PublicationSource(Strict):
    """Publications read from a file."""

    file: PublicationFile


class WorkloadSpec(Strict):
    """Who subscribes to what, who publishes what, who joins, and when."""

    subscriptions: list[Subscription] | SubscriptionSource = Field(default_factory=list)
    publications: list[Publication] | PublicationSource = Field(default_factory=list)
    joins: list[Join] = Field(default_factory=list)
    generate: Annotated[Topics | Content | Quotes, Field(discriminator="kind")] | None = Field(
        None, description="a generator; what it makes comes beside the lists and files"
    )
