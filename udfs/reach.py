"""Reachability in overlays with cycles, for the bounds of protocols ``flooding``, ``gossipsub`` and ``repository``."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from udfs.batches import BEYOND, rows_of_runs

Link = tuple[int, int]


def hops(start: int, links: Mapping[int, Collection[int]], blocked: Collection[int] = ()) -> dict[int, int]:
    """Returns the number of links on the shortest path from `start` to each reachable node.

    Args:
        start: Id of a node.
        links: The neighbours of each node.
        blocked: Nodes that no path passes through. A path may start or end at one of these nodes.
    """
    found, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for other in links.get(node, ()) if node == start or node not in blocked else ():
            if other not in found:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def neighbours(links: Iterable[Link]) -> dict[int, set[int]]:
    """Returns the neighbours of each node. A link makes each of its two ends a neighbour of the other end."""
    found: dict[int, set[int]] = {}
    for a, b in links:
        found.setdefault(a, set()).add(b)
        found.setdefault(b, set()).add(a)
    return found


def are_joined(nodes: Collection[int], around: Mapping[int, Collection[int]], crashed: Collection[int]) -> bool:
    """Returns whether each two of `nodes` are connected by a path whose inner nodes do not crash.

    Args:
        nodes: Ids of the nodes to connect. Some of them may crash.
        around: The neighbours of each node.
        crashed: Ids of the nodes that crash.
    """
    steady = [node for node in sorted(nodes) if node not in crashed]
    return all(set(nodes) <= hops(start, around, crashed).keys() for start in steady[:1] or nodes)


def _around(run: Mapping[str, Any]) -> dict[int, set[int]]:
    return neighbours((link["src"], link["dst"]) for link in run["links"] or ())


@rows_of_runs(BEYOND)
def repository_beyond(run: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yields the rounds and reasons for which a run exceeds the bound of protocol ``repository``.

    These are the first duplication in a baseline, and the first permanent crash that disconnects two surviving ends.

    Args:
        run: ``ends`` (ids of clients and repositories), ``links`` (structs ``src, dst``), ``gone``, the crashes without
            recovery (structs ``round, node_id``), ascending, and ``duplicate_round`` (first round in which a link fault
            duplicates messages of a baseline, or null).
    """
    if run["duplicate_round"] is not None:
        yield run["duplicate_round"], "clients remember nothing (baseline), and a link duplicates messages"
    around, left, down = _around(run), set(run["ends"]), set[int]()
    for crash in run["gone"] or ():
        down.add(crash["node_id"])
        left.discard(crash["node_id"])
        if not are_joined(left, around, down):
            yield crash["round"], "brokers crashed for good, and no path connects all clients and repositories"
            return


@rows_of_runs(BEYOND)
def flooding_beyond(run: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yields the rounds and reasons for which a run exceeds the bound of protocol ``flooding``.

    Args:
        run: ``nodes`` (ids), ``links`` and ``pairs`` (structs ``src, dst``), ``crashes`` (structs ``round, node_id``),
            setting ``max_hops``, and ``duplicate_round`` (first round in which a link fault duplicates messages, or
            null). A pair consists of a publisher and a subscriber.
    """
    around = _around(run)
    crashes = run["crashes"] or []
    crashed = {one["node_id"] for one in crashes}
    if not are_joined(run["nodes"], around, crashed):
        yield _first(crashes), "nodes crash, and no path around them connects the others"
    most = run["max_hops"]
    if most is None:
        return
    has_cycle = sum(map(len, around.values())) // 2 >= len(run["nodes"])
    doubled_round = 0 if has_cycle else run["duplicate_round"]
    if doubled_round is not None:
        yield doubled_round, "nodes remember nothing (max_hops), and a cycle or a link duplicates copies"
    if any(hops(pair["src"], around).get(pair["dst"], most + 1) > most for pair in run["pairs"] or ()):
        yield 0, "a subscriber is more than max_hops links away from a publisher"


@rows_of_runs(BEYOND)
def gossipsub_beyond(run: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yields the rounds and reasons for which ``gossipsub`` guarantees no delivery in a run.

    Section *Bound* of the protocol's README defines these runs.

    Args:
        run: ``nodes`` and ``links`` as for `flooding_beyond`, ``crashes`` (structs ``round, node_id, is_final``; a
            final crash has no recovery), ``slow_round`` (round of the first pause or delay), ``left_round`` (round of
            the first unsubscription), ``latency_rounds`` (largest latency of a link), and the settings of the protocol.
    """
    around = _around(run)
    crashes = run["crashes"] or []
    crashed = {one["node_id"] for one in crashes}
    degree = max(map(len, around.values()), default=0)
    is_whole = degree <= run["d_lo"]
    if any(not one["is_final"] for one in crashes):
        yield _first(crashes), "a node recovers, and has lost the ids of its publications"
    elif crashes and not is_whole:
        yield _first(crashes), "a node crashes, and the remaining mesh depends on draws"
    elif not are_joined(run["nodes"], around, crashed):
        yield _first(crashes), "nodes crash, and no path around them connects the others"
    if run["left_round"] is not None and (not run["relay"] or degree > run["d_lazy"]):
        yield run["left_round"], "a node leaves a topic, so it relays nothing, or its backoff delays a graft"
    if degree > min(run["d_hi"], run["d_lo"] + run["d_lazy"]):
        yield 0, f"a node has {degree} neighbours, so mesh and gossip do not reach all of them"
    if is_whole:
        return
    if run["slow_round"] is not None:
        yield run["slow_round"], "pauses or delays slow messages, and the cache may end before an IWANT arrives"
    if 2 * run["latency_rounds"] >= (run["history_length"] - 1) * run["heartbeat_rounds"]:
        yield 0, "a round trip over a link takes longer than the cache keeps publications"


def _first(crashes: Iterable[Mapping[str, Any]]) -> int:
    return min((int(one["round"]) for one in crashes), default=0)
