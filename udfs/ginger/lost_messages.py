"""Missing messages that have left the partner's buffer (section 4.3.2.3).

The thesis leaves that open but for its idea: the client that published the message is told by an exception, and may
repeat it. A node that lacks such a message puts the partner's answer aside, and asks the publisher for the message with
an Exception that goes through the whole tree. The publisher answers with a Repeat, and when all is there the answer is
handled as if nothing had left the buffer. So later messages wait, eventual ones too: they would come on the other side
of a total-order message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event
from udfs.ginger.missing_sets import MissingSets
from udfs.ginger.queue import Message
from udfs.ginger.repair_records import Gap, Parked
from udfs.ginger.role import Role

MAX_ASKED = 50
"""Times that a node asks the publishers of what it lacks before it goes on without."""
TIMER = "gap"
"""Runs out when publishers are to be asked again."""
OPEN, GIVEN_UP = "open", "given_up"


class LostMessages:
    """What one node lacks, and who has told it so."""

    def __init__(self, role: Role) -> None:
        """Looks after what a node lacks."""
        self._role = role
        self._node = role.node
        self._state = role.node.state

    def told(self, told: MissingSets) -> MissingSets:
        """Returns the partner's answer; messages that everybody has had are forgotten here, too."""
        for topic, runs in sorted(told.collected.items()):
            self._role.collect(topic, runs)
        return told

    def filled(self, partner: int, kind: str, raw: MissingSets, topic: str | None = None) -> MissingSets | None:
        """Returns the partner's answer with all bodies; if a needed one is missing, the answer is parked.

        Args:
            partner: Who tells it.
            kind: The kind of its message.
            raw: What it tells.
            topic: The topic that the message is about, if it is one only.
        """
        told = self.told(raw)
        told = replace(told, events=[self.with_body(event) for event in told.events])
        lacking = [event for event in told.events if not event.message.has_body and self._role.needs(partner, event)]
        new = [event.message for event in lacking if not self._role.buffer(event.message.topic).has(event)]
        unknown = [message for message in new if not self._is_given_up(message)]
        if not unknown:
            self._done(partner)
            return told
        is_new = partner not in self._state.parked
        self._state.parked[partner] = Parked(partner, kind, topic, raw)
        for message in unknown:
            self._state.gap.setdefault(message.id, Gap(*message, OPEN))
        if is_new:
            self._node.repair.n_asked = 0
            self._ask_publishers()
        return None

    def _is_given_up(self, message: Message) -> bool:
        gap = self._state.gap.get(message.id)
        return gap is not None and gap.status == GIVEN_UP

    def with_body(self, event: Event) -> Event:
        """Returns an event with its body, if that is anywhere here."""
        if event.message.has_body:
            return event
        gap = self._state.gap.get(event.message.id)
        if gap is not None and gap.message.has_body:
            return event._replace(message=gap.message)
        return event._replace(message=self._role.own_copy(event.message))

    def _done(self, partner: int) -> None:
        self._state.parked.pop(partner, None)
        if not self._state.parked:
            for gap in [*self._open()]:
                del self._state.gap[gap.id]

    def _open(self) -> Iterator[Gap]:
        return (gap for gap in self._state.gap.values() if gap.status == OPEN)

    def _ask_publishers(self) -> None:
        """Raises an exception for every message that is not there, and looks again after a while."""
        node = self._node
        node.repair.n_asked += 1
        for gap in [*self._open()]:
            if not gap.message.has_body:
                self._role.ask_publisher(gap.message, node.id, None)
        node.ctx.set_timer(TIMER, rounds=node.patience(node.id))

    def on_timer(self) -> None:
        """Asks again; after many times the messages are given up."""
        if not self._state.parked:
            return
        if self._node.repair.n_asked < MAX_ASKED:
            self._ask_publishers()
            return
        for gap in [*self._open()]:
            if not gap.message.has_body:
                gap.status = GIVEN_UP
        self._node.ctx.status("MESSAGE_LOST")
        self._resume_all()

    def on_repeat(self, m: ms.Repeat) -> None:
        """A message that was lacking is there."""
        gap = self._state.gap.get(m.message.id)
        if gap is not None and gap.status == OPEN:
            self._state.gap[gap.id] = Gap(*m.message, OPEN)
            if all(one.message.has_body for one in self._open()):
                self._resume_all()

    def _resume_all(self) -> None:
        for parked in list(self._state.parked.values()):
            self._role.resume(parked)

    def forget(self, partner: int) -> None:
        """What a partner that failed has told is not handled any more."""
        if partner in self._state.parked:
            self._done(partner)
