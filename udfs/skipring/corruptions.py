"""Arbitrary parts of a start: each replaces one part of a legitimate one by draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from udfs.skipring.labels import Label
from udfs.skipring.messages import (
    COR,
    CYC,
    LIN,
    REQUESTS,
    CheckAndPublish,
    CheckTrie,
    GetConfiguration,
    Introduce,
    IntroduceShortcut,
    Remove,
    RequestFor,
    SetData,
    Subscribe,
    Unsubscribe,
    send,
)
from udfs.skipring.scene import Scene
from udfs.skipring.state import Neighbour
from udfs.skipring.trie import NodeHash

_MESSAGES_PER_NODE = 3
_SLOTS = 4
_LONGEST_KEY = 6


def labels(scene: Scene) -> None:
    """Has nodes have any label, or none; nodes that have not subscribed, too."""
    for node in scene.nodes:
        if scene.is_hit():
            scene.own(node).label = scene.label_or_none()


def edges(scene: Scene) -> None:
    """Replaces edges on the ring by edges to any node, with any label, or by none."""
    for node in scene.nodes:
        own = scene.own(node)
        own.left, own.right, own.ring = (
            _edge(scene) if scene.is_hit() else one for one in (own.left, own.right, own.ring)
        )


def _edge(scene: Scene) -> Neighbour | None:
    contact = scene.contact()
    limit = 2 * int(scene.world.settings["silence_intervals"])
    return None if contact is None else Neighbour(contact.node, contact.label, scene.draws.below(limit))


def shortcuts(scene: Scene) -> None:
    """Has nodes have any slots, with any nodes or none in them."""
    for node in scene.nodes:
        if scene.is_hit():
            drawn = {scene.label(): scene.contact() for _ in range(scene.draws.below(_SLOTS + 1))}
            scene.own(node).short = {label: one.node if one else None for label, one in sorted(drawn.items())}


def database(scene: Scene) -> None:
    """Corrupts the database in all four ways of section 3.1, or empties it."""
    held = scene.world.program(scene.supervisor).database[scene.topic]
    kept = {} if scene.draws.is_in(1 / 3) else held.entries
    entries: dict[Label, int | None] = {}
    for label, node in kept.items():
        fate = scene.draws.below(6)
        if fate == 0:
            continue
        entries[scene.label() if fate == 1 else label] = None if fate == 2 else node
        if fate == 3:
            entries[scene.label()] = node
        elif fate == 4:
            entries[Label(label.bits + 1, label.numerator << 1)] = scene.draws.one_of(scene.nodes)
    held.entries = dict(scene.draws.shuffled(list(entries.items())))
    held.next = scene.draws.below(2 * len(entries) + 2) - 1


def messages(scene: Scene) -> None:
    """Puts stale messages into channels, with any contents; up to three for each node."""
    nodes = scene.nodes
    for _ in range(scene.draws.below(_MESSAGES_PER_NODE + 1) * len(nodes)):
        kind = scene.draws.one_of(list(_STALE))
        dst = scene.supervisor if kind in REQUESTS else scene.draws.one_of(nodes)
        send(scene.world.context(scene.draws.one_of(nodes)), dst, _STALE[kind](scene))


def _set_data(scene: Scene) -> SetData:
    label = scene.label_or_none()
    if label is None:
        return SetData(scene.topic, None, None, None, "request")
    return SetData(scene.topic, scene.contact(), label, scene.contact(), "request")


def _introduce(scene: Scene) -> Introduce:
    node, flag = scene.draws.one_of(scene.nodes), scene.draws.one_of((LIN, CYC, COR))
    return Introduce(scene.topic, node, scene.label(), scene.label_or_none(), flag)


def _key(scene: Scene) -> str:
    return "".join(str(scene.draws.below(2)) for _ in range(scene.draws.below(_LONGEST_KEY + 1)))


def _node_hash(scene: Scene) -> NodeHash:
    return NodeHash(_key(scene), f"{scene.draws.below(1 << 32):x}")


_STALE: Mapping[type, Callable[[Scene], Any]] = {
    Subscribe: lambda scene: Subscribe(scene.topic),
    Unsubscribe: lambda scene: Unsubscribe(scene.topic),
    GetConfiguration: lambda scene: GetConfiguration(scene.topic, "label"),
    RequestFor: lambda scene: RequestFor(scene.topic, scene.draws.one_of(scene.nodes)),
    SetData: _set_data,
    Remove: lambda scene: Remove(scene.topic, scene.draws.one_of(scene.nodes)),
    Introduce: _introduce,
    IntroduceShortcut: lambda scene: IntroduceShortcut(scene.topic, scene.draws.one_of(scene.nodes), scene.label()),
    CheckTrie: lambda scene: CheckTrie(scene.topic, (_node_hash(scene),)),
    CheckAndPublish: lambda scene: CheckAndPublish(scene.topic, _node_hash(scene), _key(scene)),
}
CORRUPTIONS: Mapping[str, Callable[[Scene], None]] = {
    "labels": labels,
    "edges": edges,
    "shortcuts": shortcuts,
    "database": database,
    "messages": messages,
}
"""What may be arbitrary beside the tries, which `start` fills."""
