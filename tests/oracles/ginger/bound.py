"""What this program bears, from the setup and the brokers that fail alone."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet

from oracles.ginger.network import Setup


def is_beyond(setup: Setup, dead: AbstractSet[int]) -> bool:
    """All that fail are taken for down at once.

    Beyond the protocol's bound this program has one of its own: it joins no sub-trees, so somebody above an orphan has
    to be in those that it is in, or to be elected.
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
    """Ancestors, and the children of all but the last of them, within maxHops."""
    path: list[int] = [node]
    while (above := _above(setup, path[-1])) is not None:
        path.append(above)
    found = set(path[2 : setup.max_hops + 1])
    for broker in path[1 : setup.max_hops]:
        found |= _children(setup, broker)
    return found - set(path[:2])


def _orphans(setup: Setup, dead: AbstractSet[int]) -> Iterator[tuple[int, set[int]]]:
    """Nodes whose parent fails, with those that they see alive; brokers may be alone."""
    for node in (*setup.edge, *setup.parent):
        if _above(setup, node) in dead and node not in dead:
            found = _seen(setup, node) - dead
            yield node, found if node in setup.edge else found | {node}


def _ends(setup: Setup, dead: AbstractSet[int]) -> set[int | None]:
    """The root, if it is up, and the parents of brokers that see nobody but each other: a root is elected there."""
    ends: set[int | None] = {None for b, above in setup.parent.items() if above is None and b not in dead}
    for node, found in _orphans(setup, dead):
        above = _above(setup, node)
        if node in setup.parent and above is not None and not found - _children(setup, above):
            ends.add(above)
    return ends


def _elected(setup: Setup, dead: AbstractSet[int]) -> set[int]:
    """The only child that the root has left; of several it is not known which one is elected."""
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
