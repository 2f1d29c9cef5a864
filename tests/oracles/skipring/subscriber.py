"""A subscriber: its subscriptions, its rings, its publications (sections 3.2, 4.1 to 4.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oracles.skipring.labels import is_label
from oracles.skipring.moment import Moment, Publication
from oracles.skipring.ring import Ring
from oracles.skipring.trie import NodeHash, Trie, publication_key


class Subscriber:
    """A subscriber v."""

    def __init__(self, v: int, supervisor_of: Callable[[str], int], hash_bits: int) -> None:
        self.v = v
        self.interests: dict[int, str] = {}
        self.rings: dict[str, Ring] = {}
        self.tries: dict[str, Trie] = {}
        self._supervisor_of = supervisor_of
        self._hash_bits = hash_bits

    def wants(self, topic: str) -> bool:
        """Returns whether the node has a subscription to a topic (K17)."""
        return topic in self.interests.values()

    def ring(self, topic: str) -> Ring:
        ring = self.rings.setdefault(topic, Ring(topic, self.v, self._supervisor_of(topic)))
        ring.drop_invalid()
        return ring

    def trie(self, topic: str) -> Trie:
        return self.tries.setdefault(topic, Trie(self._hash_bits))

    # ---- the application

    def call(self, now: Moment, kind: str, number: int, topic: str, subscription: int | None) -> None:
        """Handles a call; a change of the node's subscriptions takes effect at its next Timeout."""
        if kind == "publish":
            key = publication_key(topic, self.v, number, now.settings["key_bits"])
            self._new(now, topic, Publication(key, self.v, number, now.round, 0), None)
            return
        assert subscription is not None
        if kind == "subscribe":
            self.ring(topic)
            self.interests[subscription] = topic
        elif self.interests.pop(subscription, None) is not None and not self.wants(topic):
            self.ring(topic)

    # ---- messages

    def receive(self, now: Moment, kind: str, src: int, topic: str, *rest: Any) -> None:
        """Handles a message."""
        ring, wants = self.ring(topic), self.wants(topic)
        if not _has_valid_labels(kind, rest):
            return
        if kind == "Remove":
            ring.remove(rest[0])
        elif kind == "SetData":
            self._set_data(now, ring, *rest)
        elif not wants:
            removed = {"Introduce": (rest[0],), "IntroduceShortcut": (rest[0], src)}.get(kind, ())
            for dst in removed:
                now.send(dst, "Remove", topic, self.v)
        elif ring.label is not None:
            self._labelled(now, ring, kind, src, rest)

    def _set_data(self, now: Moment, ring: Ring, p: Any, label: str | None, q: Any, reason: str) -> None:
        if label is None:
            ring.clear()
        elif self.wants(ring.topic):
            ring.set_data(now, p, label, q)
        else:
            now.send(ring.supervisor, "Unsubscribe", ring.topic)

    def _labelled(self, now: Moment, ring: Ring, kind: str, src: int, rest: tuple[Any, ...]) -> None:
        """Handles the messages that a node handles only if it wants the topic and has a label (K4, K5)."""
        topic = ring.topic
        if kind == "Introduce":
            ring.introduce(now, *rest)
        elif kind == "IntroduceShortcut":
            ring.introduce_shortcut(now, *rest)
        elif kind == "PublishNew":
            self._new(now, topic, Publication(*rest), src)
        elif kind == "Publish":
            for one in (Publication(*one) for one in rest[0]):
                self._take(now, topic, one._replace(hops=one.hops + 1))
        elif kind == "CheckTrie":
            for c in rest[0]:
                self._check(now, topic, src, c)
        else:
            c, prefix = rest
            if c is not None:
                self._check(now, topic, src, c)
            if missing := self.trie(topic).starting(prefix):
                now.send(src, "Publish", topic, tuple(missing))

    # ---- publications

    def _take(self, now: Moment, topic: str, one: Publication) -> bool:
        if one.key != publication_key(topic, one.source, one.number, now.settings["key_bits"]):
            return False
        is_new = self.trie(topic).insert(one)
        if is_new and self.wants(topic):
            now.deliver(one)
        return is_new

    def _new(self, now: Moment, topic: str, one: Publication, sender: int | None) -> None:
        """Inserts and delivers a new publication, and floods it to all neighbours except its sender (K12)."""
        if self._take(now, topic, one):
            for node in self.ring(topic).neighbours():
                if node != sender:
                    now.send(node, "PublishNew", topic, *one._replace(hops=one.hops + 1))

    def _check(self, now: Moment, topic: str, u: int, c: NodeHash) -> None:
        """CheckTrie(u, c): handles the cases of section 4.2."""
        trie, (label, hashed) = self.trie(topic), c
        if c == trie.root:
            return
        if label in trie.nodes:
            own = trie.nodes[label]
            if own.hash != hashed and own.children:
                now.send(u, "CheckTrie", topic, tuple(trie.named(child) for child in own.children))
            return
        below = trie.below(label)
        if below is None:
            now.send(u, "CheckAndPublish", topic, None, label)
        else:
            other = "1" if below[len(label)] == "0" else "0"
            now.send(u, "CheckAndPublish", topic, trie.named(below), label + other)

    # ---- Timeout

    def timeout(self, now: Moment) -> None:
        """Handles a Timeout for all topics."""
        for topic in sorted(self.rings):
            ring, wants = self.ring(topic), self.wants(topic)
            if ring.label is None and wants:
                now.send(ring.supervisor, "Subscribe", topic)
            elif ring.label is None:
                ring.clear()
            elif not wants:
                now.send(ring.supervisor, "Unsubscribe", topic)
            else:
                ring.timeout(now)
                if nodes := ring.ring_nodes():
                    dst = nodes[int(now.draw(f"neighbour of {topic}") * len(nodes))]
                    now.send(dst, "CheckTrie", topic, (self.trie(topic).root,))


def _has_valid_labels(kind: str, rest: tuple[Any, ...]) -> bool:
    """Returns whether all labels of a message are valid (K21)."""
    labels: tuple[Any, ...] = ()
    if kind == "SetData":
        labels = (rest[1], *(one and one[1] for one in (rest[0], rest[2])))
    elif kind == "Introduce":
        labels = rest[1:3]
    elif kind == "IntroduceShortcut":
        labels = rest[1:2]
    return all(map(is_label, labels))
