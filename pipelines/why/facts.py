"""The history of a run as plain rows, and the copies of a message between the nodes on its way; `reading` reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import networkx as nx

NEVER = 1 << 62
"""A round after all others."""
_LOSING = ("break", "partition", "burst", "loss")
LINKED, UNLINKED = "link", "unlink"
"""Kinds of events: a link comes, or goes."""


@dataclass(frozen=True)
class MessageFact:
    """A row of table ``message``; ``body`` is read."""

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
        """Where it stands among what is handled in the run."""
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
    """A time for which a node is down.

    Attributes:
        node: The node.
        round: Round of the crash.
        until: Round in which it recovers; None: never, as far as the history goes.
        restored: Round from which the protocol reports the node as restored; None if it reports nothing.
        statuses: The reported statuses of the node from its recovery to ``restored``, or to its next crash: rounds,
            statuses.
    """

    node: int
    round: int
    until: int | None
    restored: int | None
    statuses: tuple[tuple[int, str], ...]

    def covers(self, round_: int) -> bool:
        """Returns whether the node is down in a round."""
        return self.round <= round_ < (NEVER if self.until is None else self.until)

    def is_felt(self, first: int, last: int) -> bool:
        """Returns whether the node is down in one of some rounds, or recovers then, as far as the protocol says."""
        up = self.until if self.restored is None and not self.statuses else self.restored
        return self.round <= last and first < (NEVER if up is None else up)

    def is_blank(self, round_: int) -> bool:
        """Returns whether the node has recovered by a round, and the protocol does not report it as restored."""
        until, restored = (NEVER if end is None else end for end in (self.until, self.restored))
        return until <= round_ < restored


@dataclass(frozen=True)
class LinkFault:
    """A fault of links, for the messages that are sent during it.

    Attributes:
        kind: As in table ``fault_event``.
        src: Whose messages it concerns; None: anybody's.
        dst: To whom; None: to anybody.
        round: The first round of it.
        until: The round after the last one; None: it lasts to the end of the history.
    """

    kind: str
    src: int | None
    dst: int | None
    round: int
    until: int | None

    def is_at(self, round_: int) -> bool:
        """Returns whether a round belongs to it."""
        return self.round <= round_ < (NEVER if self.until is None else self.until)

    def concerns(self, message: MessageFact) -> bool:
        """Returns whether a message may have met it."""
        is_there = self.src in (None, message.src) and self.dst in (None, message.dst)
        return is_there and self.is_at(message.sent)

    def __str__(self) -> str:
        """Returns it in words."""
        return f"{self.kind} since round {self.round}" + ("" if self.until is None else f", up to {self.until - 1}")


@dataclass(frozen=True)
class Wait:
    """The rounds in which a node kept a publication before it sent or delivered it.

    Attributes:
        node: The node.
        since: The first round of it.
        until: The round in which it ended.
        reason: What the publication waited for, in words.
        crash: The node whose crash made it longer, and the round of the crash; None: no crash did.
    """

    node: int
    since: int
    until: int
    reason: str
    crash: tuple[int, int] | None


@dataclass
class RunFacts:
    """The facts of a run that stories use; keys are ids.

    Attributes:
        run_id: The run.
        confirms: Whether the protocol confirms publications.
        is_finished: Whether the run has ended; otherwise more rounds may come.
        maintenance: The kinds of messages that nodes send for ever, without an operation.
        names: Names of the nodes.
        publications: By source and number.
        messages: By source and number of the call that they serve.
        spread: By subscriber and subscription: the messages that spread it.
        others: Messages that serve no call: timers, and those of the others that were not taken.
        deliveries: Rounds and hops, by subscriber, source and number.
        downs: By node, in order.
        subscriptions: By subscriber.
        matching: By source and number: the subscriptions that it satisfies, whether issued or not.
        receivers: By subscriber, source and number: what excuses that a publication which was asked for does not come
            (view ``receiver``); None: nothing.
        links: Links with their latencies, those that others replace among them.
        changes: By ends of a link: the rounds in which it comes, or goes and another replaces it, and what it does.
        link_faults: What went wrong on links.
        waits: By source and number: where it still waits, and for what, in words.
        waited: By source and number: where it waited, as the protocol tells (`contract.protocol.Protocol.waited`).
    """

    run_id: int
    confirms: bool
    is_finished: bool
    maintenance: Sequence[str] = ()
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
        """Returns the facts with the links of a round."""
        if not self.changes:
            return self
        return replace(self, links=[link for link in self.links if self._is_there(link[:2], round_)], changes={})

    def _is_there(self, ends: tuple[int, int], round_: int) -> bool:
        """Returns whether a link exists in a round; it exists before its first change if this change removes it."""
        changes = self.changes.get(ends, [(0, LINKED)])
        before = [kind for at, kind in changes if at <= round_]
        return before[-1] == LINKED if before else changes[0][1] == UNLINKED

    @cached_property
    def overlay(self) -> nx.DiGraph[int]:
        """The overlay, links weighted with their latencies."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(self.names)
        graph.add_weighted_edges_from(self.links, weight="latency")
        return graph

    def path(self, a: int, b: int) -> list[int]:
        """Returns the nodes on the fastest way from one to another; only the two where links lead nowhere."""
        try:
            return list(nx.shortest_path(self.overlay, a, b, weight="latency"))
        except nx.NetworkXNoPath:
            return [a, b]

    def latency(self, path: Sequence[int]) -> int:
        """Adds the latencies of the links of a path."""
        return sum(self.overlay.get_edge_data(*ends, default={"latency": 0})["latency"] for ends in pairwise(path))

    def down(self, node: int, round_: int) -> Downtime | None:
        """Returns the newest crash of a node up to a round."""
        return next((down for down in reversed(self.downs.get(node, [])) if down.round <= round_), None)

    def loss(self, message: MessageFact) -> LinkFault | None:
        """Returns the link fault that lost a message, one that loses everything first.

        A partition concerns messages between any two of its groups, and is noted at the links between them only.
        """
        met = [fault for fault in self.link_faults if fault.concerns(message)]
        split = [fault for fault in self.link_faults if fault.kind == "partition" and fault.is_at(message.sent)]
        found = [fault for kind in _LOSING for fault in met if fault.kind == kind] + split
        return found[0] if found else None

    def overtaking(self, message: MessageFact) -> LinkFault | None:
        """Returns the last link fault that let messages overtake others before a message was handled."""
        faults = [fault for fault in self.link_faults if fault.kind == "reorder" and fault.round <= message.due]
        there = [fault for fault in faults if fault.src in (None, message.src) and fault.dst in (None, message.dst)]
        return max(there or faults, key=lambda fault: fault.round, default=None)

    def reports(self, node: int, peer: int) -> list[MessageFact]:
        """Returns the reports of a node's failure detector about another one, lost ones among them."""
        return [m for m in self.others if m.src == m.dst == node and m.body.get("peer") == peer]


