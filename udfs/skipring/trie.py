"""Patricia tries of publications with hashes (section 4.2, rule K11).

The label of a leaf is the key of its publication. The label of an inner node is the longest common prefix of the labels
of its two children. The hash of a leaf covers its label. The hash of an inner node covers the hashes of its children,
first the child that continues with 0. All keys of a trie have the same length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Annotated

from udfs.nodes.records import record

ROOT = ""
"""The label that stands for an empty trie in a request."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication in a leaf of a trie or in a message."""

    key: Annotated[str, "key of the publication, as binary digits"]
    source: Annotated[int, "id of the publisher"]
    source_seq: Annotated[int, "number among the publisher's calls; at most 0: published before the start of the run"]
    issued_round: Annotated[int, "round of the publish call"]
    hops: Annotated[int, "number of links from the publisher to this node"] = 0


@dataclass(frozen=True, slots=True)
class NodeHash:
    """The label and hash of a trie node in a request."""

    label: Annotated[str, "label of the trie node"]
    hash: Annotated[str | None, "hash of the trie node; null: the trie is empty"]


@record(key="topic, label")
class TrieNode:
    """A node of a subscriber's Patricia trie."""

    topic: Annotated[str, "topic of the trie"]
    label: Annotated[
        str, "leaf: the key of its publication; inner node: the longest common prefix of the keys below it"
    ]
    hash: Annotated[str, "hash of the subtree, as hexadecimal digits"]
    zero: Annotated[str | None, "label of the child whose label continues with 0; null: the row is a leaf"] = None
    one: Annotated[str | None, "label of the child whose label continues with 1; null: the row is a leaf"] = None
    publication: Annotated[Publication | None, "publication of the leaf; null: the row is an inner node"] = None
    via: Annotated[
        str | None,
        "way of the publication into the trie: publish, flooding, trie or start, see view trie_way; null: "
        "the row is an inner node",
    ] = None


@record(key="topic")
class Root:
    """The root of a subscriber's trie. An empty trie has no row."""

    topic: Annotated[str, "topic of the trie"]
    label: Annotated[str, "label of the root"]


@lru_cache(1 << 16)
def publication_key(topic: str, source: int, source_seq: int, key_bits: int) -> str:
    """Returns the key of a publication: the first `key_bits` bits of SHA-256 of its publisher, number and topic."""
    digest = int.from_bytes(hashlib.sha256(f"{source},{source_seq},{topic}".encode()).digest(), "big")
    return f"{digest >> (256 - key_bits):0{key_bits}b}"


def has_right_key(topic: str, publication: Publication, key_bits: int) -> bool:
    """Returns whether the key of `publication` is the hash of its publisher, number and topic (rule K22)."""
    return publication.key == publication_key(topic, publication.source, publication.source_seq, key_bits)


