"""The states in which runs begin: empty, legitimate, or corrupted by draws from the run's seed (section 1.1).

A corrupted start is a legitimate one of which one part is arbitrary (the names in `CORRUPTIONS`), or all parts are
(``arbitrary``). Every node knows the supervisors, so the graph is weakly connected.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from udfs.nodes.calls import SubscribeCall
from udfs.nodes.world import World
from udfs.skipring.corruptions import CORRUPTIONS
from udfs.skipring.labels import Label, label_of, slots
from udfs.skipring.scene import Draws, Scene
from udfs.skipring.state import (
    Database,
    Interest,
    Neighbour,
    Supervisor,
    point_of,
    responsible,
    sides,
    topic_of,
)
from udfs.skipring.supervisor import configuration
from udfs.skipring.trie import Trie

TIMEOUT = "Timeout"
EMPTY, ARBITRARY, TRIES = "empty", "arbitrary", "tries"


def begin(world: World) -> None:
    """Sets the state of all nodes before the first round, and the phase of each node's Timeout.

    Raises:
        ValueError: No node is a supervisor.
    """
    supervisors = [
        Supervisor(node, point_of(one.name)) for node, one in world.nodes.items() if one.role == "supervisor"
    ]
    if not supervisors:
        raise ValueError("a skip ring needs a node of role supervisor, and the overlay has none")
    interval = int(world.settings["timeout_interval"])
    for node in world.nodes:
        world.program(node).supervisor = {one.node: one for one in supervisors}
        ctx = world.context(node)
        ctx.set_timer(TIMEOUT, 0, 1 + int(ctx.draw("phase") * interval))
    for one in supervisors:
        for node, info in world.nodes.items():
            if info.role != "supervisor":
                world.context(one.node).watch(node)
    if world.settings["start"] != EMPTY:
        _begin_topics(world, supervisors)


def _begin_topics(world: World, supervisors: Sequence[Supervisor]) -> None:
    draws, numbers = Draws(world.context(supervisors[0].node)), count(0, -1)
    for topic, members in _subscribers(world).items():
        order, supervisor = draws.shuffled(members), responsible(topic, supervisors)
        share, is_far = draws.one_of((1 / 2, 1.0)), draws.is_in(1 / 3)
        scene = Scene(world, topic, order, supervisor, draws, share, is_far, numbers)
        _record(scene)
        start = str(world.settings["start"])
        _publish(scene, is_everywhere=start not in (ARBITRARY, TRIES))
        for name, corrupt in CORRUPTIONS.items():
            if start in (name, ARBITRARY):
                corrupt(scene)


def _subscribers(world: World) -> dict[str, list[int]]:
    """Returns the subscribers of each topic from the start; their first subscriptions to it have been made."""
    until = world.settings.get("start_until")
    found: dict[str, list[int]] = {}
    for node, calls in sorted(world.calls.items()):
        interests: dict[int, Interest] = {}
        for call in calls:
            if not isinstance(call, SubscribeCall) or (until is not None and call.round > until):
                continue
            if call.topic not in _topics(interests):
                interests[call.subscription_id] = Interest(call.subscription_id, topic_of(call))
        world.program(node).interest = interests
        for topic in _topics(interests):
            found.setdefault(topic, []).append(node)
    return dict(sorted(found.items()))


def _topics(interests: dict[int, Interest]) -> list[str]:
    return [one.topic for one in interests.values()]


def _record(scene: Scene) -> None:
    """Records the subscribers, and has them form the skip ring."""
    entries: dict[Label, int | None] = {label_of(index): node for index, node in enumerate(scene.members)}
    databases: dict[str, Database] = scene.world.program(scene.supervisor).database
    databases[scene.topic] = Database(scene.topic, -1, entries)
    short = slots(len(entries))
    for index, node in enumerate(scene.members):
        own, label = scene.own(node), label_of(index)
        own.wants, own.label = True, label
        own.short = {slot: entries[slot] for slot in sorted(short[label])}
        own.left, own.right, own.ring = (
            None if one is None else Neighbour(one.node, one.label)
            for one in sides((label.value, node), *configuration(entries, label))
        )


def _publish(scene: Scene, *, is_everywhere: bool) -> None:
    """Has publications be there from before the start: at all subscribers, or at some of them, each at least at one."""
    settings = scene.world.settings
    for _ in range(int(settings["start_publications"]) if scene.members else 0):
        publication = scene.publish(scene.draws.one_of(scene.members))
        holder = scene.draws.one_of(scene.members)
        for node in scene.members:
            if is_everywhere or node == holder or scene.draws.is_in(0.5):
                program = scene.world.program(node)
                trie = Trie(scene.topic, program.trie_node, program.trie_root, int(settings["hash_bits"]))
                trie.insert(publication, "start")
