"""How many rows and bytes of state each protocol has, table by table: view ``held_state``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from pipelines.contract.round import State
from pipelines.contract.state_tables import STATE
from pipelines.engines.frames import union

HELD_STATE: Final = "held_state"
COLUMNS: Final = {
    "table_name": "the table, as its protocol calls it",
    "n_rows": "rows that it has of the run",
    "n_bytes": "bytes of these rows as JSON text, without run_id and what is null",
    "is_durable": "whether the rows outlive a crash of their node",
}
_FORM = pa.schema(
    [
        ("run_id", pa.int64()),
        ("table_name", pa.string()),
        ("n_rows", pa.int64()),
        ("n_bytes", pa.int64()),
        ("is_durable", pa.bool_()),
    ]
)


def held_rows(tables: Mapping[str, Callable[[str], DataFrame]], states: Mapping[str, Sequence[State]]) -> pa.Table:
    """Counts the rows and bytes of the protocols' state tables; of a table that is shown as several others these count.

    Args:
        tables: By protocol: returns the rows of one of its tables, by the name that it uses.
        states: By protocol: its relations.

    Returns:
        One row a run and table that has rows of it: ``run_id`` and `COLUMNS`.
    """
    frames = [frame for name, table in tables.items() for frame in _counted(states[name], table)]
    return union(frames).toArrow().cast(_FORM) if frames else _FORM.empty_table()


def _counted(states: Sequence[State], table: Callable[[str], DataFrame]) -> list[DataFrame]:
    """Counts what one protocol's tables hold, a frame each; arguments and rows as in `held_rows`."""
    columns = {state.table.name: state.table.columns for state in states}
    whole = {state.derived_from for state in states if state.derived_from is not None}
    durable = {state.table.name: state.is_durable for state in states}
    durable |= {state.table.name: durable[state.derived_from] for state in states if state.derived_from is not None}
    return [
        _sized(table(f"{STATE}{name}"), columns[name]).selectExpr(
            "run_id", f"'{name}' as table_name", "n_rows", "n_bytes", f"{str(is_durable).lower()} as is_durable"
        )
        for name, is_durable in durable.items() if name not in whole
    ]  # fmt: skip


def _sized(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Returns ``run_id, n_rows, n_bytes`` of a table's rows."""
    values = ", ".join(column for column in columns if column != "run_id")
    sized = rows.selectExpr("run_id", f"octet_length(to_json(struct({values}))) as n_bytes")
    return sized.groupBy("run_id").agg(F.count("n_bytes").alias("n_rows"), F.sum("n_bytes").alias("n_bytes"))
