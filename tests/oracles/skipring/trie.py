"""A Patricia trie, built from the set of its keys (section 4.2)."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from oracles.skipring.moment import Publication

NodeHash = tuple[str, str | None]
"""The label and the hash of a trie node."""


class TrieNode(NamedTuple):
    """The hash of a trie node, and the labels of its children; a leaf has no children."""

    hash: str
    children: tuple[str, ...]


class Trie:
    """The publications of a topic at a network node, and the Patricia trie of their keys."""

    def __init__(self, hash_bits: int) -> None:
        self.held: dict[str, Publication] = {}
        self._digits = hash_bits // 4
        self._nodes: dict[str, TrieNode] | None = None

    def insert(self, one: Publication) -> bool:
        """Inserts a publication; returns whether it is new."""
        if one.key in self.held:
            return False
        self.held[one.key], self._nodes = one, None
        return True

    @property
    def nodes(self) -> dict[str, TrieNode]:
        """The trie nodes by label."""
        if self._nodes is None:
            self._nodes = {}
            if self.held:
                self._add(sorted(self.held), self._nodes)
        return self._nodes

    def _add(self, keys: list[str], nodes: dict[str, TrieNode]) -> str:
        label = common_prefix(keys)
        children: list[str] = []
        if len(keys) > 1:
            children = [self._add([key for key in keys if key[len(label)] == digit], nodes) for digit in "01"]
        nodes[label] = TrieNode(self._hash("".join(nodes[one].hash for one in children) or label), tuple(children))
        return label

    def _hash(self, what: str) -> str:
        return hashlib.sha256(what.encode()).hexdigest()[: self._digits]

    def named(self, label: str) -> NodeHash:
        """Returns a trie node in the form in which messages name it: label and hash."""
        return label, self.nodes[label].hash

    @property
    def root(self) -> NodeHash:
        """The root in the form of `named`; for an empty trie, the label without digits and no hash (K11)."""
        return self.named(common_prefix([*self.held])) if self.held else ("", None)

    def starting(self, prefix: str) -> list[Publication]:
        """Returns the publications whose keys start with a prefix, in the order of keys."""
        return [self.held[key] for key in sorted(self.held) if key.startswith(prefix)]

    def below(self, prefix: str) -> str | None:
        """Returns the shortest of the trie nodes' labels that start with ``prefix``; None if no key starts with it."""
        keys = [one.key for one in self.starting(prefix)]
        return common_prefix(keys) if keys else None


def publication_key(topic: str, source: int, number: int, key_bits: int) -> str:
    """Returns the first digits of SHA-256 of publisher, number and topic (K11)."""
    digest = hashlib.sha256(f"{source},{number},{topic}".encode()).digest()
    return "".join(f"{byte:08b}" for byte in digest)[:key_bits]


def common_prefix(keys: list[str]) -> str:
    """Returns the longest common prefix of ``keys``, which must not be empty."""
    length = 0
    while length < len(keys[0]) and len({key[: length + 1] for key in keys}) == 1:
        length += 1
    return keys[0][:length]
