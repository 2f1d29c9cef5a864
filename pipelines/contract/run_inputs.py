"""The tables that one run is given: overlay, workload and faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
SUBSCRIPTION = pa.schema(
    [("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()), ("predicate", pa.string())]
)
PUBLICATION = pa.schema([
    ("node_id", pa.int64()), ("round", pa.int64()), ("topic", pa.string()), ("content", pa.string()),
    ("guarantee", pa.string()), ("keys", pa.list_(pa.string())),
])  # fmt: skip
ATTRIBUTE = pa.schema(
    [
        ("publication", pa.int64()),
        ("attribute", pa.string()),
        ("number", pa.float64()),
        ("whole", pa.int64()),
        ("text", pa.string()),
    ]
)
JOIN = pa.schema([("node_id", pa.int64()), ("join_point", pa.int64()), ("round", pa.int64())])
OTHER_CALL = pa.schema([
    ("node_id", pa.int64()), ("round", pa.int64()), ("kind", pa.string()), ("topic", pa.string()),
    ("peer", pa.int64()), ("role", pa.string()),
])  # fmt: skip
CRASH = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64())])
"""One row a time for which a node is down: key (node_id, round), sorted by (round, node_id).

The node is down from ``round`` on and recovers in round ``end_round``; null: it stays down. Between two such times of a
node there is at least one round.
"""
LINK_FAULT = pa.schema([
    ("effect", pa.string()), ("src", pa.int64()), ("dst", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()),
    ("kinds", pa.list_(pa.string())), ("salt", pa.int64()), ("rate", pa.float64()), ("low", pa.int64()),
    ("high", pa.int64()), ("first_round", pa.int64()), ("last_round", pa.int64()),
])  # fmt: skip
"""One row a time for which a fault may strike the messages from ``src`` to ``dst``; both null: between any two nodes.

It may strike those sent from ``round`` on and before ``end_round``, of the given kinds (null: all), each with
probability ``rate``. Draws are hashes of ``salt`` and the message. ``effect`` says what then happens, ``low`` and
``high`` for how many rounds:

- ``lose``: the message is lost;
- ``reorder``: it is due later;
- ``delay``: all messages that its sender sends to its receiver in the round are due later, and no message that is sent
  after them is due before them. Draws are for rounds ``first_round`` to ``last_round``; what is sent after that may
  have to wait for what was sent before;
- ``duplicate``: a copy is due that number of rounds after the original.
"""
NTH_FAULT = pa.schema([
    ("effect", pa.string()), ("src", pa.int64()), ("dst", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()),
    ("kinds", pa.list_(pa.string())), ("nth", pa.int64()), ("salt", pa.int64()), ("low", pa.int64()),
    ("high", pa.int64()),
])  # fmt: skip
"""One row a fault that strikes one message: the ``nth`` between two nodes of those that its other columns describe.

Columns as in `LINK_FAULT`; ``src`` and ``dst`` may be null alone. Messages are counted in the order of their ids,
copies are not. ``effect`` is ``lose``, ``reorder`` or ``copy``: as ``duplicate``, but the copy's id is that of the
message plus 2^29, so that all other ids stay what they are without the fault.
"""
SIDE = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()), ("side", pa.int64())])
"""One row a node and time with partitions, the same times for all nodes: no message gets from one side to another.

It is the round of sending that counts, from ``round`` on and before ``end_round``.
"""
PAUSE = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64())])
"""One row a time for which a node is up and handles nothing, from ``round`` on and before ``end_round``; all apart."""
REPLACEMENT = pa.schema([
    ("round", pa.int64()), ("old_a", pa.int64()), ("old_b", pa.int64()), ("a", pa.int64()), ("b", pa.int64()),
    ("latency_rounds", pa.int64()),
])  # fmt: skip
"""One row a link that takes the place of another in a round: from then on the old one is no link, and the other is.

