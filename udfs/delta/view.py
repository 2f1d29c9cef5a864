"""Views and paths (section 4.3), and the effect of finished messages on routing information (Algorithm 1, line 26).

Sections 4.6 and 4.7 define this effect for J and SUB.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from udfs.delta.messages import ToldLink
from udfs.delta.state import ConfirmedSubscription, NodeTables, Path, SubscriptionEntry, Tombstone, ViewLink
from udfs.delta.turn import Finished, Turn
from udfs.nodes.records import Keyed
from udfs.reach import neighbours


def paths_from(node: int, ends: Mapping[int, Collection[int]], radius: int) -> dict[int, tuple[int, ...]]:
    """Returns the path from `node` to each node at most `radius` hops away (rules R7 and R17).

    `ends` has the neighbours of each node.
    """
    found: dict[int, tuple[int, ...]] = {node: (node,)}
    reached = [node]
    for _ in range(radius):
        further = []
        for here in reached:
            for there in ends.get(here, ()):
                if there not in found:
                    found[there] = (*found[here], there)
                    further.append(there)
        reached = further
    return found


def closest(node: NodeTables, path: Sequence[int]) -> int | None:
    """Returns the first node on `path` that `node` has a connection to (Algorithm 3, line 15).

    A node has connections to all neighbours that it does not suspect. Returns None if `path` has no connected node.
    """
    if len(path) < 2:
        return None
    if not node.is_suspected(path[1]):
        return path[1]
    return next((one for one in path[1:] if one in node.peer and not node.is_suspected(one)), None)


def nearest_live(node: NodeTables, path: Sequence[int]) -> int | None:
    """Returns the first node on `path` that `node` does not suspect, or None if no such node exists."""
    return next((one for one in path[1:] if not node.is_suspected(one)), None)


def compute_paths(turn: Turn) -> None:
    """Computes the paths of this node from its view, then the distance and next hop of its routing entries."""
    found = paths_from(turn.id, neighbours(turn.node.topology), turn.delta + 1)
    turn.node.path = Keyed((target, _path(turn.node, target, found[target])) for target in sorted(found))
    turn.has_new_links = False
    reroute(turn.node)


def update_paths(turn: Turn) -> None:
    """Computes the paths of this node again if its view has new links. Then updates the routing entries.

    If the view has no new links, computes only the responsible node of each path again.
    """
    if turn.has_new_links:
        compute_paths(turn)
        return
    for path in turn.node.path.values():
        if path.distance:
            path.responsible = closest(turn.node, path.path)
    reroute(turn.node)


def _path(node: NodeTables, target: int, way: tuple[int, ...]) -> Path:
    return Path(target, len(way) - 1, way, closest(node, way) if len(way) > 1 else target)


def reroute(node: NodeTables) -> None:
    """Sets distance, first hop and responsible node of each routing entry of `node` from the paths of `node`."""
    for entry in node.routing_entry.values():
        way = node.path.get(entry.origin)
        if way is None:
            entry.responsible = None
        else:
            entry.distance, entry.first_hop, entry.responsible = way.distance, way.first_hop, way.responsible


def merge_links(node: NodeTables, links: Iterable[ToldLink]) -> None:
    """Adds `links` to the view of `node`. A marked link loses its mark if `links` contains the link without a mark."""
    merged = dict(node.topology.items())
    for a, b, is_marked in links:
        known = merged.get((a, b))
        merged[a, b] = ViewLink(a, b, is_marked if known is None else known.is_marked and is_marked)
    node.topology = Keyed(merged)


def add_received_links(turn: Turn, told: Iterable[ToldLink]) -> None:
    """Adds the received links `told` to the view of the node if both ends are within δ+1 hops of the node (Eq. 1)."""
    top = turn.node.topology
    fresh = [one for one in told if one[:2] not in top or (top[one[:2]].is_marked and not one.is_marked)]
    if not fresh:
        return
    near = paths_from(turn.id, neighbours({*top, *(one[:2] for one in fresh)}), turn.delta + 1)
    within = [one for one in fresh if one.a in near and one.b in near]
    if within:
        merge_links(turn.node, within)
        turn.has_new_links = True


def link_of(one: int, other: int, *, is_marked: bool) -> ToldLink:
    """Returns the link between the nodes `one` and `other`, lower end first."""
    return ToldLink(min(one, other), max(one, other), is_marked)


def unmark(turn: Turn, finished: Iterable[Finished]) -> None:
    """update_routing_information^J: removes the mark of each link whose J is finished (Algorithm 1, line 26)."""
    links = [
        link_of(one.m.source, one.m.join_point, is_marked=False)
        for one in finished if one.m.kind == "J" and one.m.join_point is not None
    ]  # fmt: skip
    if links:
        merge_links(turn.node, links)


def entry_of(turn: Turn, one: Finished) -> SubscriptionEntry | None:
    """update_routing_information^SUB: returns the routing entry of a finished SUB; None for other messages.

    The distance of a Guided SUB comes from the SUB itself, because its m.from may be outside the node's view.
    """
    m = one.m
    if m.subscription_id is None or m.origin is None:
        return None
    seen = turn.node.path.get(m.origin)
    distance = None if seen is None else seen.distance
    hop = None if seen is None else seen.first_hop
    if m.origin_path is not None:
        distance = len(m.origin_path) - 1
        hop = m.origin_path[1] if len(m.origin_path) > 1 else hop
    return SubscriptionEntry(m.subscription_id, m.origin, distance, hop, None if seen is None else seen.responsible)


def store_tombstones(turn: Turn, finished: Iterable[Finished]) -> None:
    """Stores a tombstone for each finished UNSUB, so that a late PAR_SUB cannot restore the entry (rule R33)."""
    if turn.is_disturbed:
        for one in finished:
            if one.m.kind == "UNSUB" and one.m.subscription_id is not None:
                turn.node.tombstone[one.m.subscription_id] = Tombstone(one.m.subscription_id)


Changes = tuple[dict[int, tuple[int, SubscriptionEntry]], dict[int, int]]
"""The changes of SUBS_SET by subscription: the new entries with their triggers, and the triggers of removals."""


def changes_of(
    turn: Turn, finished: Sequence[Finished], told: Sequence[tuple[int, SubscriptionEntry]] = ()
) -> Changes:  # fmt: skip
    """Returns the changes that `finished` messages and the join point's PAR_SUB make to SUBS_SET (Alg. 1, line 26).

    PAR_SUB contains the entries `told`, each with the trigger of PAR_SUB.
    """
    node, added = turn.node, dict[int, tuple[int, SubscriptionEntry]]()
    ended = ((one.trigger, entry_of(turn, one)) for one in finished if one.m.kind == "SUB")
    for trigger, entry in (*told, *ended):
        if entry is None:
            continue
        known = entry.subscription_id
        if known not in added and known not in node.routing_entry and known not in node.tombstone:
            added[known] = trigger, entry
    removed = {
        one.m.subscription_id: one.trigger
        for one in finished if one.m.kind == "UNSUB" and one.m.subscription_id is not None
    }  # fmt: skip
    return added, removed


def change_entries(entries: dict[int, SubscriptionEntry], changes: Changes) -> None:
    """Applies `changes` to `entries`, the entries of SUBS_SET."""
    added, removed = changes
    for known, (_, entry) in added.items():
        entries[known] = entry
    for known in removed:
        entries.pop(known, None)


def store_own_subscriptions(turn: Turn, finished: Iterable[Finished]) -> None:
    """Stores the confirmed subscriptions of this node durably, and deletes those that have ended (rule R31)."""
    if not turn.ctx.run.has_crashes:
        return
    own, ended = turn.node.own_subscription, set[int]()
    for one in finished:
        if one.m.source == turn.id and one.m.subscription_id is not None:
            if one.m.kind == "SUB":
                own[one.m.subscription_id] = ConfirmedSubscription(one.m.subscription_id)
            elif one.m.kind == "UNSUB":
                ended.add(one.m.subscription_id)
    for known in ended:
        own.pop(known, None)


def apply_finished(turn: Turn, finished: Sequence[Finished]) -> None:
    """Applies `finished`, messages that end because of a failure, to the routing information (Algorithm 1, line 26).

    These messages are not sent to a node that synchronises in this round. The node gets their effect from the routing
    entries that this node sends later in the round.
    """
    unmark(turn, finished)
    store_tombstones(turn, finished)
    change_entries(turn.node.routing_entry, changes_of(turn, finished))
