"""Protocol ``ginger``: the node program `udfs.ginger.program` as the engine sees it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.nodes import NodeProtocol, Shown
from pipelines.protocols.ginger.audits import AUDITS
from pipelines.protocols.ginger.bound import beyond
from pipelines.protocols.ginger.waits import WAITED, WAITS
from pipelines.tables import BIGINT, STRING, table
from udfs.ginger.program import Ginger

LOCKED = table(
    "locked", "a key item that a total-order message locks", "node_id,topic,key_item,source,source_seq",
    ("node_id", BIGINT, "the broker"),
    ("topic", STRING, "topic of the message"),
    ("source", BIGINT, "client that published it"),
    ("source_seq", BIGINT, "number of the publication at its client"),
    ("key_item", STRING, "the key item"),
)  # fmt: skip


def _locked(pending: pa.Table) -> pa.Table:
    """Returns the key items of pending messages: columns of `LOCKED`."""
    keys = pending["keys"].combine_chunks()
    item = pending.take(pc.list_parent_indices(keys)).append_column("key_item", pc.list_flatten(keys))
    return item.select(LOCKED.columns)


PROTOCOL = NodeProtocol(
    Ginger,
    audits=AUDITS,
    bound=beyond,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    waits=WAITS,
    waited=WAITED,
    shown=[Shown(LOCKED, "pending", _locked)],
)
