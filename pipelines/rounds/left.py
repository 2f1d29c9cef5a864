"""What rounds leave behind, until the next commit writes it.

Rows that are worked out in this process become Arrow tables at once, ready to be written, and the relations that they
are made of are freed. All else stays a plan over its round's relations, which are held until then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from pipelines.contract.round import CALL_EVENT, DELIVERY, NODE_STATUS
from pipelines.engines.materialise.base import Materialiser, Relation
from pipelines.engines.planner import fetched, union
from pipelines.tables import DELIVERY as DELIVERIES, MESSAGE, NODE_STATUS as STATUSES, ROUND_METRIC

_EVENTS: Final = {"delivery": DELIVERY, "node_status": NODE_STATUS, "call_event": CALL_EVENT}
_FATE: Final = "fate"
_WRITTEN: Final = {table.name: table.schema for table in (MESSAGE, ROUND_METRIC, DELIVERIES, STATUSES)}
"""The columns of the tables that get rows as they are."""
_PREFIX: Final = "left_"


@dataclass
class RoundRows:
    """What one round leaves behind.

    Attributes:
        inbox: The messages that were due.
        fate: Those that the protocol dropped (``run_id, message_id, fate``), if any.
        events: Frames ``delivery``, ``call_event``, ``node_status`` as far as the round has any.
        held: The relations that all of these read.
        kept: The relations that only ``fate`` and the events read.
    """

    inbox: DataFrame | None
    fate: DataFrame | None
    events: Mapping[str, DataFrame]
    held: list[Relation] = field(default_factory=list)
    kept: list[Relation] = field(default_factory=list)


@dataclass
class Rows:
    """Rows of a table that wait to be written.

    Attributes:
        tables: Those that are here.
        frames: Those that an engine makes.
    """

    tables: list[pa.Table] = field(default_factory=list)
    frames: list[DataFrame] = field(default_factory=list)

    @property
    def table(self) -> pa.Table | None:
        """The rows that are here, if there are any."""
        return pa.concat_tables(self.tables) if self.tables else None

    @property
    def frame(self) -> DataFrame | None:
        """The rows that an engine makes, if there are any."""
        return union(self.frames) if self.frames else None


class Left:
    """Collects what rounds leave behind.

    Attributes:
        n_rounds: How many rounds there are.
    """

    def __init__(self, materialiser: Materialiser, body: str) -> None:
        """Starts without rounds.

        Args:
            materialiser: Keeps relations.
            body: The protocol's SQL for column ``body`` of table ``message``.
        """
        self.n_rounds = 0
        self._materialiser = materialiser
        own = {"fate": "outcome as fate", "body": f"{body} as body"}
        self._message = [own.get(name, name) for name in MESSAGE.columns]
        self._rows: dict[str, Rows] = defaultdict(Rows)
        self._held: list[Relation] = []
        materialiser.declare({f"{_PREFIX}{name}": schema for name, schema in _WRITTEN.items()})

    @property
    def n_bytes(self) -> int:
        """How much room the rows take that wait, and the relations that they read."""
        here = sum(int(table.nbytes) for rows in self._rows.values() for table in rows.tables)
        return here + sum(one.content().n_bytes for one in self._held)

    def add(self, rows: RoundRows) -> None:
        """Takes what a round leaves behind."""
        self.n_rounds += 1
        fate, left = rows.fate, {name: frame.select(*_EVENTS[name]) for name, frame in rows.events.items()}
        settled = self._settled(left if fate is None else {**left, _FATE: fate})
        if settled is None:
            self._held += rows.kept
            for name, frame in left.items():
                self._rows[name].frames.append(frame)
        else:
            _release(rows.kept)
            fate = settled[_FATE].frame if _FATE in settled else None
            for name, relation in settled.items():
                self._put(name, relation)
        is_inbox_here = rows.inbox is None or self._add_messages(_with_outcome(rows.inbox, fate))
        if settled is not None and is_inbox_here:
            _release(rows.held)
        else:
            self._held += rows.held

    def add_tables(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes what several rounds leave behind, as tables ``message`` and those of the events."""
        self.n_rounds += 1
        for name, table in tables.items():
            if name == MESSAGE.name:
                self._put_messages(table)
            else:
                self._rows[name].tables.append(table)

    def add_in_flight(self, rest: DataFrame | pa.Table) -> None:
        """Takes the messages that are still in flight after the last round: a frame of them, or their rows."""
        if isinstance(rest, pa.Table):
            self._put_messages(rest)
        else:
            self._add_messages(rest.selectExpr("*", "coalesce(fate, 'in_flight') as outcome"))

    def _put_messages(self, message: pa.Table) -> None:
        """Takes rows of table ``message``."""
        self._rows[MESSAGE.name].tables.append(message)
        self._rows[ROUND_METRIC.name].tables.append(_counted(message))

    def _add_messages(self, frame: DataFrame) -> bool:
        """Takes messages with their ``outcome``; returns whether their rows are here now."""
        message = frame.selectExpr(*self._message)
        settled = self._settled({MESSAGE.name: message})
        if settled is None:
            self._rows[MESSAGE.name].frames.append(message)
            return False
        relation = settled[MESSAGE.name]
        self._put_messages(_table(relation))
        relation.release()
        return True

    def _settled(self, frames: Mapping[str, DataFrame]) -> dict[str, Relation] | None:
        """Returns what can be worked out here as relations: all of it, or None."""
        found = self._materialiser.settled({f"{_PREFIX}{name}": frame for name, frame in frames.items()})
        return None if found is None else {name: found[f"{_PREFIX}{name}"] for name in frames}

    def _put(self, name: str, relation: Relation) -> None:
        """Takes rows that are here: as a table what is written as it is, as a relation what is read before."""
        if name in _WRITTEN:
            self._rows[name].tables.append(_table(relation))
            relation.release()
        else:
            self._rows[name].frames.append(relation.frame)
            self._held.append(relation)

    def call_events(self) -> pa.Table | None:
        """Returns the steps in the life of calls, columns of `CALL_EVENT`; None: there are none."""
        rows = self._rows["call_event"]
        tables = [*rows.tables, *(() if (frame := rows.frame) is None else (fetched(frame),))]
        return pa.concat_tables(table.select(CALL_EVENT) for table in tables) if tables else None

    def written(self) -> dict[str, Rows]:
        """Returns the rows of tables that get them as they are, by table."""
        found = {name: self._rows[name] for name in _WRITTEN}
        messages = found[MESSAGE.name].frame
        if messages is not None:
            found[ROUND_METRIC.name].frames.append(round_metrics(messages))
        return {name: rows for name, rows in found.items() if rows.tables or rows.frames}

    def clear(self) -> None:
        """Forgets all rounds, which have been written."""
        _release(self._held)
        self._held.clear()
        self._rows.clear()
        self.n_rounds = 0


