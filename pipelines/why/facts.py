"""The history of one run as Python objects (`RunFacts`), and the copies of one message along a path (`Trail`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import networkx as nx

NEVER = 1 << 62
"""A round later than all rounds of a run."""
_LOSING = ("break", "partition", "burst", "loss")
LINKED, UNLINKED = "link", "unlink"
"""The kinds of the fault events that add a link and remove a link."""


def rounds_of(first: int, until: int | None) -> str:
    """Returns the rounds from ``first`` to the round before ``until`` as a phrase; ``until`` None means no end."""
    if until is None:
        return f"from round {first} on"
    return f"round {first}" if until == first + 1 else f"rounds {first} to {until - 1}"


def or_never(round_: int | None) -> int:
    """Returns ``round_``; for None, returns `NEVER`."""
    return NEVER if round_ is None else round_


@dataclass(frozen=True)
class MessageFact:
    """A row of table ``message``, with ``body`` parsed from JSON."""

    message_id: int
    kind: str
    src: int
    dst: int
    sent: int
    due: int
    fate: str
    body: Mapping[str, Any]

    @property
    def at(self) -> tuple[int, int]:
        """A sort key for the order in which nodes handle messages: due round, then id."""
        return self.due, self.message_id


@dataclass(frozen=True)
class PublicationFact:
    """A row of table ``publication``."""

    source: int
    seq: int
    round: int
    topic: str | None
    content: str | None
    confirmed_round: int | None

    @property
    def key(self) -> tuple[int, int]:
        """The source and the call number, which identify the publication."""
        return self.source, self.seq


@dataclass(frozen=True)
class SubscriptionFact:
    """A row of table ``subscription``."""

    subscription_id: int
    predicate: str | None
    issued_round: int
    confirmed_round: int | None
    unsubscribed_round: int | None


@dataclass(frozen=True)
class Downtime:
    """A period from a crash of a node to its recovery.

    Attributes:
        node: The id of the node that is down.
        round: The round of the crash.
        until: The round of the recovery; None if the history has no recovery.
        end: The end of the recovery, or the next crash if that is earlier (column ``end_round`` of view
            ``node_recovery``); None if neither happened.
        restored: The round from which the protocol reports the node as restored; None if it reports no such round.
        statuses: The statuses that the protocol reports from the recovery to ``restored``, or to the next crash, as
            pairs of round and status.
    """

    node: int
    round: int
    until: int | None
    end: int | None
    restored: int | None
    statuses: tuple[tuple[int, str], ...]

    def covers(self, round_: int) -> bool:
        """Returns whether the node is down in ``round_``."""
        return self.round <= round_ < or_never(self.until)

    def overlaps(self, first: int, last: int) -> bool:
        """Returns whether the node is down or recovering in one of the rounds from ``first`` to ``last``."""
        return self.round <= last and first < or_never(self.end)

    def is_restoring(self, round_: int) -> bool:
        """Returns whether the node is up in ``round_``, but the protocol does not yet report it as restored."""
        return or_never(self.until) <= round_ < or_never(self.restored)


@dataclass(frozen=True)
class LinkFault:
    """A fault of the messages that are sent from ``src`` to ``dst``, from round ``round`` until before round ``until``.

    ``kind`` is the kind in table ``fault_event``. None stands for all senders, for all receivers, or for no end.
    """

    kind: str
    src: int | None
    dst: int | None
    round: int
    until: int | None

    def is_at(self, round_: int) -> bool:
        """Returns whether the fault is active in ``round_``."""
        return self.round <= round_ < or_never(self.until)

    def is_on(self, src: int, dst: int) -> bool:
        """Returns whether the fault affects the messages from ``src`` to ``dst``."""
        return self.src in (None, src) and self.dst in (None, dst)

    def concerns(self, message: MessageFact) -> bool:
        """Returns whether the fault may have affected ``message``."""
        return self.is_on(message.src, message.dst) and self.is_at(message.sent)

    def __str__(self) -> str:
        """Returns the kind and the rounds of the fault, as ``roundtable why`` prints them."""
        return f"{self.kind}: {rounds_of(self.round, self.until)}"


@dataclass(frozen=True)
class Wait:
    """A period in which ``node`` held a publication back before it sent or delivered it; ``reason`` is a phrase.

    ``crash`` is the node and the round of a crash that extended the period, or None.
    """

    node: int
    since: int
    until: int
    reason: str
    crash: tuple[int, int] | None


@dataclass
class RunFacts:
    """The rows of the history of a run that explain its deliveries.

    Nodes are ids. A publication is identified by the pair of its source and its call number.

    Attributes:
        run_id: The id of the run.
        confirms: Whether the protocol confirms publications.
        is_finished: Whether all runs of the store have ended.
        maintenance: The message kinds that nodes send periodically without a call.
        routes_on_tree: Whether the protocol needs a tree, on which brokers forward subscriptions to all brokers.
        slowest_rounds: The largest latency of a delivery in the run; 0 without a delivery.
        names: Node names.
        publications: The issued publications, by source and call number.
        messages: For each call, the messages that belong to the call.
        spread: For each pair of subscriber and subscription, the messages that propagate the subscription.
        others: Messages that belong to no call: timers, failure reports, and undelivered messages between nodes.
        deliveries: Rounds and hops of the deliveries, keyed by subscriber, source and call number.
        downs: For each node, its downtimes in the order of crashes.
        subscriptions: For each subscriber, its subscriptions.
        matching: For each publication, the ids of the subscriptions whose predicate the publication satisfies.
        receivers: The rows of view ``receiver``: the excuse for a missing delivery, or None, keyed by subscriber,
            source and call number.
        links: Sender, receiver and latency of each link, including links that exist in some rounds only.
        changes: For each link that is added or removed, its events by round: the round, and `LINKED` or `UNLINKED`.
        link_faults: The link faults.
        waits: For each publication, the nodes that hold the publication back at the end of the run, each with a phrase
            for the reason (queries `contract.protocol.Protocol.waits`).
        waited: For each publication, the waits that have ended (query `contract.protocol.Protocol.waited`).
    """

    run_id: int
    confirms: bool
    is_finished: bool
    maintenance: Sequence[str] = ()
    routes_on_tree: bool = False
    slowest_rounds: int = 0
    names: dict[int, str] = field(default_factory=dict)
    publications: dict[tuple[int, int], PublicationFact] = field(default_factory=dict)
    messages: dict[tuple[int, int], list[MessageFact]] = field(default_factory=lambda: defaultdict(list))
    spread: dict[tuple[int, int], list[MessageFact]] = field(default_factory=dict)
    others: list[MessageFact] = field(default_factory=list)
    deliveries: dict[tuple[int, int, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    downs: dict[int, list[Downtime]] = field(default_factory=dict)
    subscriptions: dict[int, list[SubscriptionFact]] = field(default_factory=lambda: defaultdict(list))
    matching: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    receivers: dict[tuple[int, int, int], str | None] = field(default_factory=dict)
    links: list[tuple[int, int, int]] = field(default_factory=list)
    changes: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=dict)
    link_faults: list[LinkFault] = field(default_factory=list)
    waits: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    waited: dict[tuple[int, int], list[Wait]] = field(default_factory=lambda: defaultdict(list))

    def at(self, round_: int) -> RunFacts:
        """Returns a copy of this object with only the links that exist in ``round_``."""
        if not self.changes:
            return self
        return replace(self, links=[link for link in self.links if self._has_link(link[:2], round_)])

    def _has_link(self, ends: tuple[int, int], round_: int) -> bool:
        """Returns whether a link exists in ``round_``; a link whose first event is a removal exists from round 0."""
        changes = self.changes.get(ends, [(0, LINKED)])
        before = [kind for at, kind in changes if at <= round_]
        return before[-1] == LINKED if before else changes[0][1] == UNLINKED

    @cached_property
    def overlay(self) -> nx.DiGraph[int]:
        """The overlay as a graph; edges have the attribute ``latency``, in rounds."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(self.names)
        graph.add_weighted_edges_from(self.links, weight="latency")
        return graph

    def path(self, a: int, b: int) -> list[int]:
        """Returns the nodes on the fastest path from ``a`` to ``b``; only ``a`` and ``b`` if no path exists."""
        try:
            return list(nx.shortest_path(self.overlay, a, b, weight="latency"))
        except nx.NetworkXNoPath:
            return [a, b]

    def latency(self, path: Sequence[int]) -> int:
        """Returns the sum of the link latencies of ``path``, in rounds."""
        return sum(self.overlay.get_edge_data(*ends, default={"latency": 0})["latency"] for ends in pairwise(path))

    def down(self, node: int, round_: int) -> Downtime | None:
        """Returns the last downtime of ``node`` that begins in or before ``round_``."""
        return next((down for down in reversed(self.downs.get(node, [])) if down.round <= round_), None)

    def loss(self, message: MessageFact) -> LinkFault | None:
        """Returns the link fault that lost ``message``, or None; kinds that come first in `_LOSING` take precedence.

        A partition counts even if it is not a fault of the message's link: its events name links, but it also loses
        messages between nodes that have no link.
        """
        met = [fault for fault in self.link_faults if fault.concerns(message)]
        split = [fault for fault in self.link_faults if fault.kind == "partition" and fault.is_at(message.sent)]
        found = [fault for kind in _LOSING for fault in met if fault.kind == kind] + split
        return found[0] if found else None

    def overtaking(self, message: MessageFact) -> LinkFault | None:
        """Returns the last ``reorder`` fault that begins up to the due round of ``message``, or None.

        Faults on the link of ``message`` take precedence over faults on other links.
        """
        faults = [fault for fault in self.link_faults if fault.kind == "reorder" and fault.round <= message.due]
        there = [fault for fault in faults if fault.is_on(message.src, message.dst)]
        return max(there or faults, key=lambda fault: fault.round, default=None)

    def reports(self, node: int, peer: int) -> list[MessageFact]:
        """Returns the messages in which the failure detector of ``node`` reports ``peer``, including lost messages."""
        return [m for m in self.others if m.src == m.dst == node and m.body.get("peer") == peer]


