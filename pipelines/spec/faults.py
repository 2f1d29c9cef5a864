"""The ``faults`` part of a scenario file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from pipelines.errors import FaultError, Problem, nearest
from pipelines.spec.base import (
    ORDERED,
    NodeName,
    Round,
    Share,
    Strict,
    by_form,
    by_name,
)
from pipelines.spec.link_faults import Break, Delay, Duplicate, Extra, Links, Loss, Partition, Replace
from pipelines.spec.outages import CrashRate, CrashTrace
from pipelines.spec.rules import end_problems, one_of, repetition_problems
from pipelines.spec.times import TimedSpan

_ONLY_COUNT = ("down", "consecutive", "stagger")
_DownRound = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]


class Crash(TimedSpan):
    """A crash of a node: it handles nothing from one round on, for good or up to the round of its recovery."""

    kind: Literal["crash"] = Field(description="what goes wrong")
    node: NodeName = Field(description="the node that crashes")
    round: Round = Field(description="the first round in which it is down")
    until: Round | None = Field(None, description="the round of its recovery; without it the node stays down")

    @model_validator(mode="after")
    def _ends_later(self) -> Crash:
        problems = list(end_problems(self.round, self.until))
        if problems:
            raise FaultError(*problems)
        return self


class Pause(TimedSpan):
    """A pause of a node: it keeps its state and handles nothing for a while, then all at once, in order."""

    kind: Literal["pause"] = Field(description="what goes wrong")
    node: NodeName = Field(description="the node that pauses")
    round: Round = Field(description="the first round in which it handles nothing")
    until: Round = Field(description="the round in which it handles what came meanwhile")

    @model_validator(mode="after")
    def _ends_later(self) -> Pause:
        problems = list(end_problems(self.round, self.until))
        if problems:
            raise FaultError(*problems)
        return self


def _nodes_form(value: Any) -> str | None:  # noqa: ANN401 - whatever the file holds
    return "<list>" if isinstance(value, (list, tuple)) else "<text>" if isinstance(value, str) else None


class CrashGenerator(Strict):
    """Crashes made from the seed, or taken from a trace: exactly one of count, rate, trace."""

    kind: Literal["crash"] = Field(description="what goes wrong")
    count: Annotated[int, Field(ge=0, le=10_000, strict=True)] | None = Field(
        None, description="exactly so many crashes at drawn rounds and nodes; with consecutive, so many chains"
    )
    rate: CrashRate | None = Field(None, description="how long each node is up and down by turns")
    trace: CrashTrace | None = Field(None, description="outages that were recorded")
    rounds: Annotated[tuple[Round, Round], ORDERED] | None = Field(
        None, description="first and last round of crashes; default: 0 and time.rounds"
    )
    nodes: Annotated[
        Annotated[list[NodeName], Field(min_length=1), Tag("<list>")]
        | Annotated[Literal["all", "leaves", "inner", "clients"], Tag("<text>")],
        by_form(_nodes_form),
    ] = Field(
        "all", description="which nodes may crash: names, all, leaves, clients, or inner: brokers without clients"
    )
    spare: list[NodeName] = Field(default_factory=list, description="nodes that never crash")
    at_most: Round | None = Field(
        None,
        description="never more nodes than so many not operational at once, counted with the crashes that are listed"
        " and those of generators before this one; count then looks for room, rate and trace leave crashes out",
    )
    recovery: Round | None = Field(
        None,
        description="at_most: so many rounds more does a node count that recovered; default: 20 times the largest"
        " latency of a link",
    )
    down: Annotated[tuple[_DownRound, _DownRound], ORDERED] | None = Field(
        None, description="count: fewest and most rounds for which a node is down, drawn; without it: for good"
    )
    consecutive: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        1, description="count: so many neighbours on a path of the overlay crash as a chain, for the same time"
    )
    stagger: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = Field(
        0, description="consecutive: rounds from the crash of one neighbour to that of the next; 0: all at once"
    )

    @model_validator(mode="after")
    def _consistent(self) -> CrashGenerator:
        one_of(self, ("count", "rate", "trace"), "the generator")
        problems = [*self._key_problems(), *self._node_problems(), *self._size_problems()]
        if problems:
            raise FaultError(*problems)
        return self

    def _key_problems(self) -> Iterator[Problem]:
        form = "rate" if self.rate is not None else "trace"
        for name in _ONLY_COUNT if self.count is None else ():
            if name in self.model_fields_set:
                cure = "; set rate.down" if (form, name) == ("rate", "down") else f"; leave {name} out"
                yield Problem((name,), f"{name} belongs to count, and the generator has {form}{cure}")
        if self.recovery is not None and self.at_most is None:
            yield Problem(("recovery",), "recovery is given without at_most; add that, or leave recovery out")

    def _node_problems(self) -> Iterator[Problem]:
        yield from repetition_problems(("spare",), self.spare)
        for index, name in enumerate(self.spare):
            if isinstance(self.nodes, list) and name in self.nodes:
                message = f"{name!r} is in nodes and in spare; allowed: either, so take it out of one of them"
                yield Problem(("spare", index), message)

    def _size_problems(self) -> Iterator[Problem]:
        if not self.count:
            return
        if self.at_most is not None and self.at_most < self.consecutive and not self.stagger:
            what = f"chains of {self.consecutive} crash at once" if self.consecutive > 1 else "the nodes that crash"
            yield Problem(
                ("at_most",),
                f"at_most is {self.at_most}, too few for {what}; allowed: {self.consecutive} or more, or count: 0",
            )
        length = (self.consecutive - 1) * self.stagger
        if self.rounds is not None and length > self.rounds[1] - self.rounds[0]:
            yield Problem(
                ("stagger",),
                f"a chain of {self.consecutive} takes {length} rounds to crash, more than there are from round"
                f" {self.rounds[0]} to {self.rounds[1]}; give more rounds, or a smaller stagger",
            )


class DrawnTimes(Strict):
    """What generators of other faults than crashes have in common: exactly one of count, rate."""

    kind: str = Field(description="what goes wrong")
    count: Annotated[int, Field(ge=0, le=10_000, strict=True)] | None = Field(
        None, description="exactly so many faults at drawn rounds and places"
    )
    rate: CrashRate | None = Field(None, description="how long each place is whole and struck by turns")
    rounds: Annotated[tuple[Round, Round], ORDERED] | None = Field(
        None, description="first and last round in which one begins; default: 0 and time.rounds"
    )
    down: Annotated[tuple[_DownRound, _DownRound], ORDERED] | None = Field(
        None, description="count: fewest and most rounds that one lasts, drawn; without it: for good"
    )

    @model_validator(mode="after")
    def _consistent(self) -> DrawnTimes:
        one_of(self, ("count", "rate"), "the generator")
        if self.down is not None and self.rate is not None:
            message = "down belongs to count, and the generator has rate; set rate.down"
            raise FaultError(Problem(("down",), message))
        if self.kind == "pause" and self.down is None and (self.rate is None or self.rate.down is None):
            key = "rate.down" if self.rate is not None else "down"
            raise FaultError(Problem((), f"the pauses never end; set {key}, or let the nodes crash instead"))
        return self


class BreakGenerator(DrawnTimes):
    """Links that break, made from the seed; both directions of a link break."""

    kind: Literal["break"] = Field(description="what goes wrong")
    links: Links | None = Field(None, description="which links may break, each [a, b]; without it all")


class PauseGenerator(DrawnTimes):
    """Nodes that pause, made from the seed."""

    kind: Literal["pause"] = Field(description="what goes wrong")
    nodes: Annotated[
        Annotated[list[NodeName], Field(min_length=1), Tag("<list>")]
        | Annotated[Literal["all", "leaves"], Tag("<text>")],
        by_form(_nodes_form),
    ] = Field("all", description="which nodes may pause: names, all, or leaves")


class PartitionGenerator(DrawnTimes):
    """Partitions made from the seed, one after the other: a drawn node and those around it against all others."""

    kind: Literal["partition"] = Field(description="what goes wrong")
    share: Share = Field(0.5, description="share of the nodes in the group, at least one node and not all")


class ReplaceGenerator(Strict):
    """Links that others replace, made from the seed: a drawn link, and drawn ends in the two parts of the tree."""

    kind: Literal["replace"] = Field(description="what goes wrong")
    count: Annotated[int, Field(ge=0, le=10_000, strict=True)] = Field(description="exactly so many")
    rounds: Annotated[tuple[_DownRound, _DownRound], ORDERED] | None = Field(
        None, description="first and last round of a break; default: 1 and time.rounds"
    )
    after: Extra = Field((0, 0), description="fewest and most rounds from a break until the other link is there")


class FaultGenerator(Strict):
    """Faults made from the seed."""

    generate: Annotated[
        Annotated[CrashGenerator, Tag("<crash>")]
        | Annotated[BreakGenerator, Tag("<break>")]
        | Annotated[PauseGenerator, Tag("<pause>")]
        | Annotated[PartitionGenerator, Tag("<partition>")]
        | Annotated[ReplaceGenerator, Tag("<replace>")],
        by_name("kind"),
    ] = Field(description="what goes wrong, where and how often")


_GENERATOR = "<<generate>>"


def _fault_tag(value: Any) -> str | None:  # noqa: ANN401 - whatever the file holds
    """Returns the tag of the kind of a listed fault, or that of a generator, also where its key is misspelt."""
    if not isinstance(value, Mapping):
        return (
            _GENERATOR if isinstance(value, FaultGenerator) else f"<{value.kind}>" if hasattr(value, "kind") else None
        )
    if "generate" in value or ("kind" not in value and nearest("generate", value)):
        return _GENERATOR
    return f"<{value['kind']}>" if isinstance(value.get("kind"), str) else None


Fault = Annotated[
    Annotated[Crash, Tag("<crash>")]
    | Annotated[Pause, Tag("<pause>")]
    | Annotated[Loss, Tag("<loss>")]
    | Annotated[Break, Tag("<break>")]
    | Annotated[Partition, Tag("<partition>")]
    | Annotated[Delay, Tag("<delay>")]
    | Annotated[Duplicate, Tag("<duplicate>")]
    | Annotated[Replace, Tag("<replace>")]
    | Annotated[FaultGenerator, Tag(_GENERATOR)],
    Discriminator(
        _fault_tag, custom_error_type="choice", custom_error_message="unknown", custom_error_context={"key": "kind"}
    ),
]
