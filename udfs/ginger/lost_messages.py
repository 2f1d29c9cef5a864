"""Bounded buffers, and what to do about a missing message that has left its partner's (sections 4.3.2 and 4.3.2.3).

The thesis leaves that open but for its idea: the client that published the message is told by an exception, and may
repeat it. A node that lacks such a message puts the partner's answer aside, and asks the publisher for the message with
an Exception that goes through the whole tree. The publisher answers with a Repeat, and when all is there the answer is
handled as if nothing had left the buffer. So later messages wait, eventual ones too: they would come on the other side
of a total-order message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from udfs.ginger.buffer import Buffer, Event, Id, Runs
from udfs.ginger.items import Item
from udfs.ginger.missing_sets import MissingSets, read_missing_sets
from udfs.ginger.parent_search import Seeker
from udfs.ginger.queue import Message

MAX_ASKED = 50
"""Times that a node asks the publishers of what it lacks before it goes on without."""


class Asker(Seeker):
    """A node with buffers; its ``memory`` holds beside that of `Seeker`: ``n_asked``, how often it asked."""

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state: as in `Node`, and ``discarded``, ``history``, ``parked`` and ``gap``."""
        self.parked: dict[int, Item] = {}
        self.gaps: dict[Id, Message] = {}
        self.given_up: dict[Id, Message] = {}
        super().__init__(node, round_, state)

    def buffer(self, topic: str | None) -> Buffer:
        """Returns the buffer of a topic."""
        raise NotImplementedError

    def buffers(self) -> list[Buffer]:
        """Returns all buffers, by topic."""
        raise NotImplementedError

    def handle_repair(self, item: Item) -> None:
        """Handles what brokers and clients get alike when the tree is mended."""
        match item.kind:
            case "NeighborDown" if not self.is_stale(item):
                self.on_neighbor_down(int(item.details or 0))
            case "ParentResponse":
                self.on_parent_response(item)
            case "ParentBuffer":
                self.on_parent_buffer(item)
            case "LostMessages":
                self.on_lost_messages(item)
            case "Repeat":
                self.on_repeat(item)
            case "TreeViewUpdate":
                self.on_tree_view_update(item)
            case "Timer":
                self.on_timer(*json.loads(item.details or "[]"))

    def on_parent_buffer(self, item: Item) -> None:
        """The new parent tells what it has."""
        raise NotImplementedError

    def on_lost_messages(self, item: Item) -> None:
        """The new parent tells what was missing."""
        raise NotImplementedError

    def resume(self, item: Item) -> None:
        """Handles what was put aside."""
        self.on_lost_messages(item)

    def own_copy(self, message: Message) -> Message:
        """Returns a message with its body, if it has it elsewhere than in the buffer."""
        return message

    def needs(self, partner: int, event: Event) -> bool:
        """Returns whether the body of a message is needed here."""
        raise NotImplementedError

    def _read_discarded(self, row: Item) -> None:
        self.buffer(row.topic).read(row.position, row.details)

    def _read_history(self, row: Item) -> None:
        buffer = self.buffer(row.topic)
        if row.position > buffer.mark and row.kind not in ("left", "collected"):
            buffer.add(row.position, Event(row.kind or "", row.message, row.hops or 0))

    def _read_parked(self, row: Item) -> None:
        self.parked[row.peer or 0] = row

    def _read_gap(self, row: Item) -> None:
        (self.given_up if row.kind == "given_up" else self.gaps)[row.message.id] = row.message

    def buffered(self, buffer: Buffer, event: Event) -> None:
        """Puts an event into a buffer; where nodes may crash, it stays there for later rounds."""
        position = self.next_position()
        buffer.add(position, event)
        if self.may_crash:
            self.keep("history", event.message, position, kind=event.what, hops=event.hops)
            buffer.shrink(self.settings["buffer_size"])

    def told(self, item: Item) -> MissingSets:
        """Reads what a partner tells; what everybody has had is forgotten here, too."""
        told = read_missing_sets(item.details)
        for topic, runs in told.collected.items():
            self.collect(topic, runs)
        return told

    def collect(self, topic: str, runs: Runs) -> None:
        """Forgets messages that everybody has had."""
        self.buffer(topic).collect(runs)

    def filled(self, item: Item) -> MissingSets | None:
        """Reads what a partner tells; if it lacks a body that is needed here, the item is parked until it is there."""
        told, partner = self.told(item), item.peer or 0
        told.events = [self.with_body(event) for event in told.events]
        lacking = [event for event in told.events if not event.message.has_body and self.needs(partner, event)]
        new = [event.message for event in lacking if not self.buffer(event.message.topic).has(event)]
        unknown = [message for message in new if message.id not in self.given_up]
        if not unknown:
            self._done(partner)
            return told
        is_new = partner not in self.parked
        self.parked[partner] = item
        self.gaps |= {message.id: message for message in unknown if message.id not in self.gaps}
        if is_new:
            self.remember(n_asked=0)
            self.ask_publishers()
        return None

    def with_body(self, event: Event) -> Event:
        """Returns an event with its body, if that is anywhere here."""
        if event.message.has_body:
            return event
        message = self.gaps.get(event.message.id, event.message)
        return event._replace(message=message if message.has_body else self.own_copy(event.message))

    def _done(self, partner: int) -> None:
        self.parked.pop(partner, None)
        if not self.parked:
            self.gaps.clear()

    def ask_publishers(self) -> None:
        """Raises an exception for every message that is not there, and looks again after a while."""
        number = self.recall("n_asked", 0) + 1
        self.remember(n_asked=number)
        for _, message in sorted(self.gaps.items()):
            if not message.has_body:
                self.pass_exception(message, None, str(self.node))
        self.timer("gap", self.node, number, self.patience(self.node))

    def pass_exception(self, message: Message, sender: int | None, details: str) -> None:
        """Lets the client that published a message know that somebody lacks it."""
        self.flood("Exception", message, sender, details)

    def flood(self, kind: str, message: Message | None, sender: int | None, details: str) -> None:
        """Sends on through the tree, away from where it came from."""
        for neighbour in sorted(self.neighbours - {sender}):
            self.send(neighbour, kind, message, details=details)

    def on_timer(self, what: str, partner: int, number: int) -> None:
        """Asks again; after many times the message is given up."""
        if what == "parent" and partner in self.parked:
            return
        if what != "gap":
            super().on_timer(what, partner, number)
        elif self.parked and number == self.recall("n_asked", 0):
            if number < MAX_ASKED:
                self.ask_publishers()
                return
            self.given_up |= {of: message for of, message in self.gaps.items() if not message.has_body}
            self.keep("status", None, kind="MESSAGE_LOST")
            self._resume_all()

    def on_repeat(self, item: Item) -> None:
        """A message that was lacking is there."""
        if item.message.id in self.gaps:
            self.gaps[item.message.id] = item.message
            if all(message.has_body for message in self.gaps.values()):
                self._resume_all()

    def _resume_all(self) -> None:
        for item in list(self.parked.values()):
            self.resume(item)

    def forget_partner(self, partner: int) -> None:
        """What a partner that failed has told is not handled any more."""
        if self.parked.pop(partner, None) is not None and not self.parked:
            self.gaps.clear()

    def leave_buffers(self) -> None:
        """Leaves behind what has left the buffers, and what is put aside."""
        for buffer in self.buffers():
            if buffer.left or buffer.collected:
                self.keep("discarded", None, buffer.mark, topic=buffer.topic, details=buffer.text())
            if buffer.has_changed:
                self.keep("history", None, buffer.mark, kind="left", topic=buffer.topic)
        self.rows += [item._replace(relation="parked") for _, item in sorted(self.parked.items())]
        for kind, gaps in (("open", self.gaps), ("given_up", self.given_up)):
            for _, message in sorted(gaps.items()):
                self.keep("gap", message, kind=kind)
