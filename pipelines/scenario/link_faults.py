"""The models of link faults in the ``faults`` part of a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.settings import (
    MAX_ROUND,
    ORDERED,
    Flag,
    LatencyRounds,
    NodeName,
    Round,
    Share,
    Strict,
    end_problems,
    one_of,
    repeated_links,
    repetition_problems,
)
from pipelines.errors import Problem
from pipelines.scenario.times import Timed, TimedSpan

LinkName = tuple[NodeName, NodeName]
Links = Annotated[list[LinkName], Field(min_length=1)]
Kinds = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(min_length=1)]
ExtraRounds = Annotated[int, Field(ge=0, le=1000, strict=True)]
Extra = Annotated[tuple[ExtraRounds, ExtraRounds], ORDERED]
AtLeastOne = Annotated[float, Field(ge=1.0, le=1e9, allow_inf_nan=False, strict=True)]


class LinkFaultSpec(TimedSpan):
    """A fault of links during some rounds; the fault affects the messages that are sent in these rounds."""

    kind: str = Field(description="selects this type of fault")
    links: Links | None = Field(None, description="the links, each [a, b]; default: all pairs of nodes")
    direction: Literal["both", "forward"] = Field(
        "both", description="forward: the fault affects each link [a, b] only in the direction from a to b"
    )
    round: Round = Field(
        0, description="first round of the fault; the fault affects messages by their round of sending"
    )
    until: Round | None = Field(None, description="first round after the fault; default: the fault does not end")

    def _problems(self) -> Iterator[Problem]:
        yield from end_problems(self.round, self.until)
        if self.links is None and self.direction == "forward":
            message = "direction is forward, and no links say where from; add links, or leave direction out"
            yield Problem(("direction",), message)
        yield from repeated_links(self.links or ())


class MessageFault(LinkFaultSpec):
    """A link fault that affects single messages: each message with probability `rate`, or only the `nth` message."""

    rate: Share | None = Field(None, description="probability that the fault affects a message")
    kinds: Kinds | None = Field(None, description="types of the messages that the fault can affect; default: all types")
    nth: Annotated[int, Field(ge=1, le=MAX_ROUND, strict=True)] | None = Field(
        None,
        description="replaces rate; the fault affects a single message, the n-th that is sent from round `round` on "
        "and matches kinds, from and to; only in form program",
    )
    sender: NodeName | None = Field(None, alias="from", description="nth: count only the messages of this sender")
    receiver: NodeName | None = Field(None, alias="to", description="nth: count only the messages to this receiver")
    stream: Annotated[int, Field(ge=0, le=MAX_ROUND, strict=True)] | None = Field(
        None,
        description="number that selects the random draws of the fault; faults with different numbers draw "
        "independently; default: the fault's index in the list, from 0",
    )

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        yield from self._choice_problems()
        yield from repetition_problems(("kinds",), self.kinds or ())

    def _choice_problems(self) -> Iterator[Problem]:
        if self.nth is None:
            if self.rate is None:
                yield Problem((), f"the {self.kind} has neither rate nor nth; write exactly one of them")
            for key, name in (("from", self.sender), ("to", self.receiver)):
                if name is not None:
                    yield Problem((key,), f"{key} belongs to nth; add nth, or name links with direction: forward")
            return
        if "rate" in self.model_fields_set and self.rate is not None:
            yield Problem(("rate",), f"the {self.kind} has rate and nth; exactly one of them is allowed")
        if self.links is not None:
            yield Problem(("links",), "nth counts the messages of one sender and receiver; name them by from and to")
        if self.sender is not None and self.sender == self.receiver:
            yield Problem(("to",), f"from and to are both {self.sender!r}; allowed: two different nodes")


class Burst(Strict):
    """Bursty loss (Gilbert-Elliott model): each direction of a link alternates between good and bad periods."""

    good: AtLeastOne = Field(description="mean number of rounds in a good period (geometric distribution)")
    bad: AtLeastOne = Field(
        description="mean number of rounds in a bad period; in bad periods, the probability of a loss is rate"
    )
    good_rate: Share = Field(0.0, description="the probability of a loss in a good period")


class Loss(MessageFault):
    """Links lose messages, either each message independently or in bursts."""

    kind: Literal["loss"] = Field(description="selects this type of fault")
    burst: Burst | None = Field(
        None, description="the losses occur in bursts, independently in each direction of each link"
    )

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.burst is not None and self.nth is not None:
            yield Problem(("burst",), "burst and nth exclude each other; leave one of them out")


class Break(LinkFaultSpec):
    """Links lose all messages that are sent on them between `round` and `until`."""

    kind: Literal["break"] = Field(description="selects this type of fault")
    links: Links = Field(description="the links, each [a, b]")


class Replace(Timed):
    """The overlay changes: a link breaks permanently, and a new link replaces it, so that the overlay stays a tree."""

    kind: Literal["replace"] = Field(description="selects this type of fault")
    link: LinkName = Field(description="the link that breaks, [a, b]")
    by: LinkName = Field(
        description="the link that replaces the broken link, [c, d]; it reconnects the two parts of the tree"
    )
    round: Annotated[int, Field(ge=1, le=MAX_ROUND, strict=True)] = Field(description="the round of the break")
    after: ExtraRounds = Field(0, description="rounds from the break until the new link exists")
    latency: LatencyRounds | None = Field(
        None, description="latency of the new link, in rounds; default: the latency of the broken link"
    )


class Partition(LinkFaultSpec):
    """A partition: either groups of nodes exchange no messages with each other, or `links` lose all messages."""

    kind: Literal["partition"] = Field(description="selects this type of fault")
    groups: Annotated[list[Annotated[list[NodeName], Field(min_length=1)]], Field(min_length=1)] | None = Field(
        None,
        description="groups of nodes, each a list; all other nodes form an additional group; every message between "
        "two groups is lost",
    )
    links: Links | None = Field(None, description="the links that are cut, each [a, b]")

    def _problems(self) -> Iterator[Problem]:
        one_of(self, ("groups", "links"), "the partition")
        yield from super()._problems()
        first: dict[str, int] = {}
        for number, group in enumerate(self.groups or []):
            for index, name in enumerate(group):
                if name in first:
                    message = f"{name!r} is in group {first[name] + 1} already; allowed: each node in one group, once"
                    yield Problem(("groups", number, index), message)
                first.setdefault(name, number)


class Delay(MessageFault):
    """Messages arrive late by a random number of rounds.

    Unless `reorder` is set, later messages wait for delayed messages.
    """

    kind: Literal["delay"] = Field(description="selects this type of fault")
    rounds: Extra = Field(description="minimum and maximum length of a delay, in rounds")
    rate: Share | None = Field(
        1.0,
        description="probability of a delay, for each message (reorder: true), or for each link and round of sending "
        "(reorder: false)",
    )
    reorder: Flag = Field(
        False,
        description="true: each message has its own delay, and later messages may overtake it; false: all messages of "
        "a link and round have one delay, and later messages of the link wait for them",
    )

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.kinds is not None and not self.reorder:
            message = "messages of other kinds would overtake the delayed ones; allowed: reorder: true, or no kinds"
            yield Problem(("kinds",), message)
        if self.nth is not None and not self.reorder:
            yield Problem(("nth",), "other messages would overtake the delayed one; add reorder: true")


class Duplicate(MessageFault):
    """Messages arrive twice. A copy arrives directly after its original, or later, after other messages."""

    kind: Literal["duplicate"] = Field(description="selects this type of fault")
    after: Extra = Field((0, 0), description="minimum and maximum number of rounds from the original to the copy")