class Trie:
    """The Patricia trie of one topic's publications at a node. Its data is in the state tables of the node."""

    def __init__(
        self, topic: str, nodes: dict[tuple[str, str], TrieNode], roots: dict[str, Root], hash_bits: int
    ) -> None:
        """Stores the tables of the node, which `insert` changes: `nodes` by topic and label, and `roots` by topic.

        A hash has `hash_bits` bits, a multiple of 4.
        """
        self._topic = topic
        self._nodes = nodes
        self._roots = roots
        self._digits = hash_bits // 4

    @property
    def root(self) -> NodeHash:
        """The label and hash of the root. An empty trie has label `ROOT` and no hash."""
        root = self._roots.get(self._topic)
        return NodeHash(ROOT, None) if root is None else self.hash_at(root.label)

    def find(self, label: str) -> TrieNode | None:
        """Returns the trie node with `label`, or None if the trie has no such node."""
        return self._nodes.get((self._topic, label))

    def hash_at(self, label: str) -> NodeHash:
        """Returns the label and hash of the trie node with `label`, which must exist."""
        return NodeHash(label, self._nodes[self._topic, label].hash)

    def below(self, prefix: str) -> TrieNode | None:
        """Returns the trie node with the shortest label that starts with `prefix`, or None if no label does."""
        path = self._path(prefix)
        return path[-1] if path and path[-1].label.startswith(prefix) else None

    def publications(self, prefix: str) -> Iterator[Publication]:
        """Yields the publications whose keys start with `prefix`, in the order of keys."""
        top = self.below(prefix)
        stack = [] if top is None else [top]
        while stack:
            node = stack.pop()
            if node.publication is not None:
                yield node.publication
            stack += [self._nodes[self._topic, child] for child in (node.one, node.zero) if child is not None]

    def insert(self, publication: Publication, via: str) -> bool:
        """Inserts `publication`, which came by way `via`, unless the trie has its key. Returns whether it is new."""
        key = publication.key
        if self.find(key) is not None:
            return False
        path = self._path(key)
        leaf = TrieNode(self._topic, key, self._hash(key), publication=publication, via=via)
        self._nodes[self._topic, key] = leaf
        top = self._fork(path[-1], key) if path else key
        inner = [node for node in path if key.startswith(node.label)]
        for parent in reversed(inner):
            self._link(parent, top)
            top = parent.label
        self._roots[self._topic] = Root(self._topic, top)
        return True

    def _path(self, key: str) -> list[TrieNode]:
        """Returns the nodes from the root to the first node whose label is not a proper prefix of `key`, inclusive."""
        root = self._roots.get(self._topic)
        node = self.find(root.label) if root else None
        path: list[TrieNode] = []
        while node is not None:
            path.append(node)
            label = node.label
            is_above = key.startswith(label) and key != label
            child = None if not is_above else node.one if key[len(label)] == "1" else node.zero
            node = None if child is None else self.find(child)
        return path

    def _fork(self, node: TrieNode, key: str) -> str:
        """Adds an inner node above `node`, and the leaf with label `key`. Returns the label of the inner node."""
        same = next(
            position for position, digits in enumerate(zip(node.label, key, strict=False)) if len({*digits}) > 1
        )
        prefix = key[:same]
        inner = self._nodes[self._topic, prefix] = TrieNode(self._topic, prefix, "")
        self._link(inner, node.label)
        self._link(inner, key)
        return prefix

    def _link(self, parent: TrieNode, child: str) -> None:
        """Sets a child of an inner node, and recomputes the hash of the inner node."""
        if child[len(parent.label)] == "1":
            parent.one = child
        else:
            parent.zero = child
        if parent.zero is not None and parent.one is not None:
            parent.hash = self._hash(self.hash_at(parent.zero).hash, self.hash_at(parent.one).hash)

    def _hash(self, *parts: str | None) -> str:
        return hashlib.sha256("".join(part or "" for part in parts).encode()).hexdigest()[: self._digits]


def repair_tries(nodes: dict[tuple[str, str], TrieNode], roots: dict[str, Root], key_bits: int, hash_bits: int) -> None:
    """Replaces each trie that differs from the trie of its leaves with right keys by that trie (rule K22).

    Changes the tables `nodes` and `roots`, which are those of `Trie`.
    """
    found: dict[str, dict[tuple[str, str], TrieNode]] = {topic: {} for topic in roots}
    for key, node in nodes.items():
        found.setdefault(node.topic, {})[key] = node
    for topic, held in found.items():
        right_nodes, right_root = dict[tuple[str, str], TrieNode](), dict[str, Root]()
        trie = Trie(topic, right_nodes, right_root, hash_bits)
        for node in sorted(held.values(), key=attrgetter("label")):
            if node.publication is not None and has_right_key(topic, node.publication, key_bits):
                trie.insert(node.publication, node.via or "start")
        if held != right_nodes or roots.get(topic) != right_root.get(topic):
            for key in held:
                del nodes[key]
            roots.pop(topic, None)
            nodes.update(right_nodes)
            roots.update(right_root)