HANDLED = "delivered"
LOST = ("lost_crash", "lost_link")
GUIDE = "guide"


@dataclass(frozen=True)
class Marks:
    """The special properties of a copy.

    Attributes:
        skipped: Nodes that it jumps over: its receiver is no neighbour of its sender.
        is_resent: The sender had sent a copy before.
        is_unicast: It came by another kind of message than those before, which does not go along links.
        is_guided: It brings its own recipients.
        waited_since: Round in which the sender had it already, where the copy left later and was the first.
    """

    skipped: tuple[int, ...]
    is_resent: bool
    is_unicast: bool
    is_guided: bool
    waited_since: int | None


@dataclass(frozen=True)
class Trail:
    """The copies of a message on the way from one node to another.

    Attributes:
        facts: The run.
        path: The nodes on the way, both ends among them.
        start: Round in which the first node issued it.
        copies: The copies between these nodes, in the order of sending.
    """

    facts: RunFacts
    path: tuple[int, ...]
    start: int
    copies: tuple[MessageFact, ...]

    @cached_property
    def arrivals(self) -> dict[int, list[MessageFact]]:
        """The copies that each node took, in order."""
        found = defaultdict(list)
        for copy in sorted(self.copies, key=lambda copy: copy.at):
            if copy.fate == HANDLED:
                found[copy.dst].append(copy)
        return dict(found)

    def reached(self, before: tuple[int, int] | None = None) -> int:
        """Returns the last node of the path that has it, or had it before something else was handled."""
        for node in reversed(self.path):
            first = self.arrivals.get(node, [None])[0]
            if first is not None and (before is None or first.at < before):
                return node
        return self.path[0]

    def beyond(self, node: int) -> list[MessageFact]:
        """Returns the copies to nodes of the path behind a node."""
        behind = set(self.path[self.path.index(node) + 1 :])
        return [copy for copy in self.copies if copy.dst in behind]

    def came(self, node: int) -> tuple[int, int]:
        """Returns when a node has it first; the node that issued it does so after all messages of the round."""
        taken = self.arrivals.get(node)
        return (self.start + 1, 0) if node == self.path[0] or not taken else taken[0].at

    def parent(self, copy: MessageFact) -> MessageFact | None:
        """Returns the copy that the sender of a copy had taken last; None where it issued the message."""
        taken = [other for other in self.arrivals.get(copy.src, []) if other.due <= copy.sent]
        return taken[-1] if taken else None

    def marks(self, copy: MessageFact) -> Marks:
        """Returns the marks of a copy."""
        parent = self.parent(copy)
        had = self.start if parent is None else parent.due
        is_resent = any(other.src == copy.src and other.sent < copy.sent for other in self.copies)
        waited = had if copy.sent > had and not is_resent else None
        skipped = tuple(self.facts.path(copy.src, copy.dst)[1:-1]) if copy.src != copy.dst else ()
        is_neighbour = self.facts.overlay.has_edge(copy.src, copy.dst)
        is_unicast = copy.kind != self.copies[0].kind
        return Marks(
            () if is_neighbour or is_unicast else skipped,
            is_resent,
            is_unicast,
            copy.body.get(GUIDE) is not None,
            waited,
        )

    def chain(self) -> list[MessageFact]:
        """Returns the copies by which the last node got it, from the first node on; none where it did not."""
        found: list[MessageFact] = []
        taken = self.arrivals.get(self.path[-1], [])
        copy = taken[0] if taken else None
        while copy is not None and len(found) < len(self.copies):
            found.append(copy)
            copy = self.parent(copy)
        return found[::-1]


def make_trail(
    facts: RunFacts, served: Sequence[MessageFact], path: Sequence[int], start: int, came: int | None = None
) -> Trail:
    """Finds the copies on the way among the messages that serve a call.

    Args:
        facts: The run.
        served: The messages; its copies are those of the kind that was sent first, and those that brought it by a
            reply.
        path: The nodes on the fastest way. Where a copy came another way, the nodes on that count too.
        start: Round in which it was issued.
        came: Round in which the last node got it; None: it did not, or not by anything but copies on the way.
    """
    copies = tuple(copy for copy in served if copy.kind == served[0].kind)
    taken = [copy for copy in served if copy.dst == path[-1] and copy.fate == HANDLED]
    if came is not None and len(path) > 1 and not any(copy in copies and copy.due <= came for copy in taken):
        copies += tuple(copy for copy in taken if copy not in copies and copy.due == came)
    whole = Trail(facts, tuple(path), start, copies)
    near = {*path, *(end for copy in whole.chain() for end in (copy.src, copy.dst))}
    return Trail(facts, tuple(path), start, tuple(copy for copy in copies if {copy.src, copy.dst} <= near))
