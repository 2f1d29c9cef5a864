"""Garbage collection of buffers, which the thesis names as future work (section 6.1).

A message that every member of its topic has received can be dropped, because no node will request it. Clients report
their deliveries to their edge brokers. A broker sends Received to its parent. Received lists the messages that the
broker and all nodes below it have received, and the ids of these nodes. When the reports cover all members, the topic's
root sends Collect down the sub-tree. Each receiver drops the messages that Collect lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Id, Runs, in_runs, runs_of
from udfs.ginger.node import Node
from udfs.ginger.ordering import Ordering
from udfs.ginger.records import Receipt, Reported
from udfs.ginger.topics import Topic, Topics


class Reports:
    """The reports on received messages that one broker or client sends to its parent."""

    def __init__(self, node: Node, topics: Topics) -> None:
        self._node = node
        self._topics = topics

    @property
    def topics(self) -> list[Topic]:
        """The topics to report at the end of a round; none without ``collect_every``, or without buffers."""
        if not self._node.repair.is_mended or not self._node.setting("collect_every"):
            return []
        return list(self._topics)

    def tell_parent(self, topic: str, ids: Collection[Id], covered: Iterable[int]) -> None:
        """Sends Received to the parent if `ids` has at least ``collect_every`` more messages than the last report.

        All nodes of `covered`, which are this node and the nodes below it, have received the messages `ids` of `topic`.
        """
        node, told = self._node, self._node.reported.get(topic)
        enough = (told.n_messages if told else 0) + node.setting("collect_every")
        if node.parent is not None and node.repair.is_level and len(ids) >= enough:
            node.reported[topic] = Reported(topic, len(ids))
            node.send(node.parent, ms.Received(topic, tuple(sorted(covered)), runs_of(ids)))

    def collect(self, name: str, runs: Runs) -> None:
        """Drops messages of topic `name` with ids in `runs`, also from the count of the last report."""
        seen = self._topics.of(name).seen
        before = len(seen)
        self._topics.of(name).collect(runs)
        told = self._node.reported.get(name)
        if told is not None:
            told.n_messages = max(0, told.n_messages - before + len(seen))
        for own in self._topics.published:
            if own.topic == name and in_runs(runs, own.id):
                del self._node.metadata_buffer[own.position]

    def on_collect(self, m: ms.Collect, sender: int) -> None:
        """Drops the messages that a Collect from the parent lists. A broker forwards Collect (`collect`)."""
        if sender == self._node.parent:
            self.collect(m.topic, m.runs)


class GarbageCollection(Reports):
    """The garbage collection of one broker's buffers."""

    def __init__(self, node: Node, topics: Topics, ordering: Ordering) -> None:
        super().__init__(node, topics)
        self._ordering = ordering

    def on_received(self, m: ms.Received, sender: int) -> None:
        """Stores the report of `sender`, a child or client, in place of the earlier report of `sender`."""
        self._node.receipt[m.topic, sender] = Receipt(m.topic, sender, m.covered, m.runs)

    def end_round(self) -> None:
        """Reports received messages to the parent. If this broker is a topic's root, collects its messages instead."""
        for topic in self.topics:
            self._report(topic)

    def _report(self, topic: Topic) -> None:
        node, name = self._node, topic.name
        below = sorted(topic.brokers & node.children | topic.clients)
        told = [self._node.receipt.get((name, other)) for other in below]
        if node.is_waiting or None in told:
            return
        ids, covered = set(topic.seen) - topic.pending.keys(), {node.id}
        for row in told:
            if row is not None:
                covered.update(row.covered)
                ids = {of for of in ids if in_runs(row.runs, of)}
        if not self._ordering.is_topic_root(topic):
            self.tell_parent(name, ids, covered)
        elif len(ids) >= node.setting("collect_every") and topic.members <= covered | self._node.failed.keys():
            self.collect(name, runs_of(ids))

    def collect(self, name: str, runs: Runs) -> None:
        """Drops the messages of topic `name` with ids in `runs`, and sends Collect to children and clients.

        Messages that are still pending are processed.
        """
        topic = self._topics.of(name)
        new = [of for of in topic.seen if in_runs(runs, of)]
        super().collect(name, runs)
        for pending in [pending for of, pending in topic.pending.items() if in_runs(runs, of)]:
            self._ordering.process(topic, None, pending.message, pending.hops)
        publishers = {of.source for of in new} & self._node.clients
        below = topic.brokers & self._node.children | topic.clients | publishers
        for other in sorted(below if new else ()):
            self._node.send(other, ms.Collect(name, runs_of(new)))

    def forget(self, partner: int) -> None:
        """Deletes the reports from the failed `partner`, and the counts of this broker's own last reports.

        If the partner was the parent, the next parent thus gets complete reports.
        """
        for key in [key for key in self._node.receipt if key[1] == partner]:
            del self._node.receipt[key]
        self._node.reported.clear()
