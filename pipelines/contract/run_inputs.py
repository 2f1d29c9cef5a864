"""The input tables of one run, overlay, workload and faults, and of all runs of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.forms import NTH

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
SUBSCRIPTION = pa.schema([
    ("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()), ("predicate", pa.string()),
])  # fmt: skip
PUBLICATION = pa.schema([
    ("node_id", pa.int64()), ("round", pa.int64()), ("topic", pa.string()), ("content", pa.string()),
    ("guarantee", pa.string()), ("keys", pa.list_(pa.string())),
])  # fmt: skip
ATTRIBUTE = pa.schema([
    ("publication", pa.int64()), ("attribute", pa.string()), ("number", pa.float64()), ("whole", pa.int64()),
    ("text", pa.string()),
])  # fmt: skip
JOIN = pa.schema([("node_id", pa.int64()), ("join_point", pa.int64()), ("round", pa.int64())])
OTHER_CALL = pa.schema([
    ("node_id", pa.int64()), ("round", pa.int64()), ("kind", pa.string()), ("topic", pa.string()),
    ("peer", pa.int64()), ("role", pa.string()),
])  # fmt: skip
CRASH = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64())])
"""One row per crash, key (node_id, round), sorted by (round, node_id).

The node is down from ``round`` on and recovers in ``end_round``; null: it never recovers. Between two crashes a node is
up for at least one round.
"""
LINK_FAULT = pa.schema([
    ("effect", pa.string()), ("src", pa.int64()), ("dst", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()),
    ("kinds", pa.list_(pa.string())), ("salt", pa.int64()), ("rate", pa.float64()), ("low", pa.int64()),
    ("high", pa.int64()), ("first_round", pa.int64()), ("last_round", pa.int64()),
])  # fmt: skip
"""One row per link fault: from ``src`` to ``dst``, or, if both are null, on all links.

The fault affects messages of ``kinds`` (null: all kinds) that are sent from ``round`` on, before ``end_round``, each
with probability ``rate``. Draws are hashes of ``salt`` and the message. ``low`` and ``high`` are the minimum and the
maximum number of rounds of the effect:

- ``lose``: the message is lost;
- ``reorder``: the message is delayed and may be overtaken;
- ``delay``: all messages of the link in one round are delayed, and later messages do not overtake them. Delays are
  drawn for rounds ``first_round`` to ``last_round``; messages of later rounds may wait for delayed messages;
- ``duplicate``: a copy of the message arrives ``low`` to ``high`` rounds after the original.
"""
NTH_FAULT = pa.schema([
    ("effect", pa.string()), ("src", pa.int64()), ("dst", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()),
    ("kinds", pa.list_(pa.string())), ("nth", pa.int64()), ("salt", pa.int64()), ("low", pa.int64()),
    ("high", pa.int64()),
])  # fmt: skip
"""One row per fault of a single message: the ``nth`` message that matches the other columns.

The columns have the meaning of `LINK_FAULT`, but ``src`` or ``dst`` alone may be null. Messages are counted in
ascending order of their ids, without copies. ``effect`` is ``lose``, ``reorder`` or ``copy``. Effect ``copy``
duplicates the message. The id of the copy is the id of the message plus 2^29, so that all other ids stay unchanged.
"""
SIDE = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64()), ("side", pa.int64())])
"""One row per node and period of a partition: messages between nodes of different sides are lost.