def _with_outcome(inbox: DataFrame, fate: DataFrame | None) -> DataFrame:
    """Returns messages that were due with what became of each."""
    if fate is None:
        return inbox.selectExpr("*", "coalesce(fate, 'delivered') as outcome")
    dropped = fate.selectExpr("run_id", "message_id", "fate as dropped")
    return inbox.join(dropped, ["run_id", "message_id"], "left").selectExpr(
        "*", "coalesce(fate, dropped, 'delivered') as outcome"
    )  # fmt: skip


def _counted(message: pa.Table) -> pa.Table:
    """Returns what `round_metrics` does, of rows that are here."""
    counted = message.group_by(["run_id", "due_round", "kind", "fate"]).aggregate([([], "count_all")])
    return counted.rename_columns({"due_round": "round", "count_all": "n_messages"}).select(ROUND_METRIC.columns)


def round_metrics(message: DataFrame) -> DataFrame:
    """Counts messages by the round they were due in, kind and fate: rows of table ``round_metric``.

    No two rounds have messages that were due in the same one.
    """
    return message.groupBy("run_id", F.col("due_round").alias("round"), "kind", "fate").agg(
        F.expr("count(1) as n_messages")
    ).select(ROUND_METRIC.columns)  # fmt: skip


def _table(relation: Relation) -> pa.Table:
    """Returns the rows of a relation that are here."""
    return cast(Callable[[], pa.Table], relation.content().rows)()


def _release(relations: Sequence[Relation]) -> None:
    for relation in relations:
        relation.release()
