"""How long nodes are up and down, drawn or recorded: parts of the ``faults`` of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag, model_validator
from typing_extensions import TypeAliasType

from pipelines.errors import FaultError, Problem
from pipelines.spec.base import FilePath, Flag, Positive, Strict, by_name


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


_RECORDED = ("system", "hours_per_round", "skip_hours", "shuffled")
_NAMED = ("named", "simgrid")


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
        0.0, description="fta, lanl: hours of the trace that are over when the rounds begin"
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
