"""The state of a node (`Node`), and the interface through which the parts of a node call it (`Role`).

If no broker of a run crashes or joins, the tree needs no repair. Then the buffers and the tables about repairs stay
empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from udfs.ginger import records as rows
from udfs.ginger.messages import Incarnation, Lacking
from udfs.ginger.records import Neighbour, TreeView
from udfs.ginger.tree import SIBLING, relationship
from udfs.nodes.context import Context
from udfs.nodes.program import NodeProgram, appended, keyed, one, ordered

POSITIONS = 1 << 20
"""Number of positions that a node can assign in a round. Those of round r begin at r * POSITIONS."""


class Node(NodeProgram):
    """The tables, neighbours and latencies of a node. Only table ``contact`` survives a crash.

    Attributes:
        latency: The known latencies of messages from other nodes, in rounds.
        parent: The parent of a broker, or the edge broker of a client. None if the node is not connected.
        children: The brokers that are children of the node.
        clients: The clients that are attached to the node.
    """

    neighbour = keyed(rows.Neighbour)
    tree_view = keyed(rows.TreeView)
    contact = keyed(rows.Contact, is_durable=True)
    client_topic = keyed(rows.ClientTopic)
    subscribe = keyed(rows.ReceivedSubscribe)
    subscriber = keyed(rows.Subscriber)
    member = keyed(rows.Member)
    pending = keyed(rows.Pending)
    entry_queue = keyed(rows.EntryQueue)
    metadata_buffer = keyed(rows.BufferedEvent)
    discarded = keyed(rows.Discarded)
    delivered = appended(rows.Delivered)
    repair = one(rows.Repair)
    election = one(rows.ElectionState)
    awaited = keyed(rows.Awaited)
    coverage = keyed(rows.Coverage)
    failed = keyed(rows.FailedBroker)
    hold = ordered(rows.Hold)
    client_subscription = keyed(rows.ClientSubscription)
    parked = keyed(rows.Parked)
    gap = keyed(rows.Gap)
    exception = keyed(rows.Exceptional)
    topic_join = keyed(rows.TopicJoin)
    entrant = ordered(rows.Entrant)
    postponed = ordered(rows.Postponed)
    receipt = keyed(rows.Receipt)
    reported = keyed(rows.Reported)

    caches: ClassVar = ("ctx", "latency", "parent", "children", "clients")

    def __init__(self) -> None:
        super().__init__()
        self.latency: dict[int, int] = {}
        self._position = -1
        self.parent: int | None = None
        self.children: set[int] = set()
        self.clients: set[int] = set()

    def enter(self, ctx: Context, sender: int | None) -> None:
        """Prepares the node for an event. If the event is a message of `sender`, also records its latency."""
        self.ctx = ctx
        if self._position < ctx.round * POSITIONS:
            self._position = ctx.round * POSITIONS
            far = {other: row.latency_rounds for other, row in self.tree_view.items()}
            near = {other: row.latency_rounds for other, row in self.neighbour.items()}
            self.latency = self.repair.seen | far | near
        if sender is not None and sender != ctx.node and ctx.sent_round is not None:
            self.latency.setdefault(sender, ctx.round - ctx.sent_round)

    @property
    def id(self) -> int:
        """The id of the node."""
        return self.ctx.node

    @property
    def incarnation(self) -> int:
        """The number of recoveries of the node."""
        return self.ctx.run.incarnation(self.ctx.node, self.ctx.round)

    def setting(self, name: str) -> int:
        """Returns the value of setting `name` of the protocol, which must be a number."""
        return int(self.ctx.settings[name])

    @property
    def is_incomplete(self) -> bool:
        """Whether the node searches for a parent, or awaits messages of a partner or the bodies of a stored answer."""
        return not self.repair.is_level or bool(self.awaited or self.parked)

    @property
    def is_waiting(self) -> bool:
        """Whether the node is under repair. It then puts application messages into its hold queue (Alg. 9)."""
        return self.is_incomplete or bool(self.hold)

    @property
    def is_newcomer(self) -> bool:
        """Whether the node is joining or recovering, and no parent of this incarnation has failed.

        A newcomer searches for its first parent, or awaits messages from this parent. It knows no topics.
        """
        return self.repair.is_joining and self.repair.lost_parent is None

    @property
    def neighbours(self) -> set[int]:
        """The parent and the children of the node; its clients are excluded."""
        return self.children | ({self.parent} if self.parent is not None else set())

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The topics that a client subscribes to."""
        return tuple(topic for topic, row in self.client_topic.items() if row.usage == "subscribed")

    @property
    def residual_degree(self) -> int:
        """The number of connections that a broker can still accept: ``total_degree`` minus its connections."""
        used = len(self.children) + len(self.clients) + (self.parent is not None)
        return self.setting("total_degree") - used

    def next_position(self) -> int:
        """Returns a new position, which is above all earlier positions of the node."""
        self._position += 1
        return self._position

    def send(self, dst: int, message: Any) -> None:  # noqa: ANN401 - any of the program's messages
        """Sends `message` to node `dst`. If no link joins the nodes, the message takes the path in the overlay."""
        ctx = self.ctx
        ctx.send(dst, message, after=None if dst in ctx.neighbours else ctx.route_latency(ctx.run.path(ctx.node, dst)))

    def flood(self, message: Any, sender: int | None) -> None:  # noqa: ANN401 - any of the program's messages
        """Sends `message` to the parent and all children except `sender`."""
        for neighbour in sorted(self.neighbours - {sender}):
            self.send(neighbour, message)

    def ask_publisher(self, m: Lacking, sender: int | None = None) -> None:
        """Sends Exception `m` to the publisher if it is a client of this node. Otherwise floods `m` (4.3.2.3).

        Argument `sender` is the neighbour that sent `m`; None if this node itself lacks the message.
        """
        if m.source in self.clients:
            self.send(m.source, m)
        else:
            self.flood(m, sender)

    def rounds_from(self, other: int) -> int:
        """Returns the latency of messages from node `other` in rounds, or 1 if the latency is unknown."""
        return self.latency.get(other, 1)

    def patience(self, partner: int) -> int:
        """Returns the rounds in which a live `partner` answers even if it is in an election (rule G14)."""
        return 2 * self.rounds_from(partner) + 3 * self.setting("timer_rounds")

    # ---- neighbours

    def connect(self, one: Incarnation, relationship: str) -> None:
        """Connects the node to its new neighbour `one`, whose role is parent, child, client or edge (`Neighbour`)."""
        other, incarnation = one
        self.place(other, relationship)
        self.note_up(one)
        rounds = self.rounds_from(other)
        self.neighbour[other] = Neighbour(other, relationship, rounds, incarnation)
        if relationship != "client":
            self.ctx.watch(other, rounds)

    def place(self, other: int, relationship: str) -> None:
        """Adds `other` to the parent, children or clients of the node, according to its role `relationship`."""
        if relationship in ("parent", "edge"):
            self.parent = other
        else:
            (self.children if relationship == "child" else self.clients).add(other)

    def disconnect(self, other: int) -> None:
        """Removes neighbour `other` from the tables, and ends the watch on `other`."""
        self.neighbour.pop(other, None)
        self.ctx.unwatch(other)
        self.children.discard(other)
        self.clients.discard(other)
        if other == self.parent:
            self.parent = None

    # ---- the view of the tree

    def is_sibling(self, broker: int) -> bool:
        """Returns whether `broker` is a sibling in the view: a child of the node's parent."""
        return broker in self.tree_view and self.tree_view[broker].relationship == SIBLING

    def see(self, view: Iterable[tuple[int, int, int]]) -> None:
        """Replaces the view of the node.

        Each broker of `view` has the numbers of links upwards, at the beginning of its path to the node, and downwards.
        """
        rows = (TreeView(other, relationship(up, down), up, down, self.rounds_from(other)) for other, up, down in view)
        self.tree_view = {row.peer: row for row in rows}

    def see_contacts(self) -> None:
        """Replaces the view of the node by its contacts, nearer contacts first."""
        near = sorted((row.latency_rounds, contact) for contact, row in self.contact.items())
        self.latency |= {contact: rounds for rounds, contact in near}
        self.see((contact, 0, 1 + index) for index, (_, contact) in enumerate(near))

    # ---- failures and recoveries

    def latest(self, broker: int) -> Incarnation:
        """Returns the incarnation of `broker` to which the node is connected, or else the latest one that it knows."""
        row = self.neighbour.get(broker)
        return Incarnation(broker, self.repair.incarnations.get(broker, 0) if row is None else row.incarnation)

    def note_up(self, one: Incarnation) -> None:
        """Records that incarnation `one` is up. Does nothing if the node knows a later incarnation."""
        if self._note(one):
            self.repair.dead.discard(one.broker)

    def note_down(self, one: Incarnation) -> None:
        """Records that incarnation `one` has failed. Does nothing if the node knows a later incarnation."""
        if self._note(one):
            self.repair.dead.add(one.broker)

    def _note(self, one: Incarnation) -> bool:
        known = self.repair.incarnations
        if one.incarnation > known.get(one.broker, 0):
            known[one.broker] = one.incarnation
        return one.incarnation == known.get(one.broker, 0)

    def last_failed(self, broker: int) -> int:
        """Returns the latest incarnation of `broker` that has failed, as far as the node knows; -1 if none has."""
        return self.repair.incarnations.get(broker, 0) - (broker not in self.repair.dead)

    def candidates(self) -> list[int]:
        """Returns the brokers to which the node may send a ParentRequest, in order of preference (rule G11).

        These are the live brokers of the view that are not children. Nearer brokers precede farther ones. At equal
        distance, ancestors precede siblings, and then lower ids precede higher ids. The view of a newcomer consists of
        its contacts, and the list then includes failed brokers, because they may have recovered. If the view of a
        client has no live broker, the list contains the live brokers of its earlier views (rule G21).
        """
        excluded = self.children | (set() if self.is_newcomer else self.repair.dead)
        found = [(row.n_up + row.n_down, row.relationship == SIBLING, broker)
                 for broker, row in self.tree_view.items() if broker not in excluded]  # fmt: skip
        return [broker for *_, broker in sorted(found)] or sorted(self.repair.seen.keys() - self.repair.dead)

    def siblings(self) -> list[int]:
        """Returns the live siblings that have not become descendants of another sibling."""
        return [one for one in self.candidates() if self.is_sibling(one) and one not in self.election.below]


class Role(ABC):
    """A broker or a client, and the interface through which its parts call it.

    Attributes:
        node: The state of the node.
        handlers: The method that handles each type of message.
    """

    node: Node
    handlers: Mapping[type, Callable[[Any, int], None]]

    def handle(self, m: Any, src: int) -> None:  # noqa: ANN401 - any message
        """Handles message `m` from node `src`. A broker that has not joined the tree ignores `m` (rule G24)."""
        if self.node.repair.is_present:
            self.handlers[type(m)](m, src)

    @abstractmethod
    def neighbour_down(self, neighbour: int) -> None:
        """Handles the report that `neighbour` has failed."""

    def lost(self, one: Incarnation) -> None:
        """Records that incarnation `one` has failed."""
        self.node.note_down(one)
