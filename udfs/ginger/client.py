"""A client: it publishes, delivers in order, and looks for another broker when its own fails (section 4.2.3.1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from udfs.ginger.items import Item
from udfs.ginger.missing import Event, Missing, read_missing
from udfs.ginger.queue import Message
from udfs.ginger.seeking import Seeker

Id = tuple[int, int]


class Client(Seeker):
    """A client in a round; ``history`` has what it published and delivered, where nodes may crash."""

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state, see `Node`."""
        self.topics: dict[str, bool] = {}
        self.published: list[Message] = []
        self.delivered: dict[Id, Message] = {}
        super().__init__(node, round_, state)

    def _read_client_topic(self, row: Item) -> None:
        self.topics[row.topic or ""] = row.kind == "subscribed"

    def _read_history(self, row: Item) -> None:
        if row.kind == "published":
            self.published.append(row.message)
        else:
            self.delivered[row.message.id] = row.message

    def handle(self, item: Item) -> None:
        """Handles a call or a message."""
        self.hear(item)
        match item.kind:
            case "publish":
                self.publish(item.message)
            case "Metadata":
                self.deliver(item.message, item.hops or 0)
            case "NeighborDown":
                self.on_neighbor_down(int(item.details or 0))
            case "ParentResponse":
                self.on_parent_response(item)
            case "ParentBuffer":
                self.on_parent_buffer(item)
            case "LostMessages":
                self.on_lost_messages(item)
            case "TreeViewUpdate":
                self.on_tree_view_update(item)
            case "Timer":
                self.on_timer(*json.loads(item.details or "[]"))

    def publish(self, message: Message) -> None:
        """Hands a message to the edge broker, if there is one that it is level with."""
        if self.may_crash:
            self.published.append(message)
            self.keep("history", message, kind="published")
        if self.is_level and self.parent is not None:
            self.send(self.parent, "Metadata", message, 1)

    def deliver(self, message: Message, hops: int) -> None:
        """Delivers a message, once."""
        if message.id not in self.delivered:
            self.delivered[message.id] = message
            self.keep("delivered", message, hops=hops)
            if self.may_crash:
                self.keep("history", message, kind="delivered")

    def on_neighbor_down(self, neighbour: int) -> None:
        """The edge broker failed."""
        if neighbour == self.parent:
            self.parent = None
            self.remember(is_level=False)
            self.lost(neighbour)
            self.seek()

    def request(self) -> dict[str, Any]:
        """A client names the topics that it works on; among them those that it subscribes to."""
        subscribed = sorted(topic for topic, is_subscribed in self.topics.items() if is_subscribed)
        return {
            "subscribedTopics": sorted(self.topics), "breakDegree": self.recall("break_degree", False),
            "isClient": True, "subscribed": subscribed,
        }  # fmt: skip

    def on_parent_buffer(self, item: Item) -> None:
        """Sends what the new broker lacks of what was delivered here."""
        if item.other != self.parent:
            return
        theirs = read_missing(item.details)
        own = Missing(failed=self.dead)
        for topic in theirs.passed:
            for message in self.delivered.values():
                if message.topic == topic:
                    event = Event("processed" if message.is_total else "passed", message, 0)
                    own.note(event)
                    if not theirs.has(event):
                        own.events.append(event)
            own.name(topic)
        self.send(self.parent or 0, "LostMessageRequest", details=own.text())

    def on_lost_messages(self, item: Item) -> None:
        """Delivers what it missed; then its own messages that nobody seems to have go out again."""
        if item.other != self.parent:
            return
        for event in read_missing(item.details).events:
            is_final = event.what == ("processed" if event.message.is_total else "passed")
            if is_final and self.topics[event.message.topic]:
                self.deliver(event.message, event.hops + 1)
        self.remember(is_level=True)
        for message in self.published:
            if message.id not in self.delivered:
                self.send(self.parent or 0, "Metadata", message, 1)

    def leave(self) -> None:
        """Leaves its state behind; without crashes it does not change."""
        if self.may_crash:
            self.leave_around("edge")
            self.keep("repair", None, kind="client", details=json.dumps(self.memory, sort_keys=True))
