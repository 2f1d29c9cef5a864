"""The Arrow function of a round: one row a node in, what it keeps and sends out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from udfs.ginger.batches import as_batch
from udfs.ginger.broker import Broker
from udfs.ginger.client import Client
from udfs.ginger.items import OUT, Item, node_rows
from udfs.ginger.repair import RepairingBroker

_CLIENT = {("neighbour", "edge"), ("repair", "client")}
"""What only clients have: their edge broker, or, when that has failed, memory of it."""


def handle_nodes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lets each node handle its messages of a round.

    Args:
        batches: One row a node: ``run_id, node_id, round, items``; items are structs of `items.FIELDS`, sorted by
            (relation, position). Those of relation ``inbox`` are its messages and calls, the others its state.

    Yields:
        Rows of `items.OUT`: ``out`` (messages to send), ``delivered``, ``history``, ``connected`` (new neighbours),
        ``status``, and the state as it is now.
    """
    for batch in batches:
        rows = []
        for run, node, round_, items in node_rows(batch):
            rows += [(run, node, round_, *item) for item in handled_rows(node, round_, items)]
        yield as_batch(rows, OUT)


def handled_rows(node: int, round_: int, items: list[Item]) -> list[Item]:
    """Returns what a node leaves behind in a round."""
    state = [item for item in items if item.relation != "inbox"]
    is_client = any((item.relation, item.kind) in _CLIENT for item in state)
    may_crash = any(item.relation == "mode" for item in state)
    if not is_client and not has_joined(items):
        return []
    kind = Client if is_client else RepairingBroker if may_crash else Broker
    here: Client | Broker = kind(node, round_, state)
    for item in items:
        if item.relation == "inbox":
            here.handle(item)
    here.leave()
    return here.rows


def has_joined(items: list[Item]) -> bool:
    """Returns whether a broker is in the tree, or joins now: else it has no state, and answers nobody."""
    return any(item.relation not in ("inbox", "mode") or item.kind == "Join" for item in items)
