"""The search of a broker for the sub-tree of a topic (section 4.2.3).

A broker must be in the sub-tree before it can accept a child that is in the sub-tree. The searching broker sends
JoinTopic to all its neighbours, and neighbours outside the sub-tree forward JoinTopic. A broker in the sub-tree adds
the neighbour that sent JoinTopic to the sub-tree, and answers TopicJoined with its state of the topic. So all brokers
on the path to the searching broker join the sub-tree. If no broker is in the sub-tree, the searching broker starts a
new sub-tree. Brokers store their searches, and repeat them over every new connection. So if a repair reconnects two
parts of the tree, their sub-trees of a topic are connected, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from udfs.ginger import messages as ms
from udfs.ginger.buffer import MissingSets
from udfs.ginger.missing_messages import MissingMessages
from udfs.ginger.node import Node
from udfs.ginger.ordering import Ordering
from udfs.ginger.repair_records import Postponed, TopicJoin
from udfs.ginger.topics import Topic, Topics


class TopicJoining:
    """The searches for sub-trees at one broker. The broker searches for itself or on behalf of a neighbour."""

    def __init__(
        self, node: Node, topics: Topics, ordering: Ordering, missing: MissingMessages, admit: Callable[[], None]
    ) -> None:  # fmt: skip
        """Stores the parts of the broker that the searches use.

        Each search calls `admit` when it ends, because the broker may then accept waiting children.
        """
        self._node = node
        self._topics = topics
        self._ordering = ordering
        self._missing = missing
        self._admit = admit

    def is_inside(self, topic: Topic) -> bool:
        """Returns whether the broker is in the sub-tree of `topic`."""
        join = self._node.topic_join.get(topic.name)
        is_first = self._ordering.is_first_member(topic)
        return bool(topic.brokers or topic.clients or is_first or (join and join.is_joined))

    def join(self, topics: Iterable[str]) -> None:
        """Starts a search for the sub-tree of each topic. This broker joins the sub-tree when the search ends."""
        for name in topics:
            self._search(name, None, is_own=True)

    def _search(self, name: str, asker: int | None, *, is_own: bool) -> None:
        topic = self._topics.of(name)
        join = topic.search()
        if not join.is_open:
            join.is_open, join.is_own, join.askers = True, False, []
            join.waiting = sorted(self._node.neighbours - {asker})
            for neighbour in join.waiting:
                self._node.send(neighbour, ms.JoinTopic(name))
        join.is_own = join.is_own or is_own
        if asker is not None and asker in join.waiting:
            # The neighbour searches, too, so this broker is on the path between the neighbour and the sub-tree.
            join.waiting.remove(asker)
            self._take_in(topic, asker)
        elif asker is not None:
            # This broker has sent no JoinTopic to earlier askers, which may be in the sub-tree now (rule G36).
            for earlier in sorted({*join.askers} - {asker, *join.waiting}):
                join.waiting.append(earlier)
                self._node.send(earlier, ms.JoinTopic(name))
            join.askers.append(asker)
        self._conclude(join)

    def _conclude(self, join: TopicJoin) -> None:
        """Ends search `join` if this broker is in the sub-tree, or if all neighbours have answered.

        Then answers the neighbours that have sent JoinTopic for the topic.
        """
        topic = self._topics.of(join.topic)
        if not self.is_inside(topic) and join.waiting:
            return
        askers, join.askers = join.askers, []
        join.is_open, join.is_joined, join.waiting = False, join.is_joined or join.is_own, []
        for asker in askers:
            self._reply(asker, topic)
        self._admit()
        late, join.late = join.late, []
        for neighbour in late:
            if neighbour in self._node.neighbours:
                self._repeat(join, neighbour)

    def on_join_topic(self, m: ms.JoinTopic, sender: int) -> None:
        """Answers JoinTopic if the broker is in the sub-tree, else forwards it.

        A broker under repair postpones JoinTopic, unless it awaits only messages of publishers (rule G30).
        """
        if sender not in self._node.neighbours:
            return
        if self._is_postponing():
            self._node.postponed.append(Postponed(sender, m.topic))
        elif self.is_inside(self._topics.of(m.topic)):
            self._topics.of(m.topic).search()
            self._reply(sender, self._topics.of(m.topic))
        else:
            self._search(m.topic, sender, is_own=False)

    def _reply(self, asker: int, topic: Topic) -> None:
        """Sends TopicJoined to `asker`. A broker in the sub-tree adds `asker` to the sub-tree."""
        if asker not in self._node.neighbours:
            return
        if self.is_inside(topic):
            self._take_in(topic, asker)
        else:
            self._node.send(asker, ms.TopicJoined(topic.name, None))
            self._ordering.try_all(topic)

    def _take_in(self, topic: Topic, neighbour: int) -> None:
        """Adds `neighbour` to the sub-tree of `topic`, and sends it this broker's state of the topic."""
        self._connect(topic, neighbour)
        told = self._missing.missing_of(MissingSets(passed={topic.name: set()}))
        self._node.send(neighbour, ms.TopicJoined(topic.name, told))
        self._ordering.tell_current(topic, {neighbour})
        self._ordering.try_all(topic)

    def on_topic_joined(self, m: ms.TopicJoined, sender: int) -> None:
        """Handles the answer of `sender`, which contains its state of the topic if it is in the sub-tree.

        In this case, connects to `sender`. Ends the search if all answers have arrived.
        """
        if sender not in self._node.neighbours:
            return
        join = self._node.topic_join.get(m.topic)
        if join is not None and sender in join.waiting:
            join.waiting.remove(sender)
        if m.told is not None and not self._link(m, sender):
            return
        if join is not None and join.is_open:
            self._conclude(join)
        self.settle()

    def _link(self, m: ms.TopicJoined, sender: int) -> bool:
        """Adds `sender` to the sub-tree of the topic of `m`, and exchanges missing messages with `sender`.

        Returns False if `m` lacks the body of a message that the broker needs. The broker then stores `m` in table
        ``parked``.
        """
        topic = self._topics.of(m.topic)
        self._connect(topic, sender)
        theirs = self._missing.take(sender, m)
        if theirs is None:
            return False
        lacking = self._missing.missing_of(theirs)
        if lacking.events:
            self._node.send(sender, ms.TopicJoined(m.topic, lacking))
        self._ordering.tell_current(topic, {sender})
        self._ordering.try_all(topic)
        return True

    def _connect(self, topic: Topic, neighbour: int) -> None:
        topic.add(neighbour, "broker")
        if neighbour == self._node.parent:
            topic.mark_unsent()

    def settle(self) -> None:
        """Handles the held messages, and then the JoinTopic messages that the broker postponed during its repair."""
        self._ordering.release()
        while self._node.postponed and not self._is_postponing():
            asked = self._node.postponed.pop(0)
            self.on_join_topic(ms.JoinTopic(asked.topic), asked.sender)

    def _is_postponing(self) -> bool:
        """Returns whether this broker is under repair, and awaits more than messages that publishers send again.

        A publisher without an edge broker may depend on the answer to JoinTopic (rule G30).
        """
        node, parked = self._node, self._node.parked
        is_told = node.repair.is_level or node.parent in parked
        is_repeated = is_told and bool(parked) and self._node.awaited.keys() <= parked.keys()
        return node.is_waiting and not is_repeated

    def ask_again(self, neighbour: int) -> None:
        """Repeats the broker's searches over the new connection to `neighbour`."""
        for join in list(self._node.topic_join.values()):
            self._repeat(join, neighbour)

    def _repeat(self, join: TopicJoin, neighbour: int) -> None:
        """Repeats search `join` over the new connection to `neighbour`.

        If the search is open, the repetition waits until the search ends (rule G36).
        """
        topic = self._topics.of(join.topic)
        if neighbour in topic.brokers or neighbour in join.waiting:
            return
        if join.is_open:
            join.late.append(neighbour)
        elif self.is_inside(topic):
            self._node.send(neighbour, ms.JoinTopic(join.topic))
        else:
            self._search(join.topic, None, is_own=False)

    def forget(self, partner: int) -> None:
        """Removes the failed `partner` from all searches, and ends the searches that await no other answer."""
        for join in list(self._node.topic_join.values()):
            if join.is_open:
                join.askers = [other for other in join.askers if other != partner]
                join.waiting = [other for other in join.waiting if other != partner]
                self._conclude(join)
