"""The copies of a message between the nodes on the way from one node to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pipelines.why.facts import Message, RunFacts

HANDLED = "delivered"
LOST = ("lost_crash", "lost_link")
GUIDE = "guide"


@dataclass(frozen=True)
class Marks:
    """What is special about a copy.

    Attributes:
        skipped: Nodes that it jumps over: its receiver is no neighbour of its sender.
        is_resent: The sender had sent a copy before.
        is_unicast: It came by another kind of message than those before, which does not go along links.
        is_guided: It brings its own recipients.
        waited_since: Round in which the sender had it already, where the copy left later and was the first.
    """

    skipped: tuple[int, ...]
    is_resent: bool
    is_unicast: bool
    is_guided: bool
    waited_since: int | None


@dataclass(frozen=True)
class Trail:
    """The copies of a message on the way from one node to another.

    Attributes:
        facts: The run.
        path: The nodes on the way, both ends among them.
        start: Round in which the first node issued it.
        copies: The copies between these nodes, in the order of sending.
    """

    facts: RunFacts
    path: tuple[int, ...]
    start: int
    copies: tuple[Message, ...]

    @cached_property
    def arrivals(self) -> dict[int, list[Message]]:
        """The copies that each node took, in order."""
        found = defaultdict(list)
        for copy in sorted(self.copies, key=lambda copy: copy.at):
            if copy.fate == HANDLED:
                found[copy.dst].append(copy)
        return dict(found)

    def reached(self, before: tuple[int, int] | None = None) -> int:
        """Returns the last node of the path that has it, or had it before something else was handled."""
        for node in reversed(self.path):
            first = self.arrivals.get(node, [None])[0]
            if first is not None and (before is None or first.at < before):
                return node
        return self.path[0]

    def beyond(self, node: int) -> list[Message]:
        """Returns the copies to nodes of the path behind a node."""
        behind = set(self.path[self.path.index(node) + 1 :])
        return [copy for copy in self.copies if copy.dst in behind]

    def came(self, node: int) -> tuple[int, int]:
        """Returns when a node has it first; the node that issued it does so after all messages of the round."""
        taken = self.arrivals.get(node)
        return (self.start + 1, 0) if node == self.path[0] or not taken else taken[0].at

    def parent(self, copy: Message) -> Message | None:
        """Returns the copy that the sender of a copy had taken last; None where it issued the message."""
        taken = [other for other in self.arrivals.get(copy.src, []) if other.due <= copy.sent]
        return taken[-1] if taken else None

    def marks(self, copy: Message) -> Marks:
        """Returns the marks of a copy."""
        parent = self.parent(copy)
        had = self.start if parent is None else parent.due
        is_resent = any(other.src == copy.src and other.sent < copy.sent for other in self.copies)
        waited = had if copy.sent > had and not is_resent else None
        skipped = tuple(self.facts.path(copy.src, copy.dst)[1:-1]) if copy.src != copy.dst else ()
        is_neighbour = self.facts.overlay.has_edge(copy.src, copy.dst)
        is_unicast = copy.kind != self.copies[0].kind
        return Marks(
            () if is_neighbour or is_unicast else skipped,
            is_resent,
            is_unicast,
            copy.body.get(GUIDE) is not None,
            waited,
        )

    def chain(self) -> list[Message]:
        """Returns the copies by which the last node got it, from the first node on; none where it did not."""
        found: list[Message] = []
        taken = self.arrivals.get(self.path[-1], [])
        copy = taken[0] if taken else None
        while copy is not None and len(found) < len(self.copies):
            found.append(copy)
            copy = self.parent(copy)
        return found[::-1]


def make_trail(
    facts: RunFacts, served: Sequence[Message], path: Sequence[int], start: int, came: int | None = None
) -> Trail:
    """Finds the copies on the way among the messages that serve a call.

    Args:
        facts: The run.
        served: The messages; its copies are those of the kind that was sent first, and those that brought it by a
            reply.
        path: The nodes on the fastest way. Where a copy came another way, the nodes on that count too.
        start: Round in which it was issued.
        came: Round in which the last node got it; None: it did not, or not by anything but copies on the way.
    """
    copies = tuple(copy for copy in served if copy.kind == served[0].kind)
    taken = [copy for copy in served if copy.dst == path[-1] and copy.fate == HANDLED]
    if came is not None and len(path) > 1 and not any(copy in copies and copy.due <= came for copy in taken):
        copies += tuple(copy for copy in taken if copy not in copies and copy.due == came)
    whole = Trail(facts, tuple(path), start, copies)
    near = {*path, *(end for copy in whole.chain() for end in (copy.src, copy.dst))}
    return Trail(facts, tuple(path), start, tuple(copy for copy in copies if {copy.src, copy.dst} <= near))
