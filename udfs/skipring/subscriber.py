"""A subscriber's actions of BuildSR: BuildRing with corrections, configuration, shortcuts (sections 2.2 and 3.2)."""

from __future__ import annotations

from udfs.nodes.context import Context
from udfs.skipring import messages as ms
from udfs.skipring.labels import Label, chain, is_between
from udfs.skipring.messages import COR, CYC, LIN, send
from udfs.skipring.state import Contact, Neighbour, Subscription, sides

_HALF = 0.5


class Member:
    """The actions of a subscriber with a label, for one topic and one event."""

    def __init__(self, own: Subscription, label: Label, supervisor: int, ctx: Context) -> None:
        """Stores the state that the actions change. For SetData, `label` is the new label."""
        self._own = own
        self._label = label
        self._supervisor = supervisor
        self._ctx = ctx
        self._key = Contact(ctx.node, label).key

    # ---- BuildRing (2.2)

    def introduce(self, m: ms.Introduce) -> None:
        """Introduce: corrects labels, and inserts the introduced node into the list or stores it as ``ring``."""
        if m.node == self._ctx.node:
            return
        if m.believed is not None and m.believed != self._label:
            self._introduce_self(m.node, None, COR)
        u = Contact(m.node, m.label)
        if m.believed is not None or m.flag == COR:
            self._update_neighbour(u)
        ring = self._own.ring
        if m.flag == CYC:
            self._close(u)
        elif ring is None or ring.node != u.node:
            self._linearize(u)

    def _update_neighbour(self, u: Contact) -> None:
        """Sets the label of ring neighbour `u`, and the neighbour's count `Neighbour.silent` to 0."""
        for one in self._own.on_ring():
            if one.node == u.node:
                one.label, one.silent = u.label, 0
        self._sort()

    def _linearize(self, u: Contact) -> None:
        """Linearize: compares `u` with the list neighbour on the same side.

        Keeps the nearer one as list neighbour, and introduces the farther one to it.
        """
        if any(one is not None and one.node == u.node for one in (self._own.left, self._own.right)):
            return
        is_left = u.key < self._key
        near = self._own.left if is_left else self._own.right
        if near is not None and (u.key < near.key) == is_left:
            self._pass(u, near.node, LIN)
            return
        if is_left:
            self._own.left = Neighbour(u.node, u.label)
        else:
            self._own.right = Neighbour(u.node, u.label)
        if near is not None:
            self._pass(near, u.node, LIN)

    def _close(self, u: Contact) -> None:
        """Introduction CYC: stores `u` as neighbour over the closing edge, if this node is an end of the list.

        Otherwise forwards the introduction towards the end of the list.
        """
        own = self._own
        if own.left is None and own.right is None:
            self._linearize(u)
            return
        is_above = u.key > self._key
        toward = own.left if is_above else own.right
        if toward is not None:
            self._pass(u, toward.node, CYC)
        elif own.ring is None:
            own.ring = Neighbour(u.node, u.label)
        elif own.ring.node == u.node:
            own.ring.label = u.label
        elif (u.key > own.ring.key) == is_above:
            old, own.ring = own.ring, Neighbour(u.node, u.label)
            self._linearize(old)
        else:
            self._pass(u, own.ring.node, LIN)

    def _sort(self) -> None:
        """Removes neighbours on the wrong side of this node, and inserts them again by Linearize."""
        own, wrong = self._own, []
        if own.left is not None and own.left.key > self._key:
            wrong.append(own.left)
            own.left = None
        if own.right is not None and own.right.key < self._key:
            wrong.append(own.right)
            own.right = None
        if own.ring is not None and not self._is_end(own.ring):
            wrong.append(own.ring)
            own.ring = None
        for one in wrong:
            self._linearize(one)

    def _is_end(self, ring: Neighbour) -> bool:
        """Returns whether this node is one end of the list, and `ring` is on the side of the other end."""
        if (self._own.left is None) == (self._own.right is None):
            return False
        return (ring.key > self._key) == (self._own.left is None)

    # ---- the configuration (3.2.1)

    def configure(self, m: ms.SetData) -> None:
        """SetData with a label: adopts the label and the ring neighbours of the configuration (section 3.2.1, rule K3).

        First sends a RequestFor for each present ring neighbour that is nearer than the neighbours in the configuration
        (action (iii)).
        """
        own, held = self._own, {one.node: one for one in self._own.on_ring()}
        for one in held.values():
            if self._is_nearer(one, m):
                send(self._ctx, self._supervisor, ms.RequestFor(own.topic, one.node))
        own.label = self._label
        own.left, own.right, own.ring = (
            None if one is None else Neighbour(one.node, one.label, held[one.node].silent if one.node in held else 0)
            for one in sides(self._key, m.predecessor, m.successor)
        )

    def _is_nearer(self, one: Neighbour, m: ms.SetData) -> bool:
        """Returns whether neighbour `one` lies between this node and a neighbour that configuration `m` names.

        Returns True if `m` names fewer than two neighbours.
        """
        if m.predecessor is None or m.successor is None:
            return True
        if one.node in (m.predecessor.node, m.successor.node):
            return False
        before, after = m.predecessor.key, m.successor.key
        return is_between(before, one.key, self._key) or is_between(self._key, one.key, after)

    # ---- Timeout

    def timeout(self) -> None:
        """Timeout (sections 2.2, 3.2): requests the configuration, introduces this node, and refreshes the slots."""
        self._request()
        self._sort()
        self._introduce_to_ring()
        self._refresh_slots()
        for one in self._own.on_ring():
            one.silent += 1

    def _request(self) -> None:
        """Sends up to three GetConfiguration requests to the supervisor, each with its own probability (rule K13).

        - Action (ii): with probability 1/(2^k k²), where k is the length of this node's label.
        - Action (iv): with probability 1/2, if this node has no left neighbour.
        - Rule K6: with probability 1/2, if a ring neighbour has been silent for more than ``silence_intervals``
          Timeouts.
        """
        own = self._own
        if self._draw("label") < request_probability(self._label):
            self._get_configuration("label")
        if own.left is None and self._draw("minimum") < _HALF:
            self._get_configuration("minimum")
        limit = int(self._ctx.settings["silence_intervals"])
        if any(one.silent > limit for one in own.on_ring()) and self._draw("silence") < _HALF:
            self._get_configuration("silence")

    def _draw(self, purpose: str) -> float:
        """Returns a random number in [0, 1). The numbers for different purposes or topics are independent."""
        return self._ctx.draw(f"{purpose} of {self._own.topic}")

    def _get_configuration(self, reason: str) -> None:
        send(self._ctx, self._supervisor, ms.GetConfiguration(self._own.topic, reason))

    def _introduce_to_ring(self) -> None:
        """Introduces this node to its list neighbours. An end of the list also introduces itself to the other end."""
        left, right, ring = self._own.left, self._own.right, self._own.ring
        for one in (left, right):
            if one is not None:
                self._introduce_self(one.node, one.label, LIN)
        inner = right if left is None else left
        if (left is None or right is None) and inner is not None:
            if ring is not None:
                self._introduce_self(ring.node, ring.label, CYC)
            else:
                self._introduce_self(inner.node, None, CYC)

    # ---- shortcuts (3.2.2)

    def introduce_shortcut(self, m: ms.IntroduceShortcut) -> None:
        """IntroduceShortcut: stores the introduced node in its slot (rule K2).

        If the slot contained another node, this node introduces itself to the replaced node. If no slot fits, this node
        introduces itself to the introduced node.
        """
        own = self._own
        if m.node == self._ctx.node:
            return
        if m.label in own.short:
            old, own.short[m.label] = own.short[m.label], m.node
            if old is not None and old != m.node:
                self._introduce_self(old, m.label, LIN)
        elif not any(one.node == m.node and one.label == m.label for one in own.on_ring()):
            self._introduce_self(m.node, m.label, LIN)

    def _refresh_slots(self) -> None:
        """Computes the shortcut slots from the labels of the ring neighbours.

        Introduces the two neighbours on the level of this node's label to each other (section 3.2.2).
        """
        own = self._own
        beside = [one for one in (own.left or own.ring, own.right or own.ring) if one is not None]
        chains = [chain(self._label, one.label) for one in beside]
        old, own.short = own.short, {label: own.short.get(label) for labels in chains for label in labels}
        for label, node in sorted(old.items()):
            if node is not None and label not in own.short:
                self._introduce_self(node, label, LIN)
        partners = [
            Contact(one.node, one.label) if not labels else self._slot(labels[-1])
            for one, labels in zip(beside, chains, strict=True)
        ]
        found = [one for one in partners if one is not None]
        if len({one.node for one in found}) == 2:
            for partner, other in (found, found[::-1]):
                send(self._ctx, partner.node, ms.IntroduceShortcut(own.topic, other.node, other.label))

    def _slot(self, label: Label) -> Contact | None:
        node = self._own.short[label]
        return None if node is None else Contact(node, label)

    # ---- sending

    def _introduce_self(self, dst: int, believed: Label | None, flag: str) -> None:
        send(self._ctx, dst, ms.Introduce(self._own.topic, self._ctx.node, self._label, believed, flag))

    def _pass(self, u: Contact, dst: int, flag: str) -> None:
        send(self._ctx, dst, ms.Introduce(self._own.topic, u.node, u.label, None, flag))


def request_probability(label: Label) -> float:
    """Returns the probability of action (ii) in a Timeout: 1 / (2^k k^2) for a label of k digits."""
    return 1 / ((1 << label.bits) * label.bits * label.bits)
