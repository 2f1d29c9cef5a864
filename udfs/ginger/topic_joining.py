"""A broker joins the sub-tree of a topic, in order to connect a node that is in it (section 4.2.3).

It asks all its neighbours; neighbours outside the sub-tree ask theirs. A broker in the sub-tree adds the neighbour that
asked and sends its state of the topic, so that the whole path to the first broker joins. If no broker is in the
sub-tree, the first broker becomes a sub-tree of its own. Disconnected parts find it when they reconnect, because
brokers store open requests and repeat them over every new connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from udfs.ginger import messages as ms
from udfs.ginger.buffer import MissingSets
from udfs.ginger.missing_messages import LostMessageSearch, MissingMessages
from udfs.ginger.node import Node
from udfs.ginger.ordering import HoldQueue, Ordering
from udfs.ginger.repair_records import Postponed, TopicJoin
from udfs.ginger.topics import Topic, Topics


class TopicJoining:
    """The sub-trees that one broker joins, or helps neighbours to join."""

    def __init__(
        self, node: Node, topics: Topics, ordering: Ordering, hold: HoldQueue, lost: LostMessageSearch,
        missing: MissingMessages, admit: Callable[[], None],
    ) -> None:  # fmt: skip
        """Joins sub-trees for a broker.

        Args:
            node: The node.
            topics: Its topics.
            ordering: Its messages on their way.
            hold: Its hold queue.
            lost: What it lacks.
            missing: What its neighbours lack.
            admit: Looks again at who waits to be taken in.
        """
        self._node = node
        self._state = node.state
        self._topics = topics
        self._ordering = ordering
        self._hold = hold
        self._lost = lost
        self._missing = missing
        self._admit = admit

    def is_inside(self, topic: Topic) -> bool:
        """Returns whether the broker is in the sub-tree of a topic: from the start, or since it joined it."""
        is_there = self._node.id in topic.members and not self._node.repair.is_new
        join = self._state.topic_join.get(topic.name)
        return bool(topic.brokers or topic.clients or is_there or (join and join.is_joined))

    def join(self, topics: Iterable[str]) -> None:
        """Joins the sub-trees of topics that it is not in."""
        for name in topics:
            self._look_for(name, None, is_own=True)

    def _sought(self, name: str) -> TopicJoin:
        return self._state.topic_join.setdefault(name, TopicJoin(name))

    def _look_for(self, name: str, asker: int | None, *, is_own: bool) -> None:
        join = self._sought(name)
        if not join.is_open:
            join.is_open, join.is_own, join.askers = True, False, []
            join.waiting = sorted(self._node.neighbours - {asker})
            for neighbour in join.waiting:
                self._node.send(neighbour, ms.JoinTopic(name))
        join.is_own = join.is_own or is_own
        if asker is not None and asker in join.waiting:
            # Both look for it: the one that wants it is behind the other.
            join.waiting.remove(asker)
            self._connect(self._topics.of(name), asker)
        elif asker is not None:
            join.askers.append(asker)
        self._see(join)

    def _see(self, join: TopicJoin) -> None:
        """Answers those that asked, when it is in the sub-tree or all neighbours have answered."""
        topic = self._topics.of(join.topic)
        if not self.is_inside(topic) and join.waiting:
            return
        askers, join.askers = join.askers, []
        join.is_open, join.is_joined, join.waiting = False, join.is_joined or join.is_own, []
        for asker in askers:
            self._let_in(asker, topic)
        self._admit()

    def on_join_topic(self, m: ms.JoinTopic, sender: int) -> None:
        """A neighbour looks for the sub-tree of a topic."""
        if sender not in self._node.neighbours:
            return
        if self._node.is_waiting:
            self._state.postponed.append(Postponed(sender, m.topic))
        elif self.is_inside(self._topics.of(m.topic)):
            self._sought(m.topic)
            self._let_in(sender, self._topics.of(m.topic))
        else:
            self._look_for(m.topic, sender, is_own=False)

    def _let_in(self, asker: int, topic: Topic) -> None:
        """Sends a neighbour all that it has had of a topic, or that it is not in its sub-tree."""
        if asker not in self._node.neighbours:
            return
        told = None
        if self.is_inside(topic):
            self._connect(topic, asker)
            told = self._missing.missing_of(MissingSets(passed={topic.name: set()}))
        self._node.send(asker, ms.TopicJoined(topic.name, told))
        self._ordering.try_all(topic)

    def on_topic_joined(self, m: ms.TopicJoined, sender: int) -> None:
        """A neighbour is in the sub-tree, or has not found it."""
        if sender not in self._node.neighbours:
            return
        join = self._state.topic_join.get(m.topic)
        if join is not None and sender in join.waiting:
            join.waiting.remove(sender)
        if m.told is not None and not self._link(m.topic, sender, m.told):
            return
        if join is not None and join.is_open:
            self._see(join)

    def _link(self, name: str, sender: int, told: MissingSets) -> bool:
        """Connects two parts of a sub-tree: each gets what it lacks; returns whether it could."""
        topic = self._topics.of(name)
        self._connect(topic, sender)
        theirs = self._lost.filled(sender, "TopicJoined", told, name)
        if theirs is None:
            return False
        self._missing.apply(sender, theirs)
        lacking = self._missing.missing_of(theirs)
        if lacking.events:
            self._node.send(sender, ms.TopicJoined(name, lacking))
        self._ordering.try_all(topic)
        return True

    def _connect(self, topic: Topic, neighbour: int) -> None:
        topic.add(neighbour, "broker")
        if neighbour == self._node.parent:
            topic.tell_again()

    def settle(self) -> None:
        """Releases held messages, and answers requests that came during the join."""
        self._hold.release()
        while self._state.postponed and not self._node.is_waiting:
            asked = self._state.postponed.pop(0)
            self.on_join_topic(ms.JoinTopic(asked.topic), asked.sender)

    def ask_again(self, neighbour: int) -> None:
        """Looks over a new connection for what was looked for before."""
        for name in list(self._state.topic_join):
            topic = self._topics.of(name)
            if neighbour in topic.brokers:
                continue
            if self.is_inside(topic):
                self._node.send(neighbour, ms.JoinTopic(name))
            else:
                self._look_for(name, None, is_own=False)

    def forget(self, partner: int) -> None:
        """A neighbour that failed answers nothing."""
        for join in list(self._state.topic_join.values()):
            if join.is_open:
                join.askers = [other for other in join.askers if other != partner]
                join.waiting = [other for other in join.waiting if other != partner]
                self._see(join)
