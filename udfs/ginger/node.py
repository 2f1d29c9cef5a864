"""The state of all nodes: neighbours, a view of the tree, links to send over, and the stored tables.

In a run without crashes and joins of brokers the tree is never repaired: buffers and tables of repairs stay empty. The
sections of the thesis call their node through `Role`, which brokers and clients implement differently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from udfs.ginger import records as rows, repair_records as repairs
from udfs.ginger.buffer import Buffer, Event, Message, Runs
from udfs.ginger.messages import ParentRequest
from udfs.ginger.records import Neighbour, TreeView
from udfs.ginger.repair_records import Parked
from udfs.ginger.tree import relationship
from udfs.nodes.context import Context
from udfs.nodes.program import NodeProgram, appended, keyed, one, ordered


class State(NodeProgram):
    """The tables of a node; contacts are the only state of a recovered broker."""

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
    repair = one(repairs.Repair)
    election = one(repairs.ElectionState)
    awaited = keyed(repairs.Awaited)
    failed = keyed(repairs.FailedBroker)
    hold = ordered(repairs.Hold)
    client_subscription = keyed(repairs.ClientSubscription)
    parked = keyed(repairs.Parked)
    gap = keyed(repairs.Gap)
    exception = keyed(repairs.Exceptional)
    topic_join = keyed(repairs.TopicJoin)
    entrant = ordered(repairs.Entrant)
    postponed = ordered(repairs.Postponed)
    receipt = keyed(repairs.Receipt)
    reported = keyed(repairs.Reported)


POSITIONS = 1 << 20
"""Positions of the rows of a node in a round."""
_SIBLING = (1, 1)


class Node:
    """A node with its tables, and the round that it is in."""

    def __init__(self, state: State) -> None:
        """Reads the neighbours.

        Args:
            state: The tables of the node.
        """
        self.state = state
        self.repair = state.repair
        self.latency: dict[int, int] = {}
        self._near = {other: row.latency_rounds for other, row in state.neighbour.items()}
        self._far = {other: row.latency_rounds for other, row in state.tree_view.items()}
        self._position = -1
        self.parent: int | None = None
        self.children: set[int] = set()
        self.clients: set[int] = set()
        for other, row in state.neighbour.items():
            if row.relationship in ("parent", "edge"):
                self.parent = other
            else:
                (self.children if row.relationship == "child" else self.clients).add(other)

    def enter(self, ctx: Context, sender: int | None) -> None:
        """Enters a handler; keeps the latency to the sender of a message until the end of the round."""
        self.ctx = ctx
        if self._position < ctx.round * POSITIONS:
            self._position = ctx.round * POSITIONS
            self.latency = self._far | self._near
        if sender is not None and sender != ctx.node and ctx.sent_round is not None:
            self.latency.setdefault(sender, ctx.round - ctx.sent_round)

    @property
    def id(self) -> int:
        """Its id."""
        return self.ctx.node

    def setting(self, name: str) -> int:
        """Returns a setting that is a number."""
        return int(self.ctx.settings[name])

    @property
    def is_mended(self) -> bool:
        """Whether the tree of the run may be mended, so that state for repairs is kept."""
        return self.repair.is_mended

    @property
    def is_level(self) -> bool:
        """Whether the node has a parent or is the root, and has received all messages that it missed."""
        return self.repair.is_level

    @property
    def is_waiting(self) -> bool:
        """Whether a broker is being reconfigured, so that application messages are held."""
        return not self.repair.is_level or bool(self.state.awaited or self.state.hold)

    @property
    def is_newcomer(self) -> bool:
        """Whether the node joins or has recovered, and has had no parent yet: it knows no topics."""
        return self.repair.is_joining and self.repair.lost_parent is None

    @property
    def neighbours(self) -> set[int]:
        """The brokers that it is connected to."""
        return self.children | ({self.parent} if self.parent is not None else set())

    @property
    def residual_degree(self) -> int:
        """Connections that a broker may still take in."""
        used = len(self.children) + len(self.clients) + (self.parent is not None)
        return self.setting("total_degree") - used

    def next_position(self) -> int:
        """Returns ascending numbers, those of later rounds above those of earlier ones."""
        self._position += 1
        return self._position

    def send(self, dst: int, message: Any) -> None:  # noqa: ANN401 - any of the program's messages
        """Puts a message on a link; a node's messages leave in the order in which it sends them."""
        self.ctx.send(dst, message, after=self.latency.get(dst))

    def flood(self, message: Any, sender: int | None) -> None:  # noqa: ANN401 - any of the program's messages
        """Sends on through the tree, away from where it came from."""
        for neighbour in sorted(self.neighbours - {sender}):
            self.send(neighbour, message)

    def rounds_to(self, other: int) -> int:
        """Returns the rounds to another node, as far as they are known."""
        return self.latency.get(other, 1)

    def patience(self, partner: int) -> int:
        """Returns the rounds in which a partner that is up has answered, with an election of its own in between."""
        return 2 * self.rounds_to(partner) + 3 * self.setting("timer_rounds")

    # ---- neighbours

    def set_parent(self, parent: int) -> None:
        """Connects to a new parent, or edge broker."""
        self.parent = parent
        self._connect(parent, "edge" if self.repair.role == "client" else "parent")

    def add_child(self, child: int, *, is_client: bool) -> None:
        """Connects to a new child or client."""
        (self.clients if is_client else self.children).add(child)
        self._connect(child, "client" if is_client else "child")

    def _connect(self, other: int, kind: str) -> None:
        """Opens a connection; the failure detector tells of brokers that crash."""
        rounds = self._near[other] = self.rounds_to(other)
        self.state.neighbour[other] = Neighbour(other, kind, rounds)
        if kind != "client":
            self.ctx.watch(other, rounds)

    def disconnect(self, other: int) -> None:
        """Removes a neighbour."""
        self.state.neighbour.pop(other, None)
        self._near.pop(other, None)
        self.ctx.unwatch(other)
        self.children.discard(other)
        self.clients.discard(other)
        if other == self.parent:
            self.parent = None

    # ---- the view of the tree

    def place(self, broker: int) -> tuple[int, int] | None:
        """Returns the steps up, then down, by which one comes here from a broker of the view."""
        seen = self.state.tree_view.get(broker)
        return None if seen is None else (seen.n_up, seen.n_down)

    def is_sibling(self, broker: int) -> bool:
        """Returns whether a broker of the view is a child of the same parent."""
        return self.place(broker) == _SIBLING

    def see(self, view: Iterable[tuple[int, int, int]]) -> None:
        """Replaces the view of the tree: other brokers, each with the steps up, then down, on its path to this node."""
        rows = [TreeView(other, relationship(up, down), up, down, self.rounds_to(other)) for other, up, down in view]
        self.state.tree_view = {row.peer: row for row in rows}
        self._far = {row.peer: row.latency_rounds for row in rows}

    def candidates(self) -> list[int]:
        """Returns brokers to ask, by hops, ancestors before siblings, then by id (rule G11).

        A newcomer knows no others than its contacts, which may be back by now.
        """
        dead = set() if self.is_newcomer else self.repair.dead
        found = [(row.n_up + row.n_down, (row.n_up, row.n_down) == _SIBLING, broker)
                 for broker, row in self.state.tree_view.items() if broker not in dead]  # fmt: skip
        return [broker for *_, broker in sorted(found)]


