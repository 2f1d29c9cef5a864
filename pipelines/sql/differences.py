"""Finds the first difference between two runs, or between all runs of two stores.

The runs are compared event by event. Events are faults, handled or lost messages, status changes of nodes, deliveries,
sent messages, and the issue, confirmation and end of calls. An event has a round and the values of a history row.
The events of a round are sorted in execution order, so the first difference is close to the cause of all differences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from pipelines.contract.settings import nfc
from pipelines.errors import QueryError, check_run_id, listed, nearest
from pipelines.sql.query import StoreReader

_GIVEN = -1
_MAX_SHOWN = 10
_NODES = ("node_id", "src", "dst", "source", "subscriber")
_EVENTS: Sequence[tuple[str, str, str, Sequence[str], str]] = (
    ("node", str(_GIVEN), "given", ("node_id", "name", "role"), ""),
    ("link", str(_GIVEN), "given", ("src", "dst", "latency_rounds"), ""),
    ("predicate", str(_GIVEN), "given", ("subscription_id", "attribute", "op", "number", "whole", "text"), ""),
    ("fault_event", "round", "", ("kind", "node_id", "src", "dst"), ""),
    ("message", "due_round", "handled or lost",
     ("kind", "src", "dst", "sent_round", "fate", "source", "source_seq", "body"), "fate <> 'in_flight'"),
    ("node_status", "round", "", ("node_id", "status"), ""),
    ("subscription", "confirmed_round", "confirmed", ("subscription_id", "subscriber"), "confirmed_round is not null"),
    ("subscription", "ended_round", "ended", ("subscription_id", "subscriber"), "ended_round is not null"),
    ("publication", "confirmed_round", "confirmed", ("source", "source_seq"), "confirmed_round is not null"),
    ("delivery", "round", "", ("subscriber", "source", "source_seq", "latency_rounds", "hops"), ""),
    ("subscription", "issued_round", "issued", ("subscription_id", "subscriber", "predicate"), ""),
    ("subscription", "unsubscribed_round", "unsubscribed", ("subscription_id", "subscriber"),
     "unsubscribed_round is not null"),
    ("publication", "issued_round", "issued", ("source", "source_seq", "topic", "content"), ""),
    ("sent_message", "sent_round", "sent", ("kind", "src", "dst", "due_round", "source", "source_seq", "body"), ""),
)  # fmt: skip
"""One tuple per type of event, in the execution order of a round: table, round column, name of the type (empty if the
table has one type), compared columns, and a condition on the rows (empty for all rows)."""


@dataclass(frozen=True)
class Difference:
    """The first difference between two runs.

    Attributes:
        run_id: The id of the runs; if the two runs have different ids, the id of the first run.
        round: The round of the difference; None if the inputs of the runs differ.
        table: The table of the difference.
        event: The type of the event if ``table`` has several types, else an empty string.
        in_first: At most ten rows of ``round`` and ``table`` that only the first run has, with node names.
        in_second: The rows of the second run.
        counts: For each table, the number of rows that only one run has, in all rounds.
    """

    run_id: int
    round: int | None
    table: str
    event: str
    in_first: Sequence[Mapping[str, Any]]
    in_second: Sequence[Mapping[str, Any]]
    counts: Mapping[str, int]


def first_difference(first: StoreReader, second: StoreReader, runs: tuple[int, int] | None = None) -> Difference | None:
    """Returns the first difference between two runs, or between all runs of two stores; None if no rows differ.

    Args:
        first: A store.
        second: A store in the same session; it may be the same store.
        runs: A run id of ``first`` and a run id of ``second``; None compares all runs, paired by their ids.

    Raises:
        QueryError: A run does not exist.
    """
    for reader, run_id in zip((first, second), runs or (), strict=False):
        check_run(reader, run_id)
    mine, theirs = (None, None) if runs is None else runs
    both = _events(first, mine, 1).unionByName(_events(second, theirs, -1))
    parted = both.groupBy("run_id", "round", "position", "row").agg({"n": "sum"}).withColumnRenamed("sum(n)", "n")
    rows = parted.where("n <> 0").orderBy("run_id", "round", "position", "row").toArrow().to_pylist()
    if not rows:
        return None
    head = min(rows, key=lambda row: (row["round"], row["position"], row["run_id"]))
    here = [row for row in rows if all(row[key] == head[key] for key in ("round", "position", "run_id"))]
    table, _, event, _, _ = _EVENTS[head["position"]]
    counts: dict[str, int] = {}
    for row in rows:
        name = _EVENTS[row["position"]][0]
        counts[name] = counts.get(name, 0) + abs(row["n"])
    only = []
    for reader, chosen, sign in ((first, mine, 1), (second, theirs, -1)):
        names = node_names(reader, head["run_id"] if chosen is None else chosen)
        only.append([_named(row["row"], names) for row in here if row["n"] * sign > 0][:_MAX_SHOWN])
    round_ = None if head["round"] == _GIVEN else head["round"]
    return Difference(head["run_id"] if mine is None else mine, round_, table, event, only[0], only[1], counts)


def different_parameters(first: StoreReader, second: StoreReader, runs: tuple[int, int]) -> dict[str, tuple[Any, Any]]:
    """Returns the parameters, including the seed, in which two runs differ.

    The result maps the path of a parameter to its value in the first run and its value in the second run.
    """
    mine, theirs = (_parameters(reader, run_id) for reader, run_id in zip((first, second), runs, strict=True))
    return {
        path: (mine.get(path), theirs.get(path))
        for path in sorted({*mine, *theirs})
        if mine.get(path) != theirs.get(path)
    }


def _events(reader: StoreReader, run_id: int | None, sign: int) -> DataFrame:
    """Returns the events of a run; None stands for all runs. Column ``n`` has the value ``sign`` in all rows.

    If ``run_id`` is set, column ``run_id`` of the result is 0, so that runs with different ids can be compared.
    """
    chosen, of_run = ("run_id", "") if run_id is None else ("cast(0 as bigint) as run_id", f"run_id = {run_id}")
    parts = []
    for position, (table, round_, _, columns, condition) in enumerate(_EVENTS):
        where = " and ".join(part for part in (of_run, condition) if part)
        row = ", ".join(f"'{name}', {name}" for name in columns)
        parts.append(
            f"select {chosen}, cast({round_} as bigint) as round, {position} as position, {sign} as n, "  # noqa: S608 - built of constants
            f"to_json(named_struct({row})) as row from {table}{f' where {where}' if where else ''}"
        )
    return reader.sql("\nunion all\n".join(parts))


def check_run(reader: StoreReader, run_id: int) -> None:
    """Raises `QueryError` if the run does not exist."""
    check_run_id(run_id, [row.run_id for row in reader.sql("select run_id from run").collect()])


def _parameters(reader: StoreReader, run_id: int) -> dict[str, Any]:
    check_run(reader, run_id)
    [row] = reader.sql(f"select seed, parameters from run where run_id = {run_id}").collect()  # noqa: S608 - a number
    given: dict[str, Any] = json.loads(row.parameters)
    return {"seed": row.seed, **given}


def node_names(reader: StoreReader, run_id: int) -> dict[int, str]:
    """Returns the names of the nodes of a run, by id; raises `QueryError` if the run does not exist."""
    check_run(reader, run_id)
    rows = reader.sql(f"select node_id, name from node where run_id = {run_id} order by node_id").collect()  # noqa: S608
    return {row.node_id: row.name for row in rows}


def node_id(names: Mapping[int, str], run_id: int, name: str) -> int:
    """Returns the id of a node from the result of `node_names`; raises `QueryError` if the run has no such node."""
    ids = {known: number for number, known in names.items()}
    found = ids.get(nfc(name)) if isinstance(name, str) else None
    if found is None:
        known = listed([*ids])
        raise QueryError(f"node {name!r} does not exist in run {run_id};{nearest(name, ids)} known: {known}")
    return found


def _named(row: str, names: Mapping[int, str]) -> dict[str, Any]:
    values = json.loads(row)
    return {key: names.get(value, value) if key in _NODES else value for key, value in values.items()}
