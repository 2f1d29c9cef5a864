"""A subscriber's state of the ring of a topic: BuildRing, configurations, shortcuts (sections 2.2 and 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oracles.skipring.labels import Key, is_label, key, shortcut_labels
from oracles.skipring.moment import Contact, Moment


@dataclass
class Edge:
    """A neighbour on the ring, its assumed label, and the number of Timeouts since it introduced itself."""

    node: int
    label: str
    silent: int = 0

    @property
    def key(self) -> Key:
        return key(self.node, self.label)


@dataclass
class Ring:
    """The ring of a topic at a node v; the names are those of the protocol's page."""

    topic: str
    v: int
    supervisor: int
    label: str | None = None
    left: Edge | None = None
    right: Edge | None = None
    ring: Edge | None = None
    short: dict[str, int | None] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        assert self.label is not None
        return key(self.v, self.label)

    def edges(self) -> list[Edge]:
        return [edge for edge in (self.left, self.right, self.ring) if edge is not None]

    def ring_nodes(self) -> list[int]:
        """Returns the distinct neighbours on the ring."""
        return list(dict.fromkeys(edge.node for edge in self.edges()))

    def neighbours(self) -> list[int]:
        """Returns all distinct neighbours: first the neighbours on the ring, then the slots in the order of labels."""
        shortcuts = (self.short[label] for label in by_index(self.short))
        return list(dict.fromkeys([*self.ring_nodes(), *(node for node in shortcuts if node is not None)]))

    def clear(self) -> None:
        """Deletes label, edges and slots, as for a SetData without a configuration."""
        self.label = self.left = self.right = self.ring = None
        self.short = {}

    def drop_invalid(self) -> None:
        """Deletes an invalid own label, and edges and slots with invalid labels (K21)."""
        self.label = self.label if is_label(self.label) else None
        for side in ("left", "right", "ring"):
            edge = getattr(self, side)
            if edge is not None and not is_label(edge.label):
                setattr(self, side, None)
        self.short = {label: node for label, node in self.short.items() if is_label(label)}

    def remove(self, u: int) -> None:
        """Remove(u)."""
        if self.left is not None and self.left.node == u:
            self.left = None
        if self.right is not None and self.right.node == u:
            self.right = None
        if self.ring is not None and self.ring.node == u:
            self.ring = None
        for label, node in self.short.items():
            if node == u:
                self.short[label] = None

    # ---- Introduce

    def introduce(self, now: Moment, u: int, label: str, believed: str | None, flag: str) -> None:
        """Introduce(u, label, believed, flag)."""
        if u == self.v:
            return
        if believed is not None and believed != self.label:
            self._introduce_self(now, u, None, "COR")
        if believed is not None or flag == "COR":
            for edge in self.edges():
                if edge.node == u:
                    edge.label, edge.silent = label, 0
            self._sort(now)
        if flag == "CYC":
            self._cyc(now, u, label)
        elif self.ring is None or self.ring.node != u:
            self.linearize(now, u, label)

    def linearize(self, now: Moment, u: int, label: str) -> None:
        """Linearize(u): the nearest node on each side remains a neighbour; it is sent the other node."""
        if u in [edge.node for edge in (self.left, self.right) if edge is not None]:
            return
        new = Edge(u, label)
        if new.key < self.key:
            if self.left is None or self.left.key < new.key:
                old, self.left = self.left, new
                self._pass(now, old, u)
            else:
                self._pass(now, new, self.left.node)
        elif self.right is None or self.right.key > new.key:
            old, self.right = self.right, new
            self._pass(now, old, u)
        else:
            self._pass(now, new, self.right.node)

    def _cyc(self, now: Moment, u: int, label: str) -> None:
        new = Edge(u, label)
        if self.left is None and self.right is None:
            self.linearize(now, u, label)
        elif new.key > self.key and self.left is not None:
            self._pass(now, new, self.left.node, "CYC")
        elif new.key < self.key and self.right is not None:
            self._pass(now, new, self.right.node, "CYC")
        elif self.ring is None:
            self.ring = new
        elif self.ring.node == u:
            self.ring.label = label
        elif (new.key > self.key and new.key > self.ring.key) or (new.key < self.key and new.key < self.ring.key):
            old, self.ring = self.ring, new
            self.linearize(now, old.node, old.label)
        else:
            self._pass(now, new, self.ring.node)

    def _sort(self, now: Moment) -> None:
        """Deletes left and right neighbours on the wrong side, and an invalid ``ring``, and linearizes them.

        ``ring`` is valid only at the minimum and at the maximum of the list, if it is on the other side.
        """
        wrong: list[Edge] = []
        if self.left is not None and self.left.key > self.key:
            wrong.append(self.left)
            self.left = None
        if self.right is not None and self.right.key < self.key:
            wrong.append(self.right)
            self.right = None
        if self.ring is not None:
            is_minimum = self.left is None and self.right is not None
            is_maximum = self.right is None and self.left is not None
            is_above = self.ring.key > self.key
            if not (is_minimum and is_above) and not (is_maximum and not is_above):
                wrong.append(self.ring)
                self.ring = None
        for edge in wrong:
            self.linearize(now, edge.node, edge.label)

    # ---- SetData

    def set_data(self, now: Moment, p: Contact | None, label: str, q: Contact | None) -> None:
        """SetData(p, label, q): performs action (iii); then the configuration overwrites the edges (K3)."""
        self.label = label
        old = {edge.node: edge for edge in self.edges()}
        for u, edge in old.items():
            if self._is_nearer(edge, p, q):
                now.send(self.supervisor, "RequestFor", self.topic, u)
        before, after = (
            None if one is None else Edge(*one, old[one[0]].silent if one[0] in old else 0) for one in (p, q)
        )
        self.left = before if before is not None and before.key < self.key else None
        self.right = after if after is not None and after.key > self.key else None
        if self.left is None:
            self.ring = before
        else:
            self.ring = after if self.right is None else None

    def _is_nearer(self, edge: Edge, p: Contact | None, q: Contact | None) -> bool:
        """Returns whether a neighbour lies on the ring between the node and p or q."""
        if p is None or q is None:
            return True
        if edge.node in (p[0], q[0]):
            return False
        return _is_inside(key(*p), edge.key, self.key) or _is_inside(self.key, edge.key, key(*q))

    # ---- IntroduceShortcut

    def introduce_shortcut(self, now: Moment, u: int, label: str) -> None:
        """IntroduceShortcut(u, label)."""
        if u == self.v:
            return
        if label in self.short:
            old, self.short[label] = self.short[label], u
            if old not in (None, u):
                self._introduce_self(now, old, label, "LIN")
        elif (u, label) not in [(edge.node, edge.label) for edge in self.edges()]:
            self._introduce_self(now, u, label, "LIN")

    # ---- Timeout

    def timeout(self, now: Moment) -> None:
        """Timeout of a subscriber that has a label, without CheckTrie."""
        self._request(now)
        self._sort(now)
        for edge in (self.left, self.right):
            if edge is not None:
                self._introduce_self(now, edge.node, edge.label, "LIN")
        if (self.left is None) != (self.right is None):
            inner = self.left or self.right
            assert inner is not None
            if self.ring is not None:
                self._introduce_self(now, self.ring.node, self.ring.label, "CYC")
            else:
                self._introduce_self(now, inner.node, None, "CYC")
        self._shortcuts(now)
        for edge in self.edges():
            edge.silent += 1

    def _request(self, now: Moment) -> None:
        """Actions (ii) and (iv), and silence; each has a separate draw and a separate message (K6, K13)."""
        assert self.label is not None
        k = len(self.label)
        is_silent = any(edge.silent > now.settings["silence_intervals"] for edge in self.edges())
        for reason, is_due, probability in (
            ("label", True, 1 / (2**k * k**2)), ("minimum", self.left is None, 1 / 2), ("silence", is_silent, 1 / 2),
        ):  # fmt: skip
            if is_due and now.draw(f"{reason} of {self.topic}") < probability:
                now.send(self.supervisor, "GetConfiguration", self.topic, reason)

    def _shortcuts(self, now: Moment) -> None:
        """Recomputes the slots, and introduces the two partners at the node's own level to each other."""
        assert self.label is not None
        sides = [edge for edge in (self.left or self.ring, self.right or self.ring) if edge is not None]
        chains = [shortcut_labels(self.label, edge.label) for edge in sides]
        old, self.short = self.short, {}
        for label in [label for chain in chains for label in chain]:
            self.short[label] = old.get(label)
        for label in by_index(old):
            node = old[label]
            if node is not None and label not in self.short:
                self._introduce_self(now, node, label, "LIN")
        partners: list[Contact] = []
        for edge, chain in zip(sides, chains, strict=True):
            node = self.short[chain[-1]] if chain else edge.node
            if node is not None:
                partners.append((node, chain[-1] if chain else edge.label))
        if len({node for node, _ in partners}) == 2:
            for (node, _), other in (partners, partners[::-1]):
                now.send(node, "IntroduceShortcut", self.topic, *other)

    # ---- sending

    def _introduce_self(self, now: Moment, dst: int, believed: str | None, flag: str) -> None:
        now.send(dst, "Introduce", self.topic, self.v, self.label, believed, flag)

    def _pass(self, now: Moment, edge: Edge | None, dst: int, flag: str = "LIN") -> None:
        if edge is not None:
            now.send(dst, "Introduce", self.topic, edge.node, edge.label, None, flag)


def by_index(labels: Sequence[str] | dict[str, int | None]) -> list[str]:
    """Returns labels in the order in which l generates them: by length, then by digits."""
    return sorted(labels, key=lambda label: (len(label), label))


def _is_inside(low: Key, at: Key, high: Key) -> bool:
    """Returns whether ``at`` lies on the arc of the ring from ``low`` upwards to ``high``."""
    if low < high:
        return low < at < high
    return at > low or at < high
