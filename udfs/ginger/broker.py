"""A broker, made of the sections of the thesis; which section handles a message is in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from udfs.ginger import election, lost_messages, messages as ms, parent_search, tree_repair
from udfs.ginger.buffer import Buffer, Event, Runs
from udfs.ginger.buffers import Buffers
from udfs.ginger.election import Election
from udfs.ginger.exchange import Exchange
from udfs.ginger.garbage_collection import GarbageCollection, Reports
from udfs.ginger.hold_queue import APPLICATION, HoldQueue
from udfs.ginger.lost_messages import LostMessages
from udfs.ginger.messages import ParentRequest
from udfs.ginger.missing_messages import MissingMessages
from udfs.ginger.node import Node
from udfs.ginger.ordering import Ordering
from udfs.ginger.parent_search import ParentSearch
from udfs.ginger.queue import Message
from udfs.ginger.repair_records import Deferred, Failed, Parked
from udfs.ginger.role import Role
from udfs.ginger.subscribing import Subscribing
from udfs.ginger.topic_joining import TopicJoining
from udfs.ginger.topics import Topics
from udfs.ginger.tree_repair import TreeRepair

Handler = Callable[[Any, int], None]


class Broker(Role):
    """A broker; each part of it is a section of the thesis."""

    def __init__(self, node: Node) -> None:
        """Puts it together."""
        self.node = node
        self.buffers = Buffers(node)
        self.topics = Topics(node, self.buffers)
        self.ordering = Ordering(node, self.topics, self.buffers)
        self.subscribing = Subscribing(node, self.topics)
        self.hold = HoldQueue(node, self.ordering)
        self.lost_messages = LostMessages(self)
        self.missing = MissingMessages(
            node, self.topics, self.buffers, self.ordering, self.hold, self.lost_messages
        )  # fmt: skip
        self.garbage = GarbageCollection(node, self.topics, self.ordering, Reports(node, self.buffers))
        self.joining = TopicJoining(
            node, self.topics, self.ordering, self.hold, self.lost_messages, self.missing, self._admit
        )  # fmt: skip
        self.exchange = Exchange(node, self.topics, self.lost_messages, self.missing, self.joining)
        self.search = ParentSearch(self)
        self.election = Election(self, self.search, self._election_ended)
        self.tree = TreeRepair(self, self.topics, self.hold, self.missing, self.joining, self.election)
        self._handlers: Mapping[type, Handler] = {
            **dict.fromkeys(APPLICATION, self.hold.take),
            ms.Subscribe: self.subscribing.on_subscribe,
            ms.Subscribed: self.subscribing.on_subscribed,
            ms.ParentRequest: self.tree.on_parent_request,
            ms.ParentResponse: self.search.on_response,
            ms.TreeViewUpdate: self.search.on_tree_view_update,
            ms.RootElection: self.election.on_root_election,
            ms.ParentBuffer: self.exchange.on_parent_buffer,
            ms.LostMessageRequest: self.exchange.on_lost_message_request,
            ms.LostMessages: self.exchange.on_lost_messages,
            ms.Lacking: self.missing.on_exception,
            ms.Repeat: self.missing.on_repeat,
            ms.JoinTopic: self.joining.on_join_topic,
            ms.TopicJoined: self.joining.on_topic_joined,
            ms.Received: self.garbage.on_received,
            ms.Collect: self.garbage.on_collect,
        }

    def handle(self, m: Any, src: int) -> None:  # noqa: ANN401 - any message
        """Handles a message; who is not in the tree yet answers nobody (rule G24)."""
        if self.node.repair.is_present:
            self._handlers[type(m)](m, src)

    def on_timer(self, name: str, key: int) -> None:
        """Handles a timer."""
        if name == parent_search.TIMER:
            self.search.on_timer()
        elif name == lost_messages.TIMER:
            self.lost_messages.on_timer()
        elif name == election.TIMER:
            self.election.on_timer(key)
        elif name == tree_repair.TIMER and self.tree.on_timer(key):
            self._child_down(key)

    def join(self, status: str, join_seq: int | None) -> None:
        """Looks for a parent: a broker that is new, or that recovers and knows nothing (section 6.1)."""
        node, contacts = self.node, self.node.state.contact
        repair = node.repair
        repair.is_mended = repair.is_present = repair.is_new = repair.is_joining = True
        repair.is_level, repair.join_seq = False, join_seq
        near = sorted((row.latency_rounds, contact) for contact, row in contacts.items())
        node.latency |= {contact: rounds for rounds, contact in near}
        node.see((contact, 0, 1 + place) for place, (_, contact) in enumerate(near))
        if status == "RECOVERING":
            # The broker that noticed the failure may have failed, too, before it told anybody.
            node.state.failed[node.id] = Failed(node.id)
        node.ctx.status(status)
        self.seek()

    def end_round(self) -> None:
        """Is operational when it has got level with its first parent; and reports what was had for good."""
        repair = self.node.repair
        if repair.is_level and repair.is_joining:
            repair.is_joining = False
            self.node.ctx.status("OPERATIONAL")
            if repair.join_seq is not None:
                self.node.ctx.confirm(repair.join_seq)
        self.garbage.end_round()

    # ---- neighbours that fail

    def neighbour_down(self, neighbour: int) -> None:
        """Alg. 3 and 4: forgets the neighbour, and looks for a new parent if it was that."""
        node = self.node
        if neighbour in node.children or neighbour in node.clients:
            self._child_down(neighbour)
        elif neighbour == node.parent:
            repair = node.repair
            repair.upward = [topic.name for topic in self.topics if neighbour in topic.brokers]
            for topic in self.topics:
                topic.discard(neighbour)
                topic.tell_anew()
            if not repair.is_level:
                self.hold.drop(neighbour)
            node.disconnect(neighbour)
            repair.is_level = repair.is_root = False
            self.election.orphaned(neighbour)
            self._forget(neighbour)
            self.lost(neighbour)
            self.seek()

    def _child_down(self, child: int) -> None:
        self.tree.child_down(child)
        self._forget(child)
        self.lost(child)
        self.view_changed()
        self.joining.settle()

    def _forget(self, partner: int) -> None:
        self.lost_messages.forget(partner)
        self.garbage.forget(partner)
        self.joining.forget(partner)

    def lost(self, broker: int) -> None:
        """Notes that a broker failed, and tells the others."""
        self.hold.lost(broker)

    # ---- what the sections ask of each other

    def candidates(self) -> list[int]:
        """Returns brokers to ask; those that have moved below it are excluded."""
        return [broker for broker in self.node.candidates() if broker not in self.node.children]

    def seek(self) -> None:
        """Looks for a parent, or elects one."""
        self.election.seek()

    def request(self) -> ParentRequest:
        """Names the topics whose sub-tree it is in, but not at the root of."""
        repair = self.node.repair
        return ParentRequest(tuple(repair.upward), repair.break_degree, repair.is_joining)

    def attached(self) -> None:
        """The new parent is in the sub-trees that the old one was in."""
        for name in self.node.repair.upward:
            self.topics.of(name).add(self.node.parent or 0, "broker")

    def came_back(self, broker: int) -> None:
        """Its place in the tree is gone, and with it the vote that it gave; two newcomers know no places (rule G22)."""
        if self.node.is_newcomer:
            self.search.declined(broker)
        else:
            self.lost(broker)

    def view_changed(self) -> None:
        """Has children and clients told."""
        self.tree.view_changed()

    def _admit(self) -> None:
        self.tree.admit()

    def _election_ended(self, deferred: Sequence[Deferred]) -> None:
        for sender, request in deferred:
            self.tree.on_parent_request(request, sender)
        self.joining.settle()

    def buffer(self, topic: str) -> Buffer:
        """Returns the buffer of a topic."""
        return self.buffers.of(topic)

    def collect(self, topic: str, runs: Runs) -> None:
        """Forgets messages that everybody has had."""
        self.garbage.collect(topic, runs)

    def needs(self, partner: int, event: Event) -> bool:
        """Returns whether there is somebody to pass a message on to."""
        return self.missing.needs(partner, event)

    def own_copy(self, message: Message) -> Message:
        """Returns a message that is pending here with its body."""
        return self.missing.own_copy(message)

    def resume(self, parked: Parked) -> None:
        """Handles what was put aside."""
        self.exchange.resume(parked)

    def ask_publisher(self, message: Message, lacking: int, sender: int | None) -> None:
        """Sends an Exception on."""
        self.missing.ask_publisher(message, lacking, sender)
