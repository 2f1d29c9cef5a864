"""A client: it publishes, delivers in order, and looks for another broker when its own fails (section 4.2.3.1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from udfs.ginger.buffer import Buffer, Event, Id, Runs, in_runs
from udfs.ginger.garbage_collection import GarbageCollector
from udfs.ginger.items import Item
from udfs.ginger.missing_sets import MissingSets
from udfs.ginger.queue import Message


class Client(GarbageCollector):
    """A client in a round; where nodes may crash it has buffers of what it delivered, and what it published."""

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state: as in `Asker`, and ``client_topic``, ``exception`` and ``hold``."""
        self.topics: dict[str, bool] = {}
        self.published: dict[Id, tuple[int, Message]] = {}
        self.delivered: dict[str, Buffer] = {}
        self.exceptions: list[Item] = []
        self.hold: list[Item] = []
        super().__init__(node, round_, state)

    def _read_client_topic(self, row: Item) -> None:
        self.topics[row.topic or ""] = row.kind == "subscribed"

    def _read_history(self, row: Item) -> None:
        if row.kind == "published":
            if not self.has_delivered_all(row.message):
                self.published[row.message.id] = row.position, row.message
        else:
            super()._read_history(row)

    def _read_exception(self, row: Item) -> None:
        self.exceptions.append(row)

    def _read_hold(self, row: Item) -> None:
        self.hold.append(row)

    def buffer(self, topic: str | None) -> Buffer:
        """Returns the deliveries of a topic."""
        return self.delivered.setdefault(topic or "", Buffer(topic or ""))

    def buffers(self) -> list[Buffer]:
        """Returns the deliveries of all topics."""
        return [buffer for _, buffer in sorted(self.delivered.items())]

    def needs(self, partner: int, event: Event) -> bool:
        """A client delivers what it subscribes to."""
        return self.topics.get(event.message.topic, False)

    def has_delivered_all(self, message: Message) -> bool:
        """Returns whether everybody has had a message."""
        return in_runs(self.buffer(message.topic).collected, message.id)

    def has_delivered(self, message: Message) -> bool:
        """Returns whether it has delivered a message."""
        return message.id in self.buffer(message.topic).seen

    def handle(self, item: Item) -> None:
        """Handles a call or a message."""
        self.hear(item)
        match item.kind:
            case "publish":
                self.publish(item.message)
            case "Metadata":
                self.on_metadata(item)
            case "Exception":
                self.on_exception(item)
            case _:
                self.handle_repair(item)

    def publish(self, message: Message) -> None:
        """Hands a message to the edge broker, if there is one that it is level with."""
        if self.may_crash:
            position = self.next_position()
            self.published[message.id] = position, message
            self.keep("history", message, position, kind="published")
        if self.is_level and self.parent is not None:
            self.send(self.parent, "Metadata", message, 1)

    def on_metadata(self, item: Item) -> None:
        """Delivers a message, unless it has to wait for some that have to be repeated."""
        if self.parked:
            self.hold.append(item._replace(relation="hold"))
        else:
            self.deliver(item.message, item.hops or 0)

    def deliver(self, message: Message, hops: int) -> None:
        """Delivers a message, once."""
        if not self.has_delivered(message):
            self.keep("delivered", message, hops=hops)
            self.buffered(self.buffer(message.topic), Event("processed" if message.is_total else "passed", message, 0))

    def on_exception(self, item: Item) -> None:
        """A message of this client has left the buffers, and somebody lacks it: it is published again (4.3.2.3)."""
        lacking = int(item.details or 0)
        if all((told.message.id, told.peer) != (item.message.id, lacking) for told in self.exceptions):
            position = self.next_position()
            self.exceptions.append(item._replace(relation="exception", position=position, peer=lacking, details=None))
        if self.parent is not None:
            self.send(self.parent, "Repeat", self.published[item.message.id][1], details=item.details)

    def on_neighbor_down(self, neighbour: int) -> None:
        """The edge broker failed."""
        if neighbour == self.parent:
            self.parent = None
            self.remember(is_level=False)
            self.forget_partner(neighbour)
            self.remember(told={})
            self.hold.clear()
            self.lost(neighbour)
            self.seek()

    def on_tree_view_update(self, item: Item) -> None:
        """Remembers whom it saw before: a new edge broker may be cut off before it sees anybody itself."""
        if item.peer == self.parent:
            seen = {str(broker): self.latency.get(broker, 1) for broker in self.view}
            self.remember(seen={**self.recall("seen", {}), **seen})
        super().on_tree_view_update(item)

    def candidates(self) -> list[int]:
        """Those of its view; when all of these have failed, those of earlier ones."""
        earlier = {int(broker): latency for broker, latency in self.recall("seen", {}).items()}
        if found := super().candidates():
            return found
        self.latency = earlier | self.latency
        return sorted(earlier.keys() - self.dead)

    def request(self) -> dict[str, Any]:
        """A client names the topics that it works on; among them those that it subscribes to."""
        subscribed = sorted(topic for topic, is_subscribed in self.topics.items() if is_subscribed)
        return {
            "subscribedTopics": sorted(self.topics), "breakDegree": self.recall("break_degree", False),
            "isClient": True, "subscribed": subscribed,
        }  # fmt: skip

    def on_parent_buffer(self, item: Item) -> None:
        """Sends what the new broker lacks of what was delivered here."""
        if item.peer != self.parent:
            return
        theirs = self.told(item)
        own = MissingSets(failed=self.dead)
        for topic in theirs.passed:
            for event in self.buffer(topic).events:
                own.note(event)
                if not theirs.has(event):
                    own.events.append(event)
            own.name(topic)
            if self.buffer(topic).collected:
                own.collected[topic] = self.buffer(topic).collected
        self.send(self.parent or 0, "LostMessageRequest", details=own.text())

    def on_lost_messages(self, item: Item) -> None:
        """Delivers what it missed; then its own messages that nobody seems to have go out again."""
        told = self.filled(item) if item.peer == self.parent else None
        if told is None:
            return
        for event in told.events:
            is_final = event.what == ("processed" if event.message.is_total else "passed")
            if is_final and event.message.has_body and self.topics[event.message.topic]:
                self.deliver(event.message, event.hops + 1)
        self.remember(is_level=True)
        while self.hold:
            self.on_metadata(self.hold.pop(0))
        for _, message in self.published.values():
            if not self.has_delivered(message):
                self.send(self.parent or 0, "Metadata", message, 1)

    def report(self, topic: str) -> None:
        """Sends what it has delivered."""
        if self.topics.get(topic, False):
            self.tell_parent(topic, set(self.buffer(topic).seen), [self.node])

    def collect(self, topic: str, runs: Runs) -> None:
        """Nobody needs its own messages any more either."""
        super().collect(topic, runs)
        own = {of: at for of, (at, message) in self.published.items() if message.topic == topic}
        gone = [of for of in own if in_runs(runs, of)]
        if gone:
            for of in gone:
                del self.published[of]
            first = min((at for of, at in own.items() if of not in gone), default=max(own.values()) + 1)
            self.keep("history", None, first - 1, kind="collected", topic=topic)

    def leave(self) -> None:
        """Leaves its state behind; without crashes it does not change."""
        if self.may_crash:
            self.report_all()
            self.leave_around("edge")
            self.leave_buffers()
            self.rows += [*self.exceptions, *(item._replace(position=self.next_position()) for item in self.hold)]
            self.keep("repair", None, kind="client", details=json.dumps(self.memory, sort_keys=True))
