"""Link latencies that replace those of an overlay's own, as a part of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipelines.errors import OverlayError, Problem
from pipelines.spec.base import ORDERED, Composed, FilePath, Flag, LatencyRounds, Positive, Strict
from pipelines.spec.rules import one_of

LATENCY_SOURCES = ("rounds", "ms", "uniform", "lognormal_ms", "matrix", "pairs")
_MEASURED = ("unit", "round_trip", "per_direction", "zero_is_unknown", "missing")
_PAIRS = ("source", "destination", "value")


class Latency(Strict):
    """Where link latencies come from when the overlay's own are not wanted: exactly one of the choices."""

    rounds: LatencyRounds | None = Field(None, description="the same for every link, in rounds")
    ms: Positive | None = Field(None, description="the same for every link, in milliseconds")
    uniform: Annotated[tuple[LatencyRounds, LatencyRounds], ORDERED] | None = Field(
        None, description="drawn per link, in rounds, ends included"
    )
    lognormal_ms: tuple[Positive, Positive] | None = Field(None, description="drawn per link: median in ms, sigma")
    matrix: FilePath | None = Field(
        None,
        description="a file of latencies: CSV with the nodes' names, or numbers as of PlanetLab and King, also .gz",
    )
    pairs: FilePath | None = Field(
        None, description="a file with a row for each pair of nodes: its ends and the latency, as of WonderNetwork"
    )
    draw_rows: Flag = Field(False, description="matrix: the seed draws the row of each node, instead of by its name")
    source: Composed | None = Field(
        None, description="pairs: the column of one end; default: source, src, from and the like, else the first"
    )
    destination: Composed | None = Field(
        None,
        description="pairs: the column of the other end; default: destination, dst, to and the like, else the second",
    )
    value: Composed | None = Field(
        None,
        description="pairs: the column of the latency; default: latency, ms, rtt, avg and the like, else the third",
    )
    unit: Literal["us", "ms", "s"] = Field("ms", description="matrix, pairs: of the numbers")
    round_trip: Flag | None = Field(
        None,
        description="matrix, pairs: a link takes half of a number; default: true for a matrix and for columns that are "
        "called rtt, or avg, min, max as of ping",
    )
    per_direction: Flag = Field(
        False, description="matrix, pairs: a link takes to either end what the file says; else the mean of both"
    )
    zero_is_unknown: Flag = Field(False, description="matrix, pairs: 0 stands for a latency that is not known")
    missing: Literal["error", "mean", "draw"] = Field(
        "error",
        description="matrix, pairs: for links that the file does not know; mean: the mean of its latencies; draw: one "
        "of them, drawn",
    )

    @model_validator(mode="after")
    def _one_choice(self) -> Latency:
        one_of(self, LATENCY_SOURCES, "latency")
        problems = []
        if self.draw_rows and self.matrix is None:
            problems.append(Problem(("draw_rows",), "draw_rows is given without matrix; add that, or leave it out"))
        for names, needed in ((_PAIRS, ("pairs",)), (_MEASURED, ("matrix", "pairs"))):
            if all(getattr(self, name) is None for name in needed):
                problems += [
                    Problem((name,), f"{name} is given without {' or '.join(needed)}; add that, or leave it out")
                    for name in names
                    if name in self.model_fields_set
                ]
        if problems:
            raise OverlayError(*problems)
        return self
