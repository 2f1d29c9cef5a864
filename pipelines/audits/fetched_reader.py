"""A small store: the answers of queries are fetched, and audits go on with them in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Lock

from pyspark.sql import DataFrame

from pipelines.contract.audit import Reader
from pipelines.engines.inline import later
from pipelines.engines.materialise.base import Content
from pipelines.engines.materialise.here import done
from pipelines.engines.planner import Planner
from pipelines.engines.rows.held import Held
from pipelines.engines.rows.kinds import UnknownPlanError
from pipelines.engines.session import Session
from pipelines.sql.small_store import SmallStoreReader, few_rows, rows_of


@dataclass(frozen=True)
class FetchedReader:
    """Reads a store with frames that have the rows of an answer; who asks again gets the same.

    Attributes:
        reader: Reads it with frames of the engine.
        fetched: Returns a frame of the rows that another one has.
    """

    reader: Reader
    fetched: Callable[[DataFrame], DataFrame]
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
        with self._answering:
            if asked not in self._answers:
                self._answers[asked] = self.fetched(ask(asked))
            return self._answers[asked]


def fetched_reader(reader: Reader, session: Session) -> Reader:
    """Returns what reads a small store with the rows of answers, and any other one as before.

    Args:
        reader: The store.
        session: The engine; on classic Spark it plans for a small store, see `engines.planner`.
    """
    if (planner := session.planner) is not None:
        return FetchedReader(reader, partial(_planned, planner))
    if isinstance(reader, SmallStoreReader):
        return FetchedReader(reader, partial(rows_of, session.spark))
    return reader


def _planned(planner: Planner, answer: DataFrame) -> DataFrame:
    """Returns a planned frame of an answer, which is fetched when it is needed first."""
    return later(planner.session, done(_Answer(answer, planner)), answer.schema)


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
        rows = few_rows(self._answer)
        return None if rows is None else Held.of(rows, self._answer.schema)
