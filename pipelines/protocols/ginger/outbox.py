"""Messages to send, with all columns of the payload in one order: whoever sends knows what it gives."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.round import outbox_types
from pipelines.protocols.ginger.tables import PAYLOAD

_TYPES = outbox_types(PAYLOAD)


def outbox(rows: DataFrame, kind: str, **columns: str) -> DataFrame:
    """Gives rows as messages to send.

    Args:
        rows: ``run_id`` and what the expressions read.
        kind: SQL.
        columns: SQL by column of `contract.OUTBOX` or of the payload, or ``latency_rounds``; the others are null, but
            for ``rank``.
    """
    given = {"run_id": "run_id", "rank": "0", "kind": kind, **columns}
    return rows.selectExpr(*(f"cast({given.get(name, 'null')} as {type_}) as {name}" for name, type_ in _TYPES.items()))
