"""Recipient sets Γ_N^m (Algorithm 1, lines 12 to 15; 4.6 to 4.8; of Guided messages 6.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from udfs.delta.records import Entry, Path, Processing, Recipient
from udfs.delta.turn import Copy, Turn
from udfs.delta.view import Changes, closest


def sender_hop(turn: Turn, sender: int | None) -> int | None:
    """Returns the neighbour of N that lies towards a sender: nothing goes back there (rule R2)."""
    if sender is None:
        return None
    path = turn.node.path.get(sender)
    return path.path[1] if path is not None and path.distance else sender


def in_view(turn: Turn, m: Copy | Processing) -> list[Path]:
    """Returns Γ of J, REJOIN, SUB and UNSUB by the view of N.

    SUB, UNSUB: every other node that is not behind the sender (4.7). J: the nodes X with d(X, M) ≤ δ and N on
    P(X, M); from the joining node all go by M (4.6). REJOIN: the same with R for M and δ+1 for δ (Alg. 5, line 19).
    """
    if m.kind == "PUB":
        return []
    hop = sender_hop(turn, m.sender)
    away = [one for one in turn.node.path.values() if one.distance and (hop is None or one.path[1] != hop)]
    if m.kind in ("SUB", "UNSUB"):
        return away
    to_join_point = None if m.join_point is None else turn.node.path.get(m.join_point)
    if to_join_point is None:
        return []
    scope = turn.delta if m.kind == "J" else turn.delta + 1
    return [one for one in away if hop is None or one.distance + to_join_point.distance <= scope]


def unconfirmed(paths: Collection[Path]) -> dict[int, Recipient]:
    """Returns nodes of the view as recipients of which nothing is done yet."""
    return {one.target: Recipient(None, one.responsible) for one in paths}


def new_members(paths: Collection[Path], known: Mapping[int, Recipient]) -> dict[int, Recipient]:
    """Returns the recipients that have come into view: not in Γ yet, nor behind one that has confirmed."""
    done = {recipient for recipient, one in known.items() if one.is_confirmed}
    fresh = [one for one in paths if one.target not in known and done.isdisjoint(one.path)]
    return unconfirmed(fresh)


def matching(
    turn: Turn, m: Copy | Processing, before: Mapping[int, Entry], changes: Changes, trigger: int
) -> dict[int, int | None]:
    """Γ of PUB: the origins of matching entries of SUBS_SET_N, none of them back towards the sender (4.8).

    Args:
        turn: The node.
        m: The publication.
        before: SUBS_SET_N before the round.
        changes: How the round changes it.
        trigger: When the turn of the publication comes: it sees what changed before.

    Returns:
        Who is responsible for each recipient, N itself among them.
    """
    hop, (added, removed), found = sender_hop(turn, m.sender), changes, dict[int, int | None]()
    for subscription in m.matches or ():
        if removed.get(subscription, trigger) < trigger:
            continue
        entry = before.get(subscription)
        if entry is None and subscription in added and added[subscription][0] < trigger:
            entry = added[subscription][1]
        if entry is None or (hop is not None and (entry.first_hop is None or entry.first_hop == hop)):
            continue
        found[entry.origin] = entry.responsible
    return found


def guided(turn: Turn, copy: Copy) -> dict[int, Recipient]:
    """Γ of a Guided message at a RECOVERING node: the ends of the paths in g.to (6.1, rule R32).

    What is done behind the node counts as confirmed. The node itself is among them where its one-node path is in g.to,
    for a publication only if a subscription of its own matches.
    """
    found = {}
    for path, is_done in copy.guide or ():
        recipient = path[-1]
        is_own = any(one in turn.node.own_subscription for one in copy.matches or ())
        if recipient == turn.id and copy.kind == "PUB" and not is_own:
            continue
        responsible = turn.id if len(path) == 1 else None if is_done else closest(turn.node, path)
        found[recipient] = Recipient(path, responsible, is_confirmed=is_done)
    return found