HANDLED = "delivered"
LOST = ("lost_crash", "lost_link")


@dataclass(frozen=True)
class Trail:
    """The copies of a message along ``path``, which includes both ends, in the order of sending.

    ``start`` is the round in which the first node issued the message.
    """

    facts: RunFacts
    path: tuple[int, ...]
    start: int
    copies: tuple[MessageFact, ...]

    @cached_property
    def arrivals(self) -> dict[int, list[MessageFact]]:
        """Maps each node to the copies that the node accepted, in the order of arrival."""
        found = defaultdict(list)
        for copy in sorted(self.copies, key=lambda copy: copy.at):
            if copy.fate == HANDLED:
                found[copy.dst].append(copy)
        return dict(found)

    def reached(self, before: tuple[int, int] | None = None) -> int:
        """Returns the last node of the path that received the message; the first node if no other node received it.

        Only copies that are handled before ``before``, a value of `MessageFact.at`, count; None counts all copies.
        """
        for node in reversed(self.path):
            first = self.arrivals.get(node, [None])[0]
            if first is not None and (before is None or first.at < before):
                return node
        return self.path[0]

    def copies_beyond(self, node: int) -> list[MessageFact]:
        """Returns the copies to the nodes that follow ``node`` on the path; all copies if the path has one node."""
        if len(self.path) == 1:
            return list(self.copies)
        behind = set(self.path[self.path.index(node) + 1 :])
        return [copy for copy in self.copies if copy.dst in behind]

    def knows(self, node: int, round_: int) -> bool:
        """Returns whether ``node`` issued the message, or accepted a copy before round ``round_``."""
        return node == self.path[0] or self.held(node, round_ - 1) is not None

    def first_arrival(self, node: int) -> tuple[int, int]:
        """Returns `MessageFact.at` of the first copy that ``node`` accepted.

        For the issuing node, and for a node that accepted no copy, returns a key after all messages of round ``start``.
        """
        taken = self.arrivals.get(node)
        return (self.start + 1, 0) if node == self.path[0] or not taken else taken[0].at

    def held(self, node: int, round_: int) -> MessageFact | None:
        """Returns the last copy that ``node`` accepted up to ``round_``; None if it had accepted no copy."""
        taken = [copy for copy in self.arrivals.get(node, []) if copy.due <= round_]
        return taken[-1] if taken else None

    def chain(self, came: int | None = None) -> list[MessageFact]:
        """Returns the sequence of copies that brought the message to the last node of the path.

        It ends with the last copy that this node accepted up to round ``came``; None stands for the first copy.
        """
        found: list[MessageFact] = []
        last = self.path[-1]
        copy = self.arrivals.get(last, [None])[0] if came is None else self.held(last, came)
        while copy is not None and len(found) < len(self.copies):
            found.append(copy)
            copy = self.held(copy.src, copy.sent)
        return found[::-1]