The period contains the messages that are sent from ``round`` on, before ``end_round``. All nodes have the same periods.
"""
PAUSE = pa.schema([("node_id", pa.int64()), ("round", pa.int64()), ("end_round", pa.int64())])
"""One row per pause: from ``round`` on, before ``end_round``, the node is up and handles no messages."""
REPLACEMENT = pa.schema([
    ("round", pa.int64()), ("old_a", pa.int64()), ("old_b", pa.int64()), ("a", pa.int64()), ("b", pa.int64()),
    ("latency_rounds", pa.int64()),
])  # fmt: skip
"""One row per replaced link, in the order of rounds: link (old_a, old_b) ends and link (a, b) begins in ``round``."""
EVENT = pa.schema([
    ("round", pa.int64()), ("kind", pa.string()), ("node_id", pa.int64()), ("src", pa.int64()), ("dst", pa.int64()),
])  # fmt: skip
"""One row per start and per end of a fault, up to the horizon: the rows of ``fault_event`` except crashes."""


@dataclass(frozen=True)
class Overlay:
    """A connected overlay of brokers, servers and clients.

    Attributes:
        names: The name of each node; the node id is the index. Brokers come first, then servers, then clients.
        a: The lower end of each undirected link, a node id; shape (links,), links sorted by (a, b).
        b: The higher end of each link; shape (links,).
        latency_rounds: The latency from ``a`` to ``b`` in whole rounds, at least 1; shape (links,).
        n_clients: The number of clients. Each client has one link, to its edge broker. If the protocol builds the
            overlay, nodes have no links, and all nodes with applications are clients.
        n_servers: The number of servers; each has one link, to its edge broker.
        notes: Sentences for the user about changes to the source of the overlay, such as dropped links.
        back_rounds: The latency from ``b`` to ``a`` in whole rounds; shape (links,). It is ``None`` if these latencies
            equal `latency_rounds`.
    """

    names: tuple[str, ...]
    a: Ints
    b: Ints
    latency_rounds: Ints
    n_clients: int = 0
    n_servers: int = 0
    notes: tuple[str, ...] = ()
    back_rounds: Ints | None = None

    @property
    def directed_links(self) -> tuple[Ints, Ints]:
        """The senders and the receivers of both directions of links, in the order of `directed_rounds`."""
        return np.concatenate([self.a, self.b]), np.concatenate([self.b, self.a])

    @property
    def directed_rounds(self) -> Ints:
        """The latencies from ``a`` to ``b``, then from ``b`` to ``a``; shape (2 * links,)."""
        back = self.latency_rounds if self.back_rounds is None else self.back_rounds
        return np.concatenate([self.latency_rounds, back])

    def n_walks(self, weights: Floats) -> Iterator[float]:
        """Yields for 1, 2, ... links the number of walks that use no link twice in succession; in a tree, of paths.

        A walk counts with the weight of its first node. ``weights`` has shape (nodes,).
        """
        src, dst = self.directed_links
        found = weights[src]
        while True:
            yield float(found.sum())
            onward = np.bincount(dst, weights=found, minlength=len(self.names))[src]
            found = onward - np.roll(found, len(self.a))

    @property
    def n_brokers(self) -> int:
        """The number of brokers, the nodes with the lowest ids."""
        return len(self.names) - self.n_servers - self.n_clients

    @property
    def first_client(self) -> int:
        """The lowest client id; the number of nodes if no client exists."""
        return len(self.names) - self.n_clients

    @property
    def has_links(self) -> bool:
        """Whether the overlay has links in round 0; an overlay that the protocol builds has none."""
        return len(self.a) > 0 or len(self.names) == 1

    @property
    def applications(self) -> Ints:
        """The ids of the nodes at which applications may run.

        These are the clients if the overlay has servers or no links; else all nodes.
        """
        is_served = not self.has_links or self.n_servers > 0
        return np.arange(self.first_client if is_served else 0, len(self.names), dtype=np.int64)

    @property
    def is_tree(self) -> bool:
        """Whether the connected overlay has no cycle."""
        return len(self.a) == len(self.names) - 1


@dataclass(frozen=True)
class Workload:
    """The application calls of one run. Rows are in the order of the list, file or generator in the scenario.

    Attributes:
        subscription: One row per subscription. A null ``end_round`` stands for the end of the run. ``predicate`` is
            a canonical string such as ``topic = 'news' and price > 10``.
        publication: One row per publication; ``content`` is JSON with sorted keys, without the topic.
        attribute: One row per attribute of a publication, including ``topic``. ``publication`` is the index of a row of
            table ``publication``. Either ``number`` or ``text`` is null; ``whole`` is set for whole numbers of 64 bits.
        join: One row per node that joins during the run.
        other_call: One row per call of another kind.
    """

    subscription: pa.Table
    publication: pa.Table
    attribute: pa.Table
    join: pa.Table
    other_call: pa.Table


@dataclass(frozen=True)
class Faults:
    """The faults of one run, one table for each type of fault.

    The schema of a table has the name of the table in upper case, for example `CRASH`; ``fault_event`` has the schema
    `EVENT`.
    """

    crash: pa.Table
    link_fault: pa.Table
    nth_fault: pa.Table
    side: pa.Table
    pause: pa.Table
    replacement: pa.Table
    fault_event: pa.Table


@dataclass(frozen=True)
class Inputs(Faults):
    """The input tables of all runs. Each table has ``run_id`` and the columns below. `Faults` documents fault tables.

    Attributes:
        node: ``node_id, name, role``; one row per node.
        link: ``src, dst, latency_rounds``; two rows per link, one for each direction.
        call: ``node_id, source_seq, round, kind, subscription_id, join_point, topic, guarantee, keys, peer, role``; one
            row per call.
        subscription: ``subscription_id, subscriber, predicate``; one row per subscription.
        publication: ``source, source_seq, topic, content, guarantee, keys``; one row per publication.
        predicate: ``subscription_id, attribute, op, number, whole, text``; one row per comparison.
        attribute: ``source, source_seq, round, attribute, number, whole, text``; one row per attribute of a
            publication.
        size: ``n_state_rows``; one row per run: an estimate of its state rows.
    """

    node: pa.Table
    link: pa.Table
    call: pa.Table
    subscription: pa.Table
    publication: pa.Table
    predicate: pa.Table
    attribute: pa.Table
    size: pa.Table

    def of_runs(self, first: int, last: int) -> Inputs:
        """Returns the inputs of the runs with ids from ``first`` to ``last``, inclusive."""
        chosen = (pc.field("run_id") >= first) & (pc.field("run_id") <= last)
        return Inputs(**{name: getattr(self, name).filter(chosen) for name in self.__dataclass_fields__})

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return len(self.size)

    @property
    def n_state_rows(self) -> int:
        """Estimate of the state rows of all runs."""
        return pc.sum(self.size["n_state_rows"]).as_py() or 0

    @property
    def control_calls(self) -> pa.Table:
        """All calls except subscriptions, unsubscriptions and publications; ``peer`` of a join is its join point."""
        other = pc.is_in(self.call["kind"], pa.array(["subscribe", "unsubscribe", "publish"]))
        rows = self.call.filter(pc.invert(other))
        peer = pc.coalesce(rows["peer"], rows["join_point"])
        rows = rows.set_column(rows.column_names.index("peer"), "peer", peer)
        return rows.select(["run_id", "node_id", "source_seq", "round", "kind", "topic", "peer", "role"])

    @property
    def faults(self) -> list[str]:
        """Names of the fault types that occur in the runs; joins count as a fault type."""
        n_joins = pc.sum(pc.equal(self.call["kind"], "join")).as_py() or 0
        counts = {
            "crashes": len(self.crash), "joins": n_joins, "link faults": len(self.link_fault) + len(self.side),
            NTH: len(self.nth_fault), "pauses": len(self.pause), "replaced links": len(self.replacement),
        }  # fmt: skip
        return [name for name, count in counts.items() if count]

    @property
    def most_nodes(self) -> int:
        """Number of nodes of the largest run."""
        n_nodes = self.node.group_by("run_id").aggregate([("node_id", "count")])
        return pc.max(n_nodes["node_id_count"]).as_py() or 0

    def scheduled_round(self, horizon: int) -> int:
        """Returns the last round with a call, a recovery, or the beginning of a fault; at most ``horizon``."""
        begins = pc.invert(pc.ends_with(self.fault_event["kind"], pattern="_end"))
        rounds = [
            self.call["round"], self.crash["round"], self.crash["end_round"], self.fault_event.filter(begins)["round"],
        ]  # fmt: skip
        return min(horizon, max((pc.max(column).as_py() or 0 for column in rounds), default=0))

    @property
    def latency(self) -> int | None:
        """The common latency of all links in ``link``, in rounds; None if latencies differ or no link exists."""
        found = pc.unique(self.link["latency_rounds"])
        return found[0].as_py() if len(found) == 1 else None


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Builds an Arrow table of schema `schema` from `rows`."""
    if not rows:
        return schema.empty_table()
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in columns], schema)


def row_numbers(rows: pa.Table) -> pa.Array:
    """Returns an array with the index of each row of a table, from 0."""
    return pa.array(np.arange(len(rows)), pa.int64())


def index_in_group(owner: Ints) -> Ints:
    """Returns the index of each row, from 0, among the rows with the same value in the ascending array `owner`."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)
