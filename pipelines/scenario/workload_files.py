"""The models of files with subscriptions or publications in a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.settings import BY_FORM, Count, FilePath, Flag, Nodes, Round, Strict
from pipelines.errors import Problem

ColumnOrRound = Annotated[Annotated[str, Field(min_length=1)] | Round, BY_FORM]


class _RowFile(Strict):
    path: FilePath = Field(description="the file, beside the scenario or in the installed data")
    at_ms: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="replaces round; column of the time: ISO 8601 timestamps, or numbers; numbers count from 1970 if "
        "this dates all of them after July 1998, else from the start of the run",
    )
    unit: Literal["s", "ms", "us", "ns"] | None = Field(
        None,
        description="unit of the numbers in columns at_ms and until_ms; default: ms from the start of the run, or the "
        "detected unit of numbers from 1970",
    )
    nodes: Nodes | None = Field(
        None,
        description="the nodes to which the values of column `node` are mapped; default: the values are names of nodes",
    )
    limit: Count | None = Field(None, description="read only this number of rows, from the first row on")

    def _problems(self) -> Iterator[Problem]:
        for key, other in (("at_ms", "round"), ("until_ms", "until")):
            is_given = other in self.model_fields_set and getattr(self, other) is not None
            if getattr(self, key, None) is not None and is_given:
                yield Problem((key,), f"{key} and {other} are given; allowed: one of the two, so leave one out")
        if self.unit is not None and self.at_ms is None and getattr(self, "until_ms", None) is None:
            yield Problem(("unit",), "unit is given without at_ms; add that, or leave unit out")


class SubscriptionFile(_RowFile):
    """Subscriptions from CSV, JSON lines or Parquet, one subscription per row (e.g. Last.fm ``user_artists.dat``)."""

    format: Literal["csv", "tsv", "jsonl", "parquet"] | None = Field(
        None,
        description="csv: any delimiter; tsv: tabs, no quotes; jsonl: a JSON object per line; default: determined by "
        "the file's name",
    )
    node: str = Field(
        "node",
        description="column of the calling node: its name, or, if nodes is set, a value that is mapped to one of "
        "these nodes",
    )
    topic: str | None = Field(None, description="column of the topic")
    where: str | None = Field(None, description="column of the predicate")
    round: ColumnOrRound = Field(0, description="column of the round, or one round for all rows")
    until: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="column of the round of the unsubscribe call; empty: the subscription does not end"
    )
    until_ms: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="replaces until; column of the time of the unsubscribe call, with values as in at_ms"
    )


class PublicationFile(_RowFile):
    """Publications from CSV, JSON lines, Parquet, or PADRES quotes (``[class,'STOCK'],[symbol,'A'],...``)."""

    format: Literal["csv", "tsv", "jsonl", "parquet", "padres"] | None = Field(
        None,
        description="csv: any delimiter; tsv: tabs, no quotes; jsonl: a JSON object per line; default: determined by "
        "the file's name",
    )
    node: str | None = Field(
        None,
        description="column of the calling node: its name, or, if nodes is set, a value that is mapped to one of "
        "these nodes",
    )
    topic: str | None = Field(None, description="column of the topic; format padres: attribute of the topic")
    content: list[str] | None = Field(None, description="columns of the content; default: all other columns")
    round: ColumnOrRound = Field(
        0,
        description="column of the round; or a number, the first round: each round gets the next `per_round` rows of "
        "the file",
    )
    per_round: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        1, description="number of rows that each round gets, if round is a number"
    )
    reverse: Flag = Field(
        False, description="publish the last row of the file first; for files whose first row is the newest (PADRES)"
    )
