"""Subscribe (sections 3.4 and 4.2.1): it floods the tree with its path, and the topics' sub-trees follow from it.

Brokers answer with Subscribed when all behind them have: the client's edge broker then knows that the sub-tree stands.
"""

from __future__ import annotations

from itertools import takewhile

from udfs.ginger import messages as ms
from udfs.ginger.node import Node
from udfs.ginger.records import Member, Subscribe
from udfs.ginger.topics import Topics


class Subscribing:
    """Subscriptions at one broker."""

    def __init__(self, node: Node, topics: Topics) -> None:
        """Takes part in subscriptions."""
        self._node = node
        self._topics = topics

    def on_subscribe(self, m: ms.Subscribe, sender: int) -> None:
        """Passes a Subscribe on to all other brokers, with the way so far and this broker at its head."""
        node = self._node
        edge = node.id if m.edge is None else m.edge
        others = sorted(node.neighbours - {sender})
        row = Subscribe(m.subscription_id, m.topic, m.source, m.source_seq, edge, sender, len(others))
        node.state.subscribe[m.subscription_id] = row
        self._join(m, sender)
        most = node.setting("max_hops")
        farther = [step._replace(hop_count=step.hop_count + 1) for step in m.path if step.hop_count + 1 < most]
        for other in others:
            here = ms.Step(node.id, 0, "down" if other in node.children else "up")
            onward = m.source, m.source_seq, m.topic, m.subscription_id, edge, (here, *farther), (*m.way, node.id)
            node.send(other, ms.Subscribe(*onward))
        self._answer(row)

    def on_subscribed(self, m: ms.Subscribed, sender: int) -> None:
        """A neighbour has heard from all brokers beyond it."""
        row = self._node.state.subscribe.get(m.subscription_id)
        if row is not None:
            row.n_waiting -= 1
            self._answer(row)

    def _answer(self, row: Subscribe) -> None:
        """Answers, when all others have, the one from which it had the message."""
        if row.n_waiting == 0:
            self._node.send(row.next_hop, ms.Subscribed(row.source, row.source_seq, row.subscription_id))

    def _join(self, m: ms.Subscribe, sender: int) -> None:
        """Learns who is in the sub-tree: the brokers between the edge brokers of subscribers, and their clients.

        A broker knows the way to each edge broker, and keeps the way to the nearest broker of the sub-tree. The new
        edge broker is connected to that where the two ways part.
        """
        node, topic = self._node, self._topics.of(m.topic)
        way = [node.id, *reversed(m.way)]
        known = node.state.member.get(m.topic) or Member(m.topic)
        approach = known.approach or way
        shared = sum(1 for _ in takewhile(lambda ends: ends[0] == ends[1], zip(approach, way, strict=False)))
        inside = {*approach[shared - 1 :], *way[shared:]}
        members = known.members | inside | {m.source}
        node.state.member[m.topic] = Member(m.topic, members, approach[:shared])
        if sender == m.source:
            topic.add(sender, "client")
        if node.id in members:
            before = approach[1:2] if node.id not in known.members else []
            for neighbour in {*before, *way[1:2]}:
                topic.add(neighbour, "broker")
