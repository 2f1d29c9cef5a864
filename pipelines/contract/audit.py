"""Audits: guarantees as queries over the tables and views of a store.

An audit reads only the store, not the memory of the round engine. An audit can therefore be repeated wherever the store
is available. One query covers all runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from itertools import takewhile
from threading import RLock
from typing import TYPE_CHECKING, Protocol as Structural, cast
from uuid import uuid4

import sqlglot
from sqlglot.errors import SqlglotError

from pipelines.errors import QueryError
from udfs.batches import BEYOND

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pipelines.engines.checkpoints import Checkpoints

FOUND = ("run_id", "round", "node_id", "source", "source_seq", "detail")
"""The columns of a violation: the columns of table ``violation`` except ``guarantee`` and ``excused``."""
_REQUIRED = ("run_id", "node_id", "detail")

SLOW_CRASHING_RUN = """
select c.run_id, greatest(min(c.round), min(l.round)) as round,
  'nodes crash, and messages take longer than links do or wait for nodes that pause' as reason
from fault_event c
join fault_event l on l.run_id = c.run_id and l.kind in ('delay', 'reorder', 'pause')
where c.kind = 'crash'
group by c.run_id
"""
"""SQL for runs with both crashes and slow messages: ``run_id, round, reason``.

Protocols whose timers depend on link latencies use this query as a part of `Protocol.bound`, because their fault models
exclude these runs.
"""


class Reader(Structural):
    """A store whose tables and views can be read by name and by SQL."""

    def table(self, name: str) -> DataFrame:
        """Returns the table or view `name` of the store."""

    def sql(self, text: str) -> DataFrame:
        """Returns the result of query `text` over the tables and views of the store."""

    def is_finished(self) -> bool:
        """Returns whether all runs of the store have ended."""


def arrow_rows(
    rows: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    columns: Sequence[tuple[str, str]],
) -> DataFrame:  # fmt: skip
    """Applies an Arrow function to `rows`. `columns` contains the names and SQL types of its output columns."""
    return rows.mapInArrow(function, ", ".join(f"{name} {kind}" for name, kind in columns))


class Evidence:
    """The input of audits: the tables and views of a store, and the relations that audits share.

    SQL reads a relation by name, like a table. The rows of a relation are computed at the first read and then cached.
    """

    def __init__(self, reader: Reader, checkpoints: Checkpoints, relations: Mapping[str, Relation]) -> None:
        """Stores `relations` without computing them. A relation may read the preceding relations in `relations`."""
        self.reader = reader
        self.checkpoints = checkpoints
        self._relations = relations
        self._prefix = f"audit_{uuid4().hex[:12]}"
        self._kept: dict[str, DataFrame] = {}
        self._keeping = RLock()

    def __enter__(self) -> Evidence:
        """Returns the evidence itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drops the temporary views of the relations. The frames of the relations stay readable."""
        for name in self._kept:
            self.checkpoints.session.spark.catalog.dropTempView(f"{self._prefix}_{name}")

    def sql(self, text: str) -> DataFrame:
        """Returns the result of query `text` over the tables and views of the store, and the relations."""
        return self._answer(text, self._relations)

    def paths(self, link: DataFrame, max_hops: int) -> DataFrame:
        """Returns the paths of at most `max_hops` links in trees, as `engines.paths.delta_paths` does."""
        from pipelines.engines.paths import delta_paths  # imports PySpark

        return delta_paths(self.checkpoints.session, link, max_hops)

    def _answer(self, text: str, relations: Iterable[str]) -> DataFrame:
        words = frozenset(re.findall(r"\w+", re.sub(r"--[^\n]*", "", text)))
        read = [name for name in relations if name in words]
        for name in read:
            self._relation(name)
        views = [f"{name} as (select * from {self._prefix}_{name})" for name in read]  # noqa: S608 - names of relations
        return self.reader.sql(f"with {', '.join(views)} (\n{text}\n)" if views else text)

    def _relation(self, name: str) -> DataFrame:
        with self._keeping:
            if name not in self._kept:
                relation = self._relations[name]
                before = takewhile(lambda other: other != name, self._relations)
                found = self._answer(relation, before) if isinstance(relation, str) else relation(self)
                self._kept[name] = self.checkpoints(f"audit_{name}", found)
                self._kept[name].createOrReplaceTempView(f"{self._prefix}_{name}")
            return self._kept[name]


Relation = str | Callable[[Evidence], "DataFrame"]
"""The definition of a relation that several audits read: SQL over the history and the preceding relations, or a
function of an `Evidence`.
"""


def sql_files(package: str) -> dict[str, str]:
    """Returns the SQL files of a package, by name without the suffix."""
    entries = (entry for entry in files(package).iterdir() if entry.name.endswith(".sql"))
    return {entry.name.removesuffix(".sql"): entry.read_text("utf-8") for entry in entries}


@dataclass(frozen=True)
class Audit:
    """A guarantee, and the query that finds its violations.

    Attributes:
        name: The name of the guarantee.
        summary: One line for ``roundtable list audits``.
        find: SQL over the history and the relations. It returns the violations (columns `FOUND`). ``round``,
            ``source`` and ``source_seq`` may be null or missing.
        is_unconditional: Whether the guarantee holds under all faults. No violation is then excused.
        is_of_deliveries: Whether violations are deliveries, and ``round`` is the round of the delivery. Faults after
            this round do not excuse a delivery.
        is_dated: Whether ``round`` is the round of the violation. Faults after this round do not excuse the violation.
    """

    name: str
    summary: str
    find: str
    is_unconditional: bool = False
    is_of_deliveries: bool = False
    is_dated: bool = False

    def statement(self, evidence: Evidence) -> str:
        """Returns SQL for the violations: ``guarantee``, which is the name of the audit, and all columns `FOUND`.

        Raises:
            QueryError: The result of ``find`` lacks a required column.
        """
        columns: Sequence[str] = result_columns(self.find)
        if not {*_REQUIRED} <= {*columns}:
            columns = evidence.sql(self.find).columns  # or the error of the engine, which names the wrong part
        if missing := [name for name in _REQUIRED if name not in columns]:
            has = f"the result has the columns {', '.join(columns)}"
            raise QueryError(f"the audit returns no column {missing[0]!r}; {has}; required: {', '.join(_REQUIRED)}")
        selected = ", ".join(name if name in columns else f"cast(null as bigint) as {name}" for name in FOUND)
        return f"select '{self.name}' as guarantee, {selected} from (\n{self.find}\n) found"  # noqa: S608 - an audit


@cache
def result_columns(text: str) -> tuple[str, ...]:
    """Returns the names of the result columns of a query; empty for ``*``, or if the parser does not accept it."""
    try:
        names = cast(sqlglot.exp.Query, sqlglot.parse_one(text, dialect="spark")).named_selects
    except SqlglotError:
        return ()
    return () if "*" in names else tuple(name.lower() for name in names)


_HEADER = re.compile(r"-- audit((?:, \w+)*): (.+)")
_FLAGS = tuple(field.name for field in fields(Audit) if field.default is False)


def sql_audits(package: str) -> tuple[Audit, ...]:
    """Returns an audit for each SQL file of `package` that starts with ``-- audit: summary``, by name.

    The word ``audit`` can be followed by names of boolean fields of `Audit`, which are then set:
    ``-- audit, is_unconditional: no copy goes back to its sender``.

    Raises:
        ValueError: A file starts with ``-- audit``, but its first line has a wrong syntax or an unknown flag.
    """
    audits = []
    for name, text in sorted(sql_files(package).items()):
        if not text.startswith("-- audit"):
            continue
        header = _HEADER.match(text)
        flags = header[1].split(", ")[1:] if header else []
        if header is None or not {*flags} <= {*_FLAGS}:
            allowed = f"allowed: -- audit: summary, or with flags ({', '.join(_FLAGS)}): -- audit, is_dated: summary"
            raise ValueError(f"{package}, {name}.sql starts with {text.splitlines()[0]!r}; {allowed}")
        audits.append(Audit(name, header[2], text, **dict.fromkeys(flags, True)))
    return tuple(audits)


def arrow_bound(
    text: str, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> Callable[[Reader], DataFrame]:
    """Returns a function for `Protocol.bound`: applies an Arrow function to the result of query `text`.

    The function returns columns `udfs.batches.BEYOND`.
    """
    return lambda reader: arrow_rows(reader.sql(text), function, BEYOND)
