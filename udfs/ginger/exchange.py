"""A new parent and its child get level: each sends what the other lacks (section 4.3.2, Alg. 10 to 12)."""

from __future__ import annotations

from udfs.ginger import messages as ms
from udfs.ginger.lost_messages import LostMessages
from udfs.ginger.missing_messages import MissingMessages
from udfs.ginger.missing_sets import MissingSets
from udfs.ginger.node import Node
from udfs.ginger.repair_records import Parked
from udfs.ginger.topic_joining import TopicJoining
from udfs.ginger.topics import Topics
from udfs.nodes.program import NodeDown


class Exchange:
    """The exchanges of one broker with its new neighbours."""

    def __init__(
        self, node: Node, topics: Topics, lost: LostMessages, missing: MissingMessages, joining: TopicJoining
    ) -> None:
        """Exchanges messages for a broker."""
        self._node = node
        self._state = node.state
        self._topics = topics
        self._lost = lost
        self._missing = missing
        self._joining = joining

    def on_parent_buffer(self, m: ms.ParentBuffer, sender: int) -> None:
        """Alg. 11: sends what the new parent lacks, and asks for what it has and this broker lacks."""
        if sender != self._node.parent:
            return
        theirs = self._lost.told(m.told)
        for name, members in sorted(theirs.members.items()):
            self._topics.of(name).set_members(members)
        self._node.send(sender, ms.LostMessageRequest(self._missing.missing_of(theirs)))

    def on_lost_message_request(self, m: ms.LostMessageRequest, sender: int) -> None:
        """Alg. 12: takes what it lacked, and answers with what the sender lacks."""
        node, awaited = self._node, self._state.awaited
        if sender not in node.children and sender not in node.clients:
            # The broker that took the sender in has failed since, and recovered without knowing it.
            node.send(sender, NodeDown(node.id))
        if sender not in awaited:
            return
        is_answered = sender in self._state.parked
        told = self._lost.filled(sender, "LostMessageRequest", m.told)
        if told is None:
            self._answer(sender, m.told)
            return
        self._missing.apply(sender, told)
        if not is_answered:
            self._answer(sender, told)
        subscribed = self._subscribed(sender)
        for topic in self._topics:
            for pending in topic.pending.values():
                pending.acked.discard(sender)
                pending.covered |= {sender} if topic.name in subscribed else set()
        awaited.pop(sender, None)
        self._joining.settle()
        if sender in node.children:
            self._joining.ask_again(sender)

    def _answer(self, sender: int, theirs: MissingSets) -> None:
        """Sends what a new child lacks; from now on it gets all else."""
        self._node.send(sender, ms.LostMessages(self._missing.missing_of(theirs)))
        for name in self._subscribed(sender):
            self._topics.of(name).add(sender, "client")

    def _subscribed(self, client: int) -> tuple[str, ...]:
        row = self._state.client_subscription.get(client)
        return () if row is None else row.topics

    def on_lost_messages(self, m: ms.LostMessages, sender: int) -> None:
        """All that was missing is there."""
        node = self._node
        told = self._lost.filled(sender, "LostMessages", m.told) if sender == node.parent else None
        if told is None:
            return
        self._missing.apply(sender, told)
        node.repair.is_level = True
        self._joining.settle()
        if node.parent is not None:
            self._joining.ask_again(node.parent)

    def resume(self, parked: Parked) -> None:
        """Handles what was put aside: the messages that were lacking are there."""
        if parked.kind == "LostMessageRequest":
            self.on_lost_message_request(ms.LostMessageRequest(parked.told), parked.partner)
        elif parked.kind == "TopicJoined":
            self._joining.on_topic_joined(ms.TopicJoined(parked.topic or "", parked.told), parked.partner)
        else:
            self.on_lost_messages(ms.LostMessages(parked.told), parked.partner)