In the order in which they take effect, by round.
"""
EVENT = pa.schema([
    ("round", pa.int64()), ("kind", pa.string()), ("node_id", pa.int64()), ("src", pa.int64()), ("dst", pa.int64()),
])  # fmt: skip
"""One row of table ``fault_event``: a beginning or an end of a fault that is no crash, up to the horizon."""


@dataclass(frozen=True)
class Overlay:
    """A connected overlay of brokers, in the order in which its source names them, with servers and clients at them.

    Attributes:
        names: One name a node; a node's id is its index here. Servers and then clients come last.
        a: One end of each undirected link, a node id; shape (links,), a < b, links sorted by (a, b).
        b: The other end of each link; shape (links,).
        latency_rounds: Whole rounds of one hop from ``a`` to ``b``, at least 1; shape (links,).
        n_clients: How many of the nodes are clients; each has one link, to its edge broker. Where the protocol makes
            the overlay itself there are no links: brokers are its servers, clients all that have applications.
        roles: What brokers and clients are called in table ``node``.
        n_servers: How many of the nodes are servers; each has one link, to its edge broker.
        notes: What the user should know about how it came from its source, a sentence each.
        back_rounds: Whole rounds of one hop from ``b`` to ``a``; shape (links,). None: as many as from ``a`` to ``b``.
    """

    names: tuple[str, ...]
    a: Ints
    b: Ints
    latency_rounds: Ints
    n_clients: int = 0
    roles: tuple[str, str] = ("broker", "client")
    n_servers: int = 0
    notes: tuple[str, ...] = ()
    back_rounds: Ints | None = None

    @property
    def directed_rounds(self) -> Ints:
        """Whole rounds from ``a`` to ``b`` of each link, then from ``b`` to ``a``; shape (2 * links,)."""
        back = self.latency_rounds if self.back_rounds is None else self.back_rounds
        return np.concatenate([self.latency_rounds, back])

    @property
    def n_brokers(self) -> int:
        """How many of the nodes are brokers: those with the lowest ids."""
        return len(self.names) - self.n_servers - self.n_clients

    @property
    def first_client(self) -> int:
        """The lowest id of clients; the number of nodes where no client exists."""
        return len(self.names) - self.n_clients

    @property
    def has_links(self) -> bool:
        """Whether there are links before the protocol makes some."""
        return len(self.a) > 0 or len(self.names) == 1

    @property
    def applications(self) -> Ints:
        """The nodes that may have applications: all, or where others serve them, the clients."""
        is_served = not self.has_links or self.n_servers > 0
        return np.arange(self.first_client if is_served else 0, len(self.names), dtype=np.int64)

    @property
    def is_tree(self) -> bool:
        """Whether the (connected) overlay has no cycle."""
        return len(self.a) == len(self.names) - 1


@dataclass(frozen=True)
class Workload:
    """The application calls of one run; rows in the order in which their source lists them.

    Attributes:
        subscription: One row a subscription. ``end_round`` is null where it stays; ``predicate`` is the
            canonical text of its conjunction (``topic = 'news' and price > 10``).
        publication: One row a publication; ``content`` is JSON with sorted keys, without the topic; ``guarantee`` and
            ``keys`` are null where none are given.
        attribute: One row an attribute of a publication, the topic among them (attribute ``topic``,
            text); ``publication`` is the row number in ``publication``; exactly one of ``number``
            and ``text`` is set, and ``whole`` where the number is a whole number of 64 bits.
        join: One row a node that joins during the run.
        other_call: One row a call of another kind.
    """

    subscription: pa.Table
    publication: pa.Table
    attribute: pa.Table
    join: pa.Table
    other_call: pa.Table


@dataclass(frozen=True)
class Faults:
    """All that goes wrong in one run.

    Attributes:
        crash: Rows as in `CRASH`.
        link_fault: Rows as in `LINK_FAULT`.
        nth_fault: Rows as in `NTH_FAULT`.
        side: Rows as in `SIDE`.
        pause: Rows as in `PAUSE`.
        replacement: Rows as in `REPLACEMENT`.
        fault_event: Rows as in `EVENT`.
    """

    crash: pa.Table
    link_fault: pa.Table
    nth_fault: pa.Table
    side: pa.Table
    pause: pa.Table
    replacement: pa.Table
    fault_event: pa.Table


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Makes a table of rows."""
    if not rows:
        return schema.empty_table()
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in columns], schema)
