"""Arbitrary parts of a start: each replaces one part of a legitimate one by draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
    Publish,
    PublishNew,
    Remove,
    RequestFor,
    SetData,
    Subscribe,
    Unsubscribe,
    send,
)
from udfs.skipring.scene import Scene
from udfs.skipring.state import Crashed, Database, Neighbour
from udfs.skipring.trie import NodeHash, Publication, Root, TrieNode

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
    """Corrupts the database in all four ways of section 3.1, or empties it; other nodes hold databases, too.

    Supervisors have verdicts on nodes that are up.
    """
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
            entries[Label(label.bits + 1, label.numerator << 1)] = scene.draws.one_of(scene.everybody)
    held.entries = dict(scene.draws.shuffled(list(entries.items())))
    held.next = scene.draws.below(2 * len(entries) + 2) - 1
    _stray_databases(scene)
    _false_verdicts(scene)


def _stray_databases(scene: Scene) -> None:
    """Has nodes that are not the topic's supervisor hold a database of it."""
    for node in scene.everybody:
        if node != scene.supervisor and scene.draws.is_in(1 / 4):
            entries = {scene.label(): scene.draws.one_of(scene.everybody) for _ in range(1 + scene.draws.below(3))}
            databases: dict[str, Database] = scene.world.program(node).database
            databases[scene.topic] = Database(scene.topic, scene.draws.below(4) - 1, dict(entries))


def _false_verdicts(scene: Scene) -> None:
    """Has supervisors hold nodes for crashed that are up."""
    for supervisor in scene.world.program(scene.supervisor).supervisor:
        crashed: dict[int, Crashed] = scene.world.program(supervisor).crashed
        for node in scene.everybody:
            if scene.draws.is_in(1 / 4):
                crashed[node] = Crashed(node)


def messages(scene: Scene) -> None:
    """Puts stale messages into channels, with any contents; up to three for each node.

    Half of the requests go to the topic's supervisor; all other messages may be anywhere.
    """
    nodes = scene.everybody
    for _ in range(scene.draws.below(_MESSAGES_PER_NODE + 1) * len(nodes)):
        kind = scene.draws.one_of(list(_STALE))
        is_served = kind in REQUESTS and scene.draws.is_in(1 / 2)
        dst = scene.supervisor if is_served else scene.draws.one_of(nodes)
        send(scene.world.context(scene.draws.one_of(nodes)), dst, _STALE[kind](scene))


def _set_data(scene: Scene) -> SetData:
    label = scene.label_or_none()
    if label is None:
        return SetData(scene.topic, None, None, None, "request")
    return SetData(scene.topic, scene.contact(), label, scene.contact(), "request")


def _introduce(scene: Scene) -> Introduce:
    node, flag = scene.draws.one_of(scene.everybody), scene.draws.one_of((LIN, CYC, COR))
    return Introduce(scene.topic, node, scene.label(), scene.label_or_none(), flag)


def _key(scene: Scene) -> str:
    return "".join(str(scene.draws.below(2)) for _ in range(scene.draws.below(_LONGEST_KEY + 1)))


def _node_hash(scene: Scene) -> NodeHash:
    return NodeHash(_key(scene), f"{scene.draws.below(1 << 32):x}")


def _stale_publication(scene: Scene) -> Publication:
    """Returns a publication; its key may be that of another one, or have another length (rule K22)."""
    one = replace(scene.publication(), hops=scene.draws.below(8))
    fate = scene.draws.below(4)
    if fate == 0:
        return replace(one, key=_key(scene))
    if fate == 1:
        return replace(one, key=scene.draws.one_of((one.key[:-1], one.key + "0", one.key + "1")))
    return replace(one, key=scene.publication().key) if fate == 2 else one


def _publish_new(scene: Scene) -> PublishNew:
    one = _stale_publication(scene)
    return PublishNew(scene.topic, one.key, one.source, one.source_seq, one.issued_round, one.hops)


def _publish(scene: Scene) -> Publish:
    return Publish(scene.topic, tuple(_stale_publication(scene) for _ in range(scene.draws.below(4))))


def tries(scene: Scene) -> None:
    """Corrupts the tries of nodes: hashes, children, roots, and keys of another length (rule K22)."""
    for node in scene.everybody:
        program = scene.world.program(node)
        nodes: dict[tuple[str, str], TrieNode] = program.trie_node
        held = [one for (topic, _), one in sorted(nodes.items()) if topic == scene.topic]
        for one in held:
            fate = scene.draws.below(12)
            if fate == 0:
                one.hash = _node_hash(scene).hash or ""
            elif fate == 1 and one.publication is None:
                one.zero = scene.draws.one_of((None, one.one, one.label, _key(scene)))
            elif fate == 2 and one.publication is None:
                del nodes[scene.topic, one.label]
        if scene.draws.is_in(1 / 4):
            wrong = _stale_publication(scene)
            nodes.setdefault((scene.topic, wrong.key), _leaf(scene, wrong))
        if held and scene.draws.is_in(1 / 8):
            program.trie_root[scene.topic] = Root(scene.topic, scene.draws.one_of((*(one.label for one in held), "01")))


def _leaf(scene: Scene, publication: Publication) -> TrieNode:
    return TrieNode(scene.topic, publication.key, _node_hash(scene).hash or "", publication=publication, via="start")


_STALE: Mapping[type, Callable[[Scene], Any]] = {
    Subscribe: lambda scene: Subscribe(scene.topic),
    Unsubscribe: lambda scene: Unsubscribe(scene.topic),
    GetConfiguration: lambda scene: GetConfiguration(scene.topic, "label"),
    RequestFor: lambda scene: RequestFor(scene.topic, scene.draws.one_of(scene.everybody)),
    SetData: _set_data,
    Remove: lambda scene: Remove(scene.topic, scene.draws.one_of(scene.everybody)),
    Introduce: _introduce,
    IntroduceShortcut: lambda scene: IntroduceShortcut(scene.topic, scene.draws.one_of(scene.everybody), scene.label()),
    CheckTrie: lambda scene: CheckTrie(scene.topic, (_node_hash(scene),)),
    PublishNew: _publish_new,
    Publish: _publish,
    CheckAndPublish: lambda scene: CheckAndPublish(scene.topic, _node_hash(scene), _key(scene)),
}
CORRUPTIONS: Mapping[str, Callable[[Scene], None]] = {
    "labels": labels,
    "edges": edges,
    "shortcuts": shortcuts,
    "database": database,
    "messages": messages,
    "tries": tries,
}
"""The parts of a start that may be arbitrary."""
