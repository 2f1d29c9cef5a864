"""Computes the bound of this program from the setup and the set of failed brokers."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet

from oracles.ginger.network import Setup


def is_beyond(setup: Setup, dead: AbstractSet[int]) -> bool:
    """Returns whether the failures exceed the bound, if all brokers in ``dead`` are down concurrently.

    This program has one restriction more than the protocol: a broker joins no sub-tree. So a node above an orphan must
    be in the sub-trees of the orphan, or be elected.
    """
    return (
        any(not found for _, found in _orphans(setup, dead))
        or len(_ends(setup, dead)) > 1
        or any(_lacks_topics(setup, node, found, _elected(setup, dead)) for node, found in _orphans(setup, dead))
    )


def _above(setup: Setup, node: int) -> int | None:
    return setup.edge[node] if node in setup.edge else setup.parent[node]


def _children(setup: Setup, broker: int) -> set[int]:
    return {b for b, above in setup.parent.items() if above == broker}


def _seen(setup: Setup, node: int) -> set[int]:
    """Returns the ancestors within maxHops, except the parent, and the children of all but the last of them."""
    path: list[int] = [node]
    while (above := _above(setup, path[-1])) is not None:
        path.append(above)
    found = set(path[2 : setup.max_hops + 1])
    for broker in path[1 : setup.max_hops]:
        found |= _children(setup, broker)
    return found - set(path[:2])


def _orphans(setup: Setup, dead: AbstractSet[int]) -> Iterator[tuple[int, set[int]]]:
    """Yields each live node whose parent fails, with the live nodes that it sees; a broker also sees itself."""
    for node in (*setup.edge, *setup.parent):
        if _above(setup, node) in dead and node not in dead:
            found = _seen(setup, node) - dead
            yield node, found if node in setup.edge else found | {node}


def _ends(setup: Setup, dead: AbstractSet[int]) -> set[int | None]:
    """Returns the ends of trees: None if the root is up, and each failed parent of orphans that elect a root.

    Orphans elect a root if they see only their siblings.
    """
    ends: set[int | None] = {None for b, above in setup.parent.items() if above is None and b not in dead}
    for node, found in _orphans(setup, dead):
        above = _above(setup, node)
        if node in setup.parent and above is not None and not found - _children(setup, above):
            ends.add(above)
    return ends


def _elected(setup: Setup, dead: AbstractSet[int]) -> set[int]:
    """Returns the only live child of a failed root; empty if several are live, because any of them can be elected."""
    root = next(b for b, above in setup.parent.items() if above is None)
    left = _children(setup, root) - dead
    return left if root in dead and len(left) == 1 else set()


def _lacks_topics(setup: Setup, node: int, found: AbstractSet[int], elected: AbstractSet[int]) -> bool:
    above = _above(setup, node)
    if above is None or elected & found or not (upper := found - _children(setup, above)):
        return False
    members = {topic: setup.members(topic) for topic in setup.subscribers}
    used = {m.topic for m in setup.publications if m.client == node}
    needed = {
        topic
        for topic, of in members.items()
        if (above in of and node in of) or node in setup.subscribers[topic] or topic in used
    }
    return not any(all(b in members[topic] for topic in needed) for b in upper)
