"""Publications of a topic at a node: comparing tries, and flooding (sections 4.2 and 4.3)."""

from __future__ import annotations

from udfs.nodes.context import Context
from udfs.skipring.messages import CheckAndPublish, CheckTrie, Publish, PublishNew, send
from udfs.skipring.state import Subscription
from udfs.skipring.trie import NodeHash, Publication, Trie, has_right_key


class Publisher:
    """A node with its trie of a topic while it handles an event."""

    def __init__(self, own: Subscription, trie: Trie, ctx: Context) -> None:
        """Looks at a node.

        Args:
            own: What it keeps of the ring.
            trie: Its trie; it changes.
            ctx: The node in this round.
        """
        self._own = own
        self._trie = trie
        self._ctx = ctx

    def publish(self, publication: Publication) -> None:
        """Publishes: inserts, delivers and floods a publication of the node's own."""
        if self._take(publication, "publish"):
            self._flood(publication, None)

    def publish_new(self, m: PublishNew, src: int) -> None:
        """Handles PublishNew: the first copy is passed on to all others (rule K12)."""
        publication = Publication(m.key, m.source, m.source_seq, m.issued_round, m.hops)
        if self._take(publication, "flooding"):
            self._flood(publication, src)
        else:
            self._ctx.drop()

    def take(self, m: Publish) -> None:
        """Handles Publish: inserts and delivers what is new."""
        for one in m.publications:
            self._take(Publication(one.key, one.source, one.source_seq, one.issued_round, one.hops + 1), "trie")

    def ask(self) -> None:
        """Sends the root of the trie to a ring neighbour, chosen at random (Timeout)."""
        nodes = self._own.ring_nodes()
        if nodes:
            dst = nodes[int(self._ctx.draw(f"neighbour of {self._own.topic}") * len(nodes))]
            send(self._ctx, dst, CheckTrie(self._own.topic, (self._trie.root,)))

    def check_trie(self, m: CheckTrie, src: int) -> None:
        """Handles CheckTrie: each node that it names for itself."""
        for node in m.nodes:
            self._check(node, src)

    def check_and_publish(self, m: CheckAndPublish, src: int) -> None:
        """Handles CheckAndPublish: compares the node, and sends what the other one lacks."""
        if m.trie_node is not None:
            self._check(m.trie_node, src)
        missing = tuple(self._trie.publications(m.prefix))
        if missing:
            send(self._ctx, src, Publish(self._own.topic, missing))

    def _check(self, node: NodeHash, src: int) -> None:
        """Compares a node of another one's trie with the own, and asks for what differs (the cases of 4.2)."""
        topic, trie = self._own.topic, self._trie
        if node == trie.root:
            return
        own = trie.find(node.label)
        if own is not None:
            if own.hash != node.hash and own.zero is not None and own.one is not None:
                send(self._ctx, src, CheckTrie(topic, (trie.hash_at(own.zero), trie.hash_at(own.one))))
            return
        below = trie.below(node.label)
        if below is None:
            send(self._ctx, src, CheckAndPublish(topic, None, node.label))
        else:
            branch = below.label[len(node.label)]
            prefix = node.label + ("0" if branch == "1" else "1")
            send(self._ctx, src, CheckAndPublish(topic, trie.hash_at(below.label), prefix))

    def _take(self, publication: Publication, via: str) -> bool:
        """Inserts a publication with the right key, and delivers it if it is new; returns whether it is."""
        if not has_right_key(self._own.topic, publication, int(self._ctx.settings["key_bits"])):
            return False
        is_new = self._trie.insert(publication, via)
        if is_new and self._own.wants:
            self._ctx.deliver(publication.source, publication.source_seq, publication.issued_round, publication.hops)
        return is_new

    def _flood(self, one: Publication, sender: int | None) -> None:
        for node in self._own.neighbours():
            if node != sender:
                topic = self._own.topic
                new = PublishNew(topic, one.key, one.source, one.source_seq, one.issued_round, one.hops + 1)
                send(self._ctx, node, new)
