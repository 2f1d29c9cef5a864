"""A broker that joins the sub-tree of a topic, in order to take somebody in who is in it (section 4.2.3).

It asks all its neighbours, and those that are not in the sub-tree either ask theirs. Who is in it takes the neighbour
that asked into it and tells what it has had of the topic, so that the way to the first one joins. If nobody is found,
the first one is a sub-tree by itself; parts that were cut off find it when they come back, for brokers remember what
was looked for and ask again over every new connection.
"""

from __future__ import annotations

from typing import Any

from udfs.ginger.broker import Topic
from udfs.ginger.hold_queue import HoldQueueBroker
from udfs.ginger.items import Item
from udfs.ginger.missing_sets import MissingSets


class TopicJoiner(HoldQueueBroker):
    """A broker with sub-trees that it joins.

    Its ``memory`` holds beside that of `HoldQueueBroker`: ``joins`` (by topic the neighbours that asked it, those whose
    answers it waits for, and whether it wants to join itself), ``joined`` and ``sought`` (topics that it wanted to
    join, and those that it was asked for), ``entrants`` (who waits to be taken in) and ``later`` (questions that came
    while it was reconfigured).
    """

    def is_inside(self, topic: Topic) -> bool:
        """Also a broker that joins for its own sake is in the sub-tree, whoever else is."""
        return super().is_inside(topic) or topic.buffer.topic in self.recall("joined", [])

    def join_topics(self, topics: list[str]) -> None:
        """Joins the sub-trees of topics that it is not in."""
        for name in topics:
            self._look_for(name, None, is_own=True)

    def _look_for(self, name: str, asker: int | None, *, is_own: bool) -> None:
        joins: dict[str, Any] = self.recall("joins", {})
        self.remember(sought=sorted({*self.recall("sought", []), name}))
        if name not in joins:
            waiting = sorted(self.neighbours - {asker})
            joins[name] = {"askers": [], "waiting": waiting, "is_own": False}
            self.remember(joins=joins)
            for neighbour in waiting:
                self.tell(neighbour, "JoinTopic", name)
        join = joins[name]
        join["is_own"] = join["is_own"] or is_own
        if asker is not None and asker in join["waiting"]:
            # Both look for it: whoever wants it is behind the other.
            join["waiting"].remove(asker)
            self._connect(self.topic(name), asker)
        elif asker is not None:
            join["askers"].append(asker)
        self._see(name)

    def _see(self, name: str) -> None:
        """Answers those that asked, when it is in the sub-tree or all neighbours have answered."""
        joins = self.recall("joins", {})
        join, topic = joins[name], self.topic(name)
        if not self.is_inside(topic) and join["waiting"]:
            return
        del joins[name]
        if join["is_own"]:
            self.remember(joined=sorted({*self.recall("joined", []), name}))
        for asker in join["askers"]:
            self._let_in(asker, topic)
        self.admit()

    def on_join_topic(self, sender: int, name: str) -> None:
        """A neighbour looks for the sub-tree of a topic."""
        if sender not in self.neighbours:
            return
        if self.is_waiting:
            self.remember(later=[*self.recall("later", []), [sender, name]])
        elif self.is_inside(self.topic(name)):
            self.remember(sought=sorted({*self.recall("sought", []), name}))
            self._let_in(sender, self.topic(name))
        else:
            self._look_for(name, sender, is_own=False)

    def _let_in(self, asker: int, topic: Topic) -> None:
        """Sends a neighbour all that it has had of a topic, or that it is not in its sub-tree."""
        if asker not in self.neighbours:
            return
        name, details = topic.buffer.topic, None
        if self.is_inside(topic):
            self._connect(topic, asker)
            details = self.missing_of(MissingSets(passed={name: set()})).text()
        self.tell(asker, "TopicJoined", name, details)
        self.try_all(topic)

    def on_topic_joined(self, item: Item) -> None:
        """A neighbour is in the sub-tree, or has not found it."""
        name, sender, joins = item.topic or "", item.peer or 0, self.recall("joins", {})
        if sender not in self.neighbours:
            return
        if name in joins and sender in joins[name]["waiting"]:
            joins[name]["waiting"].remove(sender)
        if item.details is not None and not self.link(item):
            return
        if name in joins:
            self._see(name)

    def link(self, item: Item) -> bool:
        """Connects two parts of a sub-tree: each gets what it lacks; returns whether it could."""
        name, sender = item.topic or "", item.peer or 0
        topic = self.topic(name)
        self._connect(topic, sender)
        theirs = self.filled(item)
        if theirs is None:
            return False
        self.apply(sender, theirs)
        lacking = self.missing_of(theirs)
        if lacking.events:
            self.tell(sender, "TopicJoined", name, lacking.text())
        self.try_all(topic)
        return True

    def _connect(self, topic: Topic, neighbour: int) -> None:
        topic.brokers.add(neighbour)
        if neighbour == self.parent:
            for pending in topic.pending.values():
                pending.sent = None

    def resume(self, item: Item) -> None:
        """The messages that were lacking are there."""
        if item.kind == "TopicJoined":
            self.on_topic_joined(item)
        else:
            super().resume(item)

    def admit(self) -> None:
        """Looks again at who waits to be taken in."""
        raise NotImplementedError

    def settle(self) -> None:
        """Answers what was asked meanwhile."""
        super().settle()
        while self.recall("later", []) and not self.is_waiting:
            (sender, name), *later = self.recall("later", [])
            self.remember(later=later)
            self.on_join_topic(sender, name)

    def ask_again(self, neighbour: int) -> None:
        """Looks over a new connection for what was looked for before."""
        for name in self.recall("sought", []):
            topic = self.topic(name)
            if neighbour in topic.brokers:
                continue
            if self.is_inside(topic):
                self.tell(neighbour, "JoinTopic", name)
            else:
                self._look_for(name, None, is_own=False)

    def forget_partner(self, partner: int) -> None:
        """A neighbour that failed answers nothing."""
        super().forget_partner(partner)
        for name, join in sorted(self.recall("joins", {}).items()):
            for others in (join["askers"], join["waiting"]):
                others[:] = [other for other in others if other != partner]
            self._see(name)
