"""TOP_N: the part of the tree that a node knows, and the paths in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

Path = tuple[int, ...]
Link = tuple[int, int]


def link(a: int, b: int) -> Link:
    """Returns the undirected link between two nodes."""
    return (a, b) if a < b else (b, a)


class View:
    """The links within δ+1 hops of a node, marked or unmarked. Links are only added, because no node leaves.

    A link that is not connected to the node yet is stored, but is not part of the view: a recovering node can receive
    the join of a node before it knows the join point.
    """

    def __init__(self, owner: int, delta: int) -> None:
        self.owner = owner
        self.reach = delta + 1
        self._heard: dict[Link, bool] = {}
        self._paths: dict[int, Path] | None = None
        self._marks: dict[Link, bool] | None = None

    def add(self, links: Iterable[tuple[Link, bool]]) -> None:
        """Adds links; if a link is added both marked and unmarked, it is unmarked."""
        for found, is_marked in links:
            if found not in self._heard:
                self._paths = None
            self._heard[found] = is_marked and self._heard.get(found, True)
        self._marks = None

    def clear(self) -> None:
        """Removes all links."""
        self._heard.clear()
        self._paths = self._marks = None

    def unmark(self, found: Link) -> None:
        """Removes the mark of a link, so that the link is valid."""
        if found in self._heard:
            self._heard[found] = False
            self._marks = None

    @property
    def marks(self) -> dict[Link, bool]:
        """The links of the view, with their marks."""
        if self._marks is None:
            known = self.paths
            self._marks = {(a, b): mark for (a, b), mark in self._heard.items() if a in known and b in known}
        return self._marks

    @property
    def paths(self) -> dict[int, Path]:
        """P(N, X) for every X within δ+1 hops of N, including N itself."""
        if self._paths is None:
            self._paths = self._search()
        return self._paths

    def _search(self) -> dict[int, Path]:
        neighbours: dict[int, list[int]] = {}
        for a, b in sorted(self._heard):
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
        found: dict[int, Path] = {self.owner: (self.owner,)}
        queue = deque([self.owner])
        while queue:
            node = queue.popleft()
            if len(found[node]) > self.reach:
                continue
            for near in neighbours.get(node, ()):
                if near not in found:
                    found[near] = (*found[node], near)
                    queue.append(near)
        return found

    def neighbours(self, node: int) -> list[int]:
        """Returns the nodes that share a link with the node."""
        return [b if a == node else a for a, b in self._heard if node in (a, b)]

    def first_hop(self, node: int) -> int | None:
        """Returns the neighbour of the owner that lies toward ``node``; None for the owner and for unknown nodes."""
        path = self.paths.get(node, ())
        return path[1] if len(path) > 1 else None

    def between(self, a: int, b: int) -> Path:
        """Returns P(A, B) for two nodes of the view."""
        to_a, to_b = self.paths[a], self.paths[b]
        shared = 0
        while shared < min(len(to_a), len(to_b)) and to_a[shared] == to_b[shared]:
            shared += 1
        return (*reversed(to_a[shared:]), *to_b[shared - 1 :])

    def within(self, node: int, reach: int) -> list[tuple[Link, bool]]:
        """Returns the links whose ends are both within ``reach`` hops of a node of the view."""
        near = {x for x in self.paths if len(self.between(node, x)) - 1 <= reach}
        return [(found, mark) for found, mark in sorted(self.marks.items()) if near.issuperset(found)]
