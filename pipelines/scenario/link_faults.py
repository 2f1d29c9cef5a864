"""The kinds of link faults in the ``faults`` part of a scenario file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

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
)
from pipelines.errors import FaultError, Problem
from pipelines.scenario.times import Timed, TimedSpan

LinkName = tuple[NodeName, NodeName]
Links = Annotated[list[LinkName], Field(min_length=1)]
Kinds = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(min_length=1)]
ExtraRounds = Annotated[int, Field(ge=0, le=1000, strict=True)]
Extra = Annotated[tuple[ExtraRounds, ExtraRounds], ORDERED]
AtLeastOne = Annotated[float, Field(ge=1.0, le=1e9, allow_inf_nan=False, strict=True)]


class LinkFaultSpec(TimedSpan):
    """What the faults of links have in common: where and when. A message meets the faults of its round of sending."""

    kind: str = Field(description="what goes wrong")
    links: Links | None = Field(None, description="the links, each [a, b]; without it all messages between two nodes")
    direction: Literal["both", "forward"] = Field("both", description="forward: from the first node of a link only")
    round: Round = Field(0, description="the first round of sending that is concerned")
    until: Round | None = Field(None, description="the round in which the fault ends; default: it never ends")

    @model_validator(mode="after")
    def _fits(self) -> LinkFaultSpec:
        problems = list(self.problems())
        if problems:
            raise FaultError(*problems)
        return self

    def problems(self) -> Iterator[Problem]:
        """Yields inconsistencies between its fields."""
        yield from end_problems(self.round, self.until)
        if self.links is None and self.direction == "forward":
            message = "direction is forward, and no links say where from; add links, or leave direction out"
            yield Problem(("direction",), message)
        yield from _pair_problems(self.links or [])


def _pair_problems(links: list[LinkName]) -> Iterator[Problem]:
    first: dict[frozenset[str], int] = {}
    for index, (a, b) in enumerate(links):
        if a == b:
            yield Problem(("links", index), f"the link joins {a!r} to itself; allowed: two different nodes")
            continue
        before = first.setdefault(frozenset((a, b)), index)
        if before != index:
            message = f"the link {a!r} - {b!r} is there already, as number {before + 1} of the list; write it once"
            yield Problem(("links", index), message)


class MessageFault(LinkFaultSpec):
    """A link fault that strikes single messages: drawn for each (rate), or one that is counted (nth)."""

    rate: Share | None = Field(None, description="the probability for each message")
    kinds: Kinds | None = Field(None, description="kinds of messages that it may strike; without it all")
    nth: Annotated[int, Field(ge=1, le=MAX_ROUND, strict=True)] | None = Field(
        None,
        description="in place of rate: strike one message alone, the n-th of its kinds, sender and receiver from"
        " `round` on, in the order of sending; for form program",
    )
    sender: NodeName | None = Field(
        None, alias="from", description="nth: count the messages of this sender; without it those of all"
    )
    receiver: NodeName | None = Field(
        None, alias="to", description="nth: count the messages to this receiver; without it those to all"
    )
    stream: Annotated[int, Field(ge=0, le=MAX_ROUND, strict=True)] | None = Field(
        None, description="number of the random stream; default: the fault's index in the list, from 0"
    )

    def problems(self) -> Iterator[Problem]:
        """Yields inconsistencies between its fields."""
        yield from super().problems()
        yield from self._choice_problems()
        for index, name in enumerate(self.kinds or []):
            if (self.kinds or []).index(name) != index:
                yield Problem(("kinds", index), f"{name!r} is there already; allowed: each kind once")

    def _choice_problems(self) -> Iterator[Problem]:
        """Yields where the struck messages are chosen neither by chance nor by number, or by both."""
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
    """Loss in bursts (Gilbert and Elliott): a link is alternately good and bad, for geometrically distributed times."""

    good: AtLeastOne = Field(description="mean number of rounds for which a link is good")
    bad: AtLeastOne = Field(description="mean number of rounds for which it is bad; then the fault's rate holds")
    good_rate: Share = Field(0.0, description="the probability of a loss while it is good")


class Loss(MessageFault):
    """Messages are lost on links, each independently of the others, or in bursts."""

    kind: Literal["loss"] = Field(description="what goes wrong")
    burst: Burst | None = Field(None, description="lose in bursts, for each direction of each link on its own")

    def problems(self) -> Iterator[Problem]:
        """Yields inconsistencies between its fields."""
        yield from super().problems()
        if self.burst is not None and self.nth is not None:
            yield Problem(("burst",), "burst and nth exclude each other; leave one of them out")


class Break(LinkFaultSpec):
    """Links are broken: what is sent on them is lost, until they are whole again."""

    kind: Literal["break"] = Field(description="what goes wrong")
    links: Links = Field(description="the links, each [a, b]")


class Replace(Timed):
    """The overlay changes: a link breaks for good, and another takes its place after a while, so it stays a tree."""

    kind: Literal["replace"] = Field(description="what goes wrong")
    link: LinkName = Field(description="the link that breaks, [a, b]")
    by: LinkName = Field(description="the link that takes its place, between the two parts of the tree, [c, d]")
    round: Annotated[int, Field(ge=1, le=MAX_ROUND, strict=True)] = Field(description="the round of the break")
    after: ExtraRounds = Field(0, description="rounds from the break until the other link exists")
    latency: LatencyRounds | None = Field(
        None, description="of the other link, in rounds; default: that of the one that breaks"
    )


class Partition(LinkFaultSpec):
    """The overlay is split: exactly one of groups of nodes that cannot reach each other, and links that are cut."""

    kind: Literal["partition"] = Field(description="what goes wrong")
    groups: Annotated[list[Annotated[list[NodeName], Field(min_length=1)]], Field(min_length=1)] | None = Field(
        None,
        description="lists of nodes; all others are one more group. No message gets from one to another, on no way",
    )
    links: Links | None = Field(None, description="the links that are cut, each [a, b]")

    def problems(self) -> Iterator[Problem]:
        """Yields inconsistencies between its fields."""
        one_of(self, ("groups", "links"), "the partition")
        yield from super().problems()
        first: dict[str, int] = {}
        for number, group in enumerate(self.groups or []):
            for index, name in enumerate(group):
                if name in first:
                    message = f"{name!r} is in group {first[name] + 1} already; allowed: each node in one group, once"
                    yield Problem(("groups", number, index), message)
                first.setdefault(name, number)


class Delay(MessageFault):
    """Messages take longer, by a drawn number of rounds; those behind them wait, unless it reorders."""

    kind: Literal["delay"] = Field(description="what goes wrong")
    rounds: Extra = Field(description="fewest and most rounds more")
    rate: Share | None = Field(
        1.0, description="the probability for each message (reorder), or for each link and round of sending (in order)"
    )
    reorder: Flag = Field(
        False,
        description="true: each message on its own, and later ones overtake it; false: the messages of a round"
        " together, and what is sent later on the link is not due before them",
    )

    def problems(self) -> Iterator[Problem]:
        """Yields inconsistencies between its fields."""
        yield from super().problems()
        if self.kinds is not None and not self.reorder:
            message = "a delay of some kinds lets the others overtake; allowed: reorder: true, or no kinds"
            yield Problem(("kinds",), message)
        if self.nth is not None and not self.reorder:
            yield Problem(("nth",), "a delay of one message lets the others overtake; add reorder: true")


class Duplicate(MessageFault):
    """Messages arrive twice: the copy right behind its original, or later, behind others."""

    kind: Literal["duplicate"] = Field(description="what goes wrong")
    after: Extra = Field((0, 0), description="fewest and most rounds from the original to the copy")