class Role(ABC):
    """A broker or a client.

    Attributes:
        node: The node.
    """

    node: Node

    # ---- events from the network

    @abstractmethod
    def handle(self, m: Any, src: int) -> None:  # noqa: ANN401 - any message
        """Handles a message."""

    @abstractmethod
    def on_timer(self, name: str, key: int) -> None:
        """Handles the expiry of a timer."""

    @abstractmethod
    def neighbour_down(self, neighbour: int) -> None:
        """Handles the failure of a neighbour."""

    @abstractmethod
    def end_round(self) -> None:
        """Ends a round."""

    # ---- the search for a parent (section 4.2.3)

    @abstractmethod
    def candidates(self) -> list[int]:
        """Returns the brokers to which the node may send a ParentRequest, in order of preference (rule G11)."""

    @abstractmethod
    def seek(self) -> None:
        """Looks for a parent, or elects one."""

    @abstractmethod
    def request(self) -> ParentRequest:
        """Returns the node's ParentRequest."""

    @abstractmethod
    def attached(self) -> None:
        """Handles the acceptance by a new parent; the exchange waits for its ParentBuffer."""

    @abstractmethod
    def lost(self, broker: int) -> None:
        """Notes that a broker failed."""

    @abstractmethod
    def came_back(self, broker: int) -> None:
        """Handles the answer of a broker that is a newcomer and cannot take in a child (rule G22)."""

    @abstractmethod
    def view_changed(self) -> None:
        """Handles a change of the node's view of the tree."""

    # ---- messages that are missing (section 4.3.2)

    @abstractmethod
    def buffer(self, topic: str) -> Buffer:
        """Returns the buffer of a topic."""

    @abstractmethod
    def collect(self, topic: str, runs: Runs) -> None:
        """Drops messages that all members have had."""

    @abstractmethod
    def needs(self, partner: int, event: Event) -> bool:
        """Returns whether the body of a message that a partner tells of is needed here."""

    @abstractmethod
    def own_copy(self, message: Message) -> Message:
        """Returns a message with its body, if it has it elsewhere than in the buffer."""

    @abstractmethod
    def resume(self, parked: Parked) -> None:
        """Handles a parked answer."""

    @abstractmethod
    def ask_publisher(self, message: Message, lacking: int, sender: int | None) -> None:
        """Lets the client that published a message know that a node lacks it."""
