"""The ``faults`` of a scenario: crashes, pauses, recorded outages, and generators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from typing_extensions import TypeAliasType

from pipelines.contract.settings import (
    ORDERED,
    FilePath,
    Flag,
    NodeName,
    Positive,
    Round,
    Share,
    Strict,
    by_form,
    by_name,
    end_problems,
    one_of,
    repetition_problems,
)
from pipelines.errors import FaultError, Problem, nearest
from pipelines.scenario.link_faults import Break, Delay, Duplicate, Extra, Links, Loss, Partition, Replace
from pipelines.scenario.times import TimedSpan

_RECORDED = ("system", "hours_per_round", "skip_hours", "shuffled")
_NAMED = ("named", "simgrid")
_ONLY_COUNT = ("down", "consecutive", "stagger")
_DownRound = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
_GENERATOR = "<<generate>>"


class Exponential(Strict):
    """Times without memory."""

    kind: Literal["exponential"] = Field(description="the distribution")
    mean: Positive = Field(description="in rounds")


class Weibull(Strict):
    """Times by a Weibull distribution; with a shape below 1 many are short and some very long."""

    kind: Literal["weibull"] = Field(description="the distribution")
    shape: Annotated[float, Field(ge=0.05, le=100.0, strict=True)] = Field(description="below 1: heavy tail")
    scale: Positive = Field(description="in rounds")


class Pareto(Strict):
    """Times by a Pareto distribution: at least the scale, with a tail of a power; shape 1 or less has no mean."""

    kind: Literal["pareto"] = Field(description="the distribution")
    shape: Annotated[float, Field(ge=0.05, le=100.0, strict=True)] = Field(
        description="the smaller, the heavier the tail"
    )
    scale: Positive = Field(description="the shortest time, in rounds")


class LogNormal(Strict):
    """Times whose logarithm is normal."""

    kind: Literal["lognormal"] = Field(description="the distribution")
    mu: Annotated[float, Field(ge=-100.0, le=100.0, strict=True)] = Field(
        description="mean of the natural logarithm of the time in rounds"
    )
    sigma: Annotated[float, Field(gt=0.0, le=20.0, strict=True)] = Field(description="its standard deviation")


Times = TypeAliasType(
    "Times",
    Annotated[
        Annotated[Exponential, Tag("<exponential>")]
        | Annotated[Weibull, Tag("<weibull>")]
        | Annotated[Pareto, Tag("<pareto>")]
        | Annotated[LogNormal, Tag("<lognormal>")],
        by_name("kind"),
    ],
)


class CrashRate(Strict):
    """Every node alternates between up and down, from up on; each time is drawn, in whole rounds, at least one."""

    up: Times = Field(description="how long a node stays up")
    down: Times | None = Field(None, description="how long it stays down; without it a node that crashed stays down")


class CrashTrace(Strict):
    """Outages that were recorded: of named nodes, or of nodes of a trace, which lend theirs to drawn nodes."""

    path: FilePath = Field(description="the file, beside the scenario or in the installed data; also .gz or .xz")
    format: Literal["fta", "lanl", "named", "simgrid"] | None = Field(
        None,
        description="fta: Failure Trace Archive event_trace.tab (Grid'5000); lanl: LANL CSV; named: a table with the "
        "columns node, down and up, empty where a node stays down; simgrid: a state profile, for all nodes that may "
        "crash; default: by its titles",
    )
    unit: Literal["round", "ms", "s", "min", "h"] | None = Field(
        None,
        description="named, simgrid: of its times; default: round, of simgrid s; timestamps need none",
    )
    system: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] | None = Field(
        None, description="lanl: only the nodes of this system"
    )
    hours_per_round: Annotated[float, Field(ge=1e-6, le=1e6, strict=True)] = Field(
        1.0, description="fta, lanl: hours of the trace that pass in a round"
    )
    skip_hours: Annotated[float, Field(ge=0.0, le=1e9, strict=True)] = Field(
        0.0, description="fta, lanl: hours at the start of the trace that are skipped"
    )
    shuffled: Flag = Field(
        False,
        description="fta, lanl: each node's own up and down times in random order, so that outages are independent",
    )

    @model_validator(mode="after")
    def _fits_format(self) -> CrashTrace:
        problems = []
        for name in _RECORDED if self.format in _NAMED else ():
            if name in self.model_fields_set:
                message = f"{name} belongs to fta and lanl; leave it out, or change the format"
                problems.append(Problem((name,), message))
        if self.unit is not None and self.format in ("fta", "lanl"):
            problems.append(Problem(("unit",), "unit belongs to named and simgrid; set hours_per_round instead"))
        if self.format == "fta" and self.system is not None:
            problems.append(Problem(("system",), "system belongs to format lanl; leave it out, or change the format"))
        if problems:
            raise FaultError(*problems)
        return self


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
    until: Round = Field(description="the round in which it resumes and handles all pending messages")

    @model_validator(mode="after")
    def _ends_later(self) -> Pause:
        problems = list(end_problems(self.round, self.until))
        if problems:
            raise FaultError(*problems)
        return self


def _nodes_form(value: Any) -> str | None:  # noqa: ANN401 - any value of the file
    return "<list>" if isinstance(value, (list, tuple)) else "<text>" if isinstance(value, str) else None


class CrashGenerator(Strict):
    """Crashes made from the seed, or taken from a trace: exactly one of count, rate, trace."""

    kind: Literal["crash"] = Field(description="what goes wrong")
    count: Annotated[int, Field(ge=0, le=10_000, strict=True)] | None = Field(
        None, description="exact number of crashes, at drawn rounds and nodes; with consecutive: number of chains"
    )
    rate: CrashRate | None = Field(None, description="how long each node is up and down, alternately")
    trace: CrashTrace | None = Field(None, description="outages that were recorded")
    rounds: Annotated[tuple[Round, Round], ORDERED] | None = Field(
        None, description="first and last round of crashes; default: 0 and time.rounds"
    )
    nodes: Annotated[
        Annotated[list[NodeName], Field(min_length=1), Tag("<list>")]
        | Annotated[Literal["all", "leaves", "inner", "clients"], Tag("<text>")],
        by_form(_nodes_form),
    ] = Field(
        "all",
        description="which nodes may crash: names, all, leaves, clients, or inner: brokers without a client"
        " (all brokers of an overlay without clients)",
    )
    spare: list[NodeName] = Field(default_factory=list, description="nodes that never crash")
    at_most: Round | None = Field(
        None,
        description="largest number of nodes that are not operational at once, counted with the crashes that are listed"
        " and those of generators before this one; count then looks for room, rate and trace leave crashes out",
    )
    recovery: Round | None = Field(
        None,
        description="at_most: rounds after its recovery for which a node still counts; default: 20 times the largest"
        " latency of a link",
    )
    down: Annotated[tuple[_DownRound, _DownRound], ORDERED] | None = Field(
        None, description="count: fewest and most rounds for which a node is down, drawn; without it: for good"
    )
    consecutive: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        1, description="count: length of a chain, i.e. of a path of neighbours that are down for the same time"
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
        None, description="exact number of faults, at drawn rounds and nodes or links"
    )
    rate: CrashRate | None = Field(None, description="how long each node or link works and fails, alternately")
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
    count: Annotated[int, Field(ge=0, le=10_000, strict=True)] = Field(description="exact number of replacements")
    rounds: Annotated[tuple[_DownRound, _DownRound], ORDERED] | None = Field(
        None, description="first and last round of a break; default: 1 and time.rounds"
    )
    after: Extra = Field((0, 0), description="fewest and most rounds from a break until the other link exists")


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


def _fault_tag(value: Any) -> str | None:  # noqa: ANN401 - any value of the file
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