def make_trail(
    facts: RunFacts, served: Sequence[MessageFact], path: Sequence[int], start: int, came: int | None = None
) -> Trail:
    """Selects the copies that a call sent along a path, from all messages `served` of the call.

    A message is a copy if it has the kind of the first message. If no copy reached the last node up to round ``came``,
    in which the call took effect there, each message that this node accepted in round ``came`` is also a copy. Copies
    between the nodes of a detour are also selected. On a path of one node, the function selects the copies that this
    node sends and receives, unless the call took effect in its own round ``start``.
    """
    copies = tuple(copy for copy in served if copy.kind == served[0].kind)
    taken = [copy for copy in served if copy.dst == path[-1] and copy.fate == HANDLED]
    if came is not None and len(path) > 1 and not any(copy in copies and copy.due <= came for copy in taken):
        copies += tuple(copy for copy in taken if copy not in copies and copy.due == came)
    whole = Trail(facts, tuple(path), start, copies)
    ways = whole.chain() + ([] if came is None else whole.chain(came))
    if len(path) == 1 and came != start:
        ways = [copy for copy in copies if path[0] in (copy.src, copy.dst)]
    near = {*path, *(end for copy in ways for end in (copy.src, copy.dst))}
    return Trail(facts, tuple(path), start, tuple(copy for copy in copies if {copy.src, copy.dst} <= near))
