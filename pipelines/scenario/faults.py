"""The models of the ``faults`` part of a scenario: crashes, pauses, recorded outages, link faults, and generators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypeAliasType

from pipelines.contract.settings import (
    BY_KIND,
    MAX_ROUND,
    ORDERED,
    FilePath,
    Flag,
    LatencyRounds,
    NamesOr,
    NodeName,
    Positive,
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

_RECORDED = ("system", "hours_per_round", "skip_hours", "shuffled")
_NAMED = ("named", "simgrid")
FaultyGroup: TypeAlias = Literal["all", "leaves", "inner", "servers", "clients"]
_GROUPS = (
    "names, all (except supervisors), leaves, servers, clients, or inner (the brokers without clients; in an overlay "
    "without clients all brokers)"
)
_ONLY_COUNT = ("down", "consecutive", "stagger")
_DownRound = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
_DownRounds = Annotated[tuple[_DownRound, _DownRound], ORDERED]
_Rounds = Annotated[tuple[Round, Round], ORDERED]
_Number = Annotated[int, Field(ge=0, le=10_000, strict=True)]
_Shape = Annotated[float, Field(ge=0.05, le=100.0, strict=True)]


class Exponential(Strict):
    """Exponentially distributed times, which are memoryless."""

    kind: Literal["exponential"] = Field(description="selects this distribution")
    mean: Positive = Field(description="mean time, in rounds")


class Weibull(Strict):
    """Weibull-distributed times; with a shape below 1, many times are short and some are very long."""

    kind: Literal["weibull"] = Field(description="selects this distribution")
    shape: _Shape = Field(description="shape of the distribution; below 1 it has a heavy tail")
    scale: Positive = Field(description="scale parameter, in rounds")


class Pareto(Strict):
    """Pareto-distributed times, each at least `scale`; with a shape of 1 or less, the mean is infinite."""

    kind: Literal["pareto"] = Field(description="selects this distribution")
    shape: _Shape = Field(description="shape of the distribution; a smaller shape has a heavier tail")
    scale: Positive = Field(description="the shortest time, in rounds")


class LogNormal(Strict):
    """Log-normally distributed times."""

    kind: Literal["lognormal"] = Field(description="selects this distribution")
    mu: Annotated[float, Field(ge=-100.0, le=100.0, strict=True)] = Field(
        description="mean of the natural logarithm of the time in rounds"
    )
    sigma: Annotated[float, Field(gt=0.0, le=20.0, strict=True)] = Field(
        description="standard deviation of the natural logarithm of the time in rounds"
    )


Times = TypeAliasType("Times", Annotated[Exponential | Weibull | Pareto | LogNormal, BY_KIND])


class CrashRate(Strict):
    """Distributions of alternating up and down times.

    All nodes are up at first. Times are whole rounds, at least one.
    """

    up: Times = Field(description="distribution of the times for which a node is up")
    down: Times | None = Field(None, description="distribution of down times; default: crashes are permanent")


class CrashTrace(Strict):
    """Recorded outages.

    The file names nodes of the overlay, or the seed maps the nodes of a trace to nodes of the overlay.
    """

    path: FilePath = Field(description="the file, beside the scenario or in the installed data; also .gz or .xz")
    format: Literal["fta", "lanl", "named", "simgrid"] | None = Field(
        None,
        description="fta: Failure Trace Archive event_trace.tab (Grid'5000); lanl: LANL CSV; named: a table with "
        "the columns node, down and up (empty: the node stays down); simgrid: a state profile, applied "
        "to all nodes that may crash; default: determined by the names of the columns",
    )
    unit: Literal["round", "ms", "s", "min", "h"] | None = Field(
        None, description="named, simgrid: unit of times that are numbers; default: round (named), s (simgrid)"
    )
    system: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] | None = Field(
        None, description="lanl: number of the system; outages of other systems are ignored"
    )
    hours_per_round: Annotated[float, Field(ge=1e-6, le=1e6, strict=True)] = Field(
        1.0, description="fta, lanl: hours of the trace in each round"
    )
    skip_hours: Annotated[float, Field(ge=0.0, le=1e9, strict=True)] = Field(
        0.0, description="fta, lanl: hours that are skipped at the start of the trace"
    )
    shuffled: Flag = Field(
        False,
        description="fta, lanl: true permutes the up and down times of each node, so that outages of different nodes "
        "are independent",
    )

    def _problems(self) -> Iterator[Problem]:
        for name in _RECORDED if self.format in _NAMED else ():
            if name in self.model_fields_set:
                yield Problem((name,), f"{name} belongs to fta and lanl; leave it out, or change the format")
        if self.unit is not None and self.format in ("fta", "lanl"):
            yield Problem(("unit",), "unit belongs to named and simgrid; set hours_per_round instead")
        if self.format == "fta" and self.system is not None:
            yield Problem(("system",), "system belongs to format lanl; leave it out, or change the format")


class Crash(TimedSpan):
    """A crash of a node: the node handles no message from `round` until its recovery in round `until`."""

    kind: Literal["crash"] = Field(description="selects this type of fault")
    node: NodeName = Field(description="the node that crashes")
    round: Round = Field(description="the first round in which the node is down")
    until: Round | None = Field(None, description="the round in which the node recovers; default: the node stays down")

    def _problems(self) -> Iterator[Problem]:
        return end_problems(self.round, self.until)


class Pause(TimedSpan):
    """A pause: the node keeps its state and handles nothing; in round `until` it handles all waiting messages."""

    kind: Literal["pause"] = Field(description="selects this type of fault")
    node: NodeName = Field(description="the node that pauses")
    round: Round = Field(description="the first round in which the node handles nothing")
    until: Round | None = Field(
        None, description="the round in which the node handles all waiting messages; default: the node stays paused"
    )

    def _problems(self) -> Iterator[Problem]:
        return end_problems(self.round, self.until)


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


class CrashGenerator(Strict):
    """Crashes that are generated from the seed or read from a trace: exactly one of count, rate and trace."""

    kind: Literal["crash"] = Field(description="selects this type of fault")
    count: _Number | None = Field(
        None,
        description="number of crashes, at random rounds and nodes; if consecutive is above 1: number of chains of "
        "crashes",
    )
    rate: CrashRate | None = Field(None, description="distributions of the alternating up and down times of each node")
    trace: CrashTrace | None = Field(None, description="recorded outages")
    rounds: _Rounds | None = Field(None, description="first and last round of crashes; default: 0 and time.rounds")
    nodes: NamesOr[FaultyGroup] = Field("all", description=f"which nodes may crash: {_GROUPS}")
    spare: list[NodeName] = Field(default_factory=list, description="nodes that never crash")
    at_most: Round | None = Field(
        None,
        description="maximum number of nodes that are down or recovering at once, also by crashes of the list and of "
        "earlier generators; count: crashes that would exceed the maximum are drawn again; rate, trace: "
        "these crashes are omitted",
    )
    recovery: Round | None = Field(
        None,
        description="at_most: rounds after the restart of a crashed node in which the node counts as recovering; "
        "default: 20 times the largest latency of a link",
    )
    down: _DownRounds | None = Field(
        None,
        description="count: minimum and maximum number of rounds for which a node is down; default: the nodes stay "
        "down",
    )
    consecutive: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        1, description="count: length of a chain, a path of neighbours that are all down for the same number of rounds"
    )
    stagger: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = Field(
        0, description="consecutive: rounds between the crashes of two neighbours in a chain; 0: all in one round"
    )

    def _problems(self) -> Iterator[Problem]:
        one_of(self, ("count", "rate", "trace"), "the generator")
        form = "rate" if self.rate is not None else "trace"
        for name in _ONLY_COUNT if self.count is None else ():
            if name in self.model_fields_set:
                cure = "; set rate.down" if (form, name) == ("rate", "down") else f"; leave {name} out"
                yield Problem((name,), f"{name} belongs to count, and the generator has {form}{cure}")
        if self.recovery is not None and self.at_most is None:
            yield Problem(("recovery",), "recovery is given without at_most; add that, or leave recovery out")
        yield from repetition_problems(("spare",), self.spare)
        for index, name in enumerate(self.spare):
            if isinstance(self.nodes, list) and name in self.nodes:
                message = f"{name!r} is in nodes and in spare; allowed: either, so take it out of one of them"
                yield Problem(("spare", index), message)
        if self.count:
            yield from self._size_problems()

    def _size_problems(self) -> Iterator[Problem]:
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
    """A generator of pauses, breaks or partitions. It has exactly one of the keys ``count`` and ``rate``."""

    kind: str = Field(description="selects this type of fault")
    count: _Number | None = Field(None, description="number of faults, at random rounds and random nodes or links")
    rate: CrashRate | None = Field(
        None,
        description="distributions of the alternating times without the fault (up) and with the fault (down), for "
        "each node or link",
    )
    rounds: _Rounds | None = Field(
        None, description="first and last round in which a fault begins; default: 0 and time.rounds"
    )
    down: _DownRounds | None = Field(
        None, description="count: minimum and maximum number of rounds of a fault; default: the faults do not end"
    )

    def _problems(self) -> Iterator[Problem]:
        one_of(self, ("count", "rate"), "the generator")
        if self.down is not None and self.rate is not None:
            yield Problem(("down",), "down belongs to count, and the generator has rate; set rate.down")
        elif self.kind == "pause" and self.down is None and (self.rate is None or self.rate.down is None):
            key = "rate.down" if self.rate is not None else "down"
            yield Problem((), f"the pauses never end; set {key}, or let the nodes crash instead")


class BreakGenerator(DrawnTimes):
    """Breaks of links that are generated from the seed; both directions of a link break."""

    kind: Literal["break"] = Field(description="selects this type of fault")
    links: Links | None = Field(None, description="the links that may break, each [a, b]; default: all")


class PauseGenerator(DrawnTimes):
    """Pauses of nodes that are generated from the seed."""

    kind: Literal["pause"] = Field(description="selects this type of fault")
    nodes: NamesOr[FaultyGroup] = Field("all", description=f"which nodes may pause: {_GROUPS}")


class PartitionGenerator(DrawnTimes):
    """Partitions generated from the seed, one at a time: each cuts off a random node and the nodes nearest to it."""

    kind: Literal["partition"] = Field(description="selects this type of fault")
    share: Share = Field(
        0.5, description="proportion of nodes that a partition separates; it separates at least one node, and never all"
    )


class ReplaceGenerator(Strict):
    """Replacements of random links: each new link connects random nodes of the two parts of the tree."""

    kind: Literal["replace"] = Field(description="selects this type of fault")
    count: _Number = Field(description="number of replacements")
    rounds: _DownRounds | None = Field(None, description="first and last round of a break; default: 1 and time.rounds")
    after: Extra = Field(
        (0, 0), description="minimum and maximum number of rounds from a break until the new link exists"
    )


class FaultGenerator(Strict):
    """Faults that are generated from the seed or read from a trace."""

    generate: Annotated[
        CrashGenerator | BreakGenerator | PauseGenerator | PartitionGenerator | ReplaceGenerator, BY_KIND
    ] = Field(description="type, location and frequency of the faults")


Fault = Annotated[Crash | Pause | Loss | Break | Partition | Delay | Duplicate | Replace | FaultGenerator, BY_KIND]
