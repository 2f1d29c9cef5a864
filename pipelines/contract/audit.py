"""What an audit is, and what it may read.

An audit looks at the store's tables and views only, never at what the round engine holds in memory: whoever has the
store can check again. It reads all runs in one query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol as Structural

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pipelines.engines.checkpoints import Checkpoints

FOUND = ("run_id", "round", "node_id", "source", "source_seq", "detail")
"""Columns of a violating row: table ``violation`` without ``guarantee`` and ``excused``."""

IN_FLIGHT_RUN = """
select distinct m.run_id from sent_message m
join run r on r.run_id = m.run_id
join protocol p on p.name = r.protocol
where m.fate = 'in_flight' and not array_contains(p.maintenance, m.kind)
"""
"""SQL for the runs that ended, or were interrupted, before they were quiescent: ``run_id``."""

_SLOW = "kind in ('delay', 'reorder', 'pause')"
SLOW_RUN = f"select distinct run_id from fault_event where {_SLOW}"  # noqa: S608 - built of constants
"""SQL for the runs in which messages may take longer than their links do: ``run_id``."""

SLOW_CRASHING_RUN = f"""
select c.run_id, greatest(min(c.round), min(l.round)) as round,
  'nodes crash, and messages take longer than links do or wait for nodes that pause' as reason
from fault_event c
join fault_event l on l.run_id = c.run_id and l.{_SLOW}
where c.kind = 'crash'
group by c.run_id
"""  # noqa: S608 - built of constants
"""SQL for the bound of protocols whose timers go by the latencies of links: ``run_id, round, reason``."""


class Reader(Structural):
    """A store that is read by table name and by SQL."""

    def table(self, name: str) -> DataFrame:
        """Returns a table or view."""
        ...

    def sql(self, text: str) -> DataFrame:
        """Returns the answer of a query over the tables and views, which it calls by their bare names."""
        ...

    def is_finished(self) -> bool:
        """Returns whether its runs ended; otherwise more rounds may come."""
        ...


def arrow_rows(
    rows: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    columns: Sequence[tuple[str, str]],
) -> DataFrame:  # fmt: skip
    """Returns the rows that an Arrow function returns.

    Args:
        rows: Any rows.
        function: Takes and returns batches of rows.
        columns: The columns that it returns, with their SQL types.
    """
    return rows.mapInArrow(function, ", ".join(f"{name} {kind}" for name, kind in columns))


def aggregated(rows: DataFrame, keys: Sequence[str], *columns: str) -> DataFrame:
    """Returns a row for each combination of the keys, with aggregates.

    Args:
        rows: Any rows.
        keys: The columns to group by.
        columns: SQL aggregates with their names, e.g. ``sum(held) as n_held``.
    """
    from pyspark.sql import functions as F  # loads PySpark

    return rows.groupBy(*keys).agg(*(F.expr(column) for column in columns))


@dataclass(frozen=True)
class Evidence:
    """What audits may read.

    Attributes:
        reader: The store.
        parameters: The distinct parameters of its runs: path to value, as in column ``parameters`` of table ``run``.
        undecided: ``run_id`` of the runs that ended before what they are held to could be told (`Protocol.undecided`).
        checkpoints: Keeps what several audits read.
    """

    reader: Reader
    parameters: Sequence[Mapping[str, Any]]
    undecided: DataFrame
    checkpoints: Checkpoints
    _kept: dict[str, DataFrame] = field(default_factory=dict, repr=False)
    _asked: dict[str, DataFrame] = field(default_factory=dict, repr=False)
    _keeping: RLock = field(default_factory=RLock, repr=False)

    def table(self, name: str) -> DataFrame:
        """Returns a table or view of the store."""
        return self._once(name, self.reader.table)

    def sql(self, text: str) -> DataFrame:
        """Returns the answer of a query over the store."""
        return self._once(text, self.reader.sql)

    def _once(self, asked: str, ask: Callable[[str], DataFrame]) -> DataFrame:
        """Returns an answer; the engine looks at the same question once."""
        with self._keeping:
            if asked not in self._asked:
                self._asked[asked] = ask(asked)
            return self._asked[asked]

    def paths(self, link: DataFrame, max_hops: int) -> DataFrame:
        """Returns all δ-paths of trees; arguments and rows as in `delta_paths`."""
        from pipelines.engines.paths import delta_paths  # loads PySpark

        return delta_paths(self.checkpoints.session, link, max_hops)

    def keep(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Materialises a frame under a name; a second call for the name gets the rows without computing them."""
        with self._keeping:
            if name not in self._kept:
                self._kept[name] = self.checkpoints.keep(f"audit_{name}", make())
            return self._kept[name]

    def busy_runs(self) -> DataFrame:
        """Returns ``run_id`` of the runs that ended with messages in flight, or before all could be told."""
        return self.sql(IN_FLIGHT_RUN).unionByName(self.undecided).distinct()


@dataclass(frozen=True)
class Audit:
    """A guarantee that can be checked.

    Attributes:
        name: Name of the guarantee.
        summary: One line for ``roundtable list audits``.
        find: The violating rows, columns `FOUND`: SQL over the history, or a function that returns them; no rows where
            the guarantee holds. ``round``, ``source`` and ``source_seq`` are null where the guarantee is about none.
        is_unconditional: Whether it holds under all faults, so that no violation is excused.
        is_of_deliveries: Whether a row of a delivery, by its round, is a delivery that breaks it: what goes beyond the
            bound later excuses none.
        is_dated: Whether ``round`` is the round in which the guarantee was broken, so that faults of later rounds
            excuse no row.
    """

    name: str
    summary: str
    find: str | Callable[[Evidence], DataFrame]
    is_unconditional: bool = False
    is_of_deliveries: bool = False
    is_dated: bool = False

    def rows(self, evidence: Evidence) -> DataFrame:
        """Returns the violating rows of a store, columns `FOUND`."""
        found = evidence.sql(self.find) if isinstance(self.find, str) else self.find(evidence)
        return found.select(*FOUND)


REPEATED = """
select run_id, max(round) as round, subscriber as node_id, source, source_seq,
  concat('delivered ', count(1), ' times, first in round ', min(round), ', last in round ', max(round)) as detail
from delivery
group by run_id, subscriber, source, source_seq
having count(1) > 1
"""
"""A delivery that happened more than once."""


UNWANTED = """
select d.run_id, d.round, d.subscriber as node_id, d.source, d.source_seq,
  concat('delivered in round ', d.round, ' to a node without a matching subscription in that round') as detail
from delivery d
left join (
  select m.run_id, m.source, m.source_seq, s.subscriber, s.issued_round,
    coalesce(s.ended_round, 9223372036854775807) as last_round
  from matching m
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
) wanted on wanted.run_id = d.run_id and wanted.source = d.source and wanted.source_seq = d.source_seq
  and wanted.subscriber = d.subscriber and d.round between wanted.issued_round and wanted.last_round
where wanted.subscriber is null and d.source_seq > 0
"""
"""A delivery that nobody asked for; in the round in which a subscription ends, one may have come before the end.

Publications from before the first round have numbers below 1: no call says who asked for them.
"""
