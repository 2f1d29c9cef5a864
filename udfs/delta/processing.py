"""ProcessingList_N as a table: a row for each recipient of a message, where the program keeps a row a message."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from udfs.delta.records import Processed
from udfs.nodes.records import record


@record(key="source,source_seq,recipient")
class ProcessingRow(Processed):
    """A recipient of a message in a node's ProcessingList_N, with who is responsible for it.

    Attributes:
        recipient: A member of Γ_N^m other than N.
        path: P(N, recipient) where the message was accepted as Guided.
        responsible: The member of Out_N^m that is responsible for the recipient; null: none is left.
        is_confirmed: Whether that member has confirmed.
        is_reopened: Whether it had, and only an incarnation of the recipient itself lacks the message.
    """

    recipient: int
    path: tuple[int, ...] | None
    responsible: int | None
    is_confirmed: bool
    is_reopened: bool


def processing_rows(message: pa.Table) -> pa.Table:
    """Returns the recipients of the messages in ProcessingLists.

    Args:
        message: Rows of `udfs.delta.records.Processing` with ``run_id, node_id``.

    Returns:
        ``run_id, node_id`` and the fields of `ProcessingRow`.
    """
    lists = message["recipients"].combine_chunks()
    row, entry = message.take(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    value = pc.struct_field(entry, "value")
    of_recipient = {field.name: pc.struct_field(value, field.name) for field in value.type}
    of_message = {name: row[name] for name in row.column_names if name != "recipients"}
    return pa.table({**of_message, "recipient": pc.struct_field(entry, "key"), **of_recipient})
