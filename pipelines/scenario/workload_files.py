"""Files of subscriptions and publications, as parts of a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from pipelines.contract.settings import Count, FilePath, Flag, Nodes, Round, Strict, by_form, nodes_form
from pipelines.errors import Problem, WorkloadError

ColumnOrRound = Annotated[
    Annotated[str, Field(min_length=1), Tag("<text>")] | Annotated[Round, Tag("<number>")], by_form(nodes_form)
]


class _TimedFile(Strict):
    at_ms: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="in place of round: column of the time, ms from the start or timestamps: ISO 8601, or numbers from "
        "1970 in s, ms, us or ns",
    )
    unit: Literal["s", "ms", "us", "ns"] | None = Field(
        None, description="of the numbers in at_ms and until_ms; default: ms from the start, and found for timestamps"
    )

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        given, problems = self.model_fields_set, []
        for key, other in (("at_ms", "round"), ("until_ms", "until")):
            if getattr(self, key, None) is not None and other in given and getattr(self, other) is not None:
                message = f"{key} and {other} are given; allowed: one of the two, so leave one out"
                problems.append(Problem((key,), message))
        if self.unit is not None and self.at_ms is None and getattr(self, "until_ms", None) is None:
            problems.append(Problem(("unit",), "unit is given without at_ms; add that, or leave unit out"))
        if problems:
            raise WorkloadError(*problems)
        return self


class SubscriptionFile(_TimedFile):
    """Subscriptions from a CSV file, JSON lines or Parquet, one row each (e.g. Last.fm ``user_artists.dat``)."""

    path: FilePath = Field(description="the file, beside the scenario or in the installed data")
    format: Literal["csv", "tsv", "jsonl", "parquet"] | None = Field(
        None,
        description="csv: any delimiter; tsv: tabs, no quotes; jsonl: an object a line; default: by the file's name",
    )
    node: str = Field("node", description="column whose distinct values are spread over `nodes`, or are node names")
    topic: str | None = Field(None, description="column of the topic")
    where: str | None = Field(None, description="column of the predicate")
    round: ColumnOrRound = Field(0, description="column, or one round for all")
    until: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="column of the round of the unsubscribe call; a row without it stays"
    )
    until_ms: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="column of the time of the unsubscribe call, as at_ms"
    )
    nodes: Nodes | None = Field(
        None, description="spread the column's values over these nodes; without it they are names"
    )
    limit: Count | None = Field(None, description="number of rows to read, from the first on")


class PublicationFile(_TimedFile):
    """Publications from a CSV file, JSON lines or Parquet, or PADRES quotes (``[class,'STOCK'],[symbol,'A'],...``)."""

    path: FilePath = Field(description="the file, beside the scenario or in the installed data")
    format: Literal["csv", "tsv", "jsonl", "parquet", "padres"] | None = Field(
        None,
        description="csv: any delimiter; tsv: tabs, no quotes; jsonl: an object a line; default: by the file's name",
    )
    node: str | None = Field(
        None, description="column whose distinct values are spread over `nodes`, or are node names"
    )
    topic: str | None = Field(None, description="column (attribute) of the topic")
    content: list[str] | None = Field(None, description="columns of the content; default: all other columns")
    round: ColumnOrRound = Field(0, description="column, or the first round; then `per_round` rows a round")
    per_round: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = Field(
        1, description="rows published in a round"
    )
    reverse: Flag = Field(False, description="the file is newest first: publish it backwards (PADRES)")
    nodes: Nodes | None = Field(
        None, description="spread the column's values over these nodes; without it they are names"
    )
    limit: Count | None = Field(None, description="number of rows to read, from the first on")
