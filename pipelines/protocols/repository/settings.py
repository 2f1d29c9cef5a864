"""Settings of protocol ``repository``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.settings import Composed, NodeName, Strict

Rounds = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
Work = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
Count = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]


class BundleSettings(Strict):
    """Repositories that serve topics together."""

    repositories: list[NodeName] | None = Field(None, description="the repositories (default: all)")
    topics: list[Composed] | None = Field(None, description="the topics (default: those that no other bundle names)")


class TopicSettings(Strict):
    """Who may publish on a topic and subscribe to it."""

    owner: NodeName = Field(description="the client that registers others")
    publishers: list[NodeName] = Field([], description="the publishers that are registered at the start")
    subscribers: list[NodeName] = Field([], description="the subscribers that are registered at the start")


class RepositorySettings(Strict):
    """Settings of protocol ``repository``."""

    name: Literal["repository"] = "repository"
    bundles: list[BundleSettings] = Field([], description="which repositories serve which topics (default: all, all)")
    bundle_size: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = Field(
        None, description="without bundles: so many repositories serve all topics, the first ones (default: all)"
    )
    topics: dict[Composed, TopicSettings] = Field({}, description="topics with an owner; others are open to everybody")
    baseline: bool = Field(False, description="best effort: no repositories, orders or acknowledgements")
    publisher_rounds: Rounds = Field(
        20, description="T_p: a client repeats what is not answered; three times as long while not stable"
    )
    failure_rounds: Rounds = Field(100, description="T_fail: a publisher's silence until it takes the next repository")
    acknowledge_rounds: Rounds = Field(10, description="T_a: a subscriber acknowledges what is not synced")
    acknowledge_count: Count = Field(1, description="deliveries until a subscriber acknowledges at once; 0: never")
    wait_rounds: Rounds = Field(10, description="T_w: a subscriber waits for a missing message until it asks")
    nak_rounds: Rounds = Field(15, description="T_n: a repository asks publishers for missing messages")
    rectify_rounds: Rounds = Field(40, description="T_d: unacknowledged that long: a repository sends R2S-Rectify")
    idle_rounds: Rounds = Field(60, description="T_idle: a subscriber polls a steering repository that is silent")
    assist_rounds: Rounds = Field(
        100, description="T_assist: without an operational member that long a repository goes on with its own disk"
    )
    gossip_rounds: Rounds = Field(10, description="T_g: repositories gossip")
    fetch_rounds: Rounds = Field(15, description="T_f: a repository asks its bundle for messages that it lacks")
    fetch_batch: Rounds = Field(100, description="messages that it asks for at once")
    tries: Rounds = Field(3, description="k: requests without an answer until the next repository has its turn")
    void_rounds: Rounds = Field(
        200, description="T_void: silence of a publisher after which the numbers of its missing messages are void"
    )
    store_rounds: Work = Field(0, description="what it takes a repository to store a message")
    retrieve_rounds: Work = Field(0, description="what it takes it to read one")
    reroute_rounds: Rounds = Field(5, description="after a broker's crash or recovery until routes change")
