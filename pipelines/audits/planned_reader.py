"""A small store on classic Spark: the answers of queries are fetched, and audits go on with them in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

from pyspark.sql import DataFrame

from pipelines.contract.audit import Reader
from pipelines.engines.inline import later
from pipelines.engines.materialise.base import Content
from pipelines.engines.materialise.here import done
from pipelines.engines.planner import Planner
from pipelines.engines.rows.evaluate import Held
from pipelines.engines.rows.kinds import UnknownPlanError
from pipelines.engines.rows.operators import most_rows


@dataclass(frozen=True)
class PlannedReader:
    """Reads a store with frames that are planned, see `engines.planner`.

    Attributes:
        reader: Reads it with classic frames.
        planner: The planner of its session.
    """

    reader: Reader
    planner: Planner
    _answers: dict[str, DataFrame] = field(default_factory=dict, repr=False)
    _answering: Lock = field(default_factory=Lock, repr=False)

    def table(self, name: str) -> DataFrame:
        """Returns a table or view."""
        return self._answer(name, self.reader.table)

    def sql(self, text: str) -> DataFrame:
        """Returns the answer of a query."""
        return self._answer(text, self.reader.sql)

    def is_finished(self) -> bool:
        """Returns whether the runs ended; otherwise more rounds may come."""
        return self.reader.is_finished()

    def _answer(self, asked: str, ask: Callable[[str], DataFrame]) -> DataFrame:
        """Returns the answer of a question; who asks again gets the same rows."""
        with self._answering:
            if asked not in self._answers:
                answer = ask(asked)
                made = done(_Answer(answer, self.planner))
                self._answers[asked] = later(self.planner.session, made, answer.schema)
            return self._answers[asked]


class _Answer:
    """The answer of a query.

    Attributes:
        frame: Reads it with Spark.
        content: Nothing is known before it is fetched.
    """

    def __init__(self, answer: DataFrame, planner: Planner) -> None:
        self.frame = planner.frame_of(answer)
        self.content = Content()
        self._answer = answer

    @property
    def held(self) -> Held:
        """Its rows, fetched once.

        Raises:
            UnknownPlanError: They are many.
        """
        if self._fetched is None:
            raise UnknownPlanError("many rows")
        return self._fetched

    @cached_property
    def _fetched(self) -> Held | None:
        most = most_rows()
        rows = self._answer.limit(most + 1).toArrow()
        return None if len(rows) > most else Held.of(rows, self._answer.schema)
