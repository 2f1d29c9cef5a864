"""Protocol ``delta`` as the engine sees its node program, `udfs.delta.program`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.contract.nodes import NodeProtocol, Shown
from pipelines.protocols.delta.audits import AUDITS
from pipelines.protocols.delta.bound import BOUND
from pipelines.protocols.delta.tables import CALL_WAITS, PROCESSING
from udfs.delta.program import Delta

_SCHEMA = to_arrow_schema(PROCESSING.schema)


def _processing(message: pa.Table) -> pa.Table:
    """Returns the recipients of the messages in ProcessingLists: columns of `PROCESSING`."""
    lists = message["recipients"].combine_chunks()
    row, entry = message.take(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    value = pc.struct_field(entry, "value")
    of_recipient = {field.name: pc.struct_field(value, field.name) for field in value.type}
    given = {**dict(zip(row.column_names, row.columns, strict=True)), "recipient": pc.struct_field(entry, "key")}
    return pa.table({name: (given | of_recipient)[name] for name in PROCESSING.columns}).cast(_SCHEMA)


PROTOCOL = NodeProtocol(
    Delta,
    audits=AUDITS,
    bound=BOUND,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    shown=[Shown(PROCESSING, "processing_list", _processing)],
    waits={"call": CALL_WAITS},
)
