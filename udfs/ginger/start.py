"""The nodes before the first round: the tree stands, but for brokers that join later, and nobody has subscribed."""

from __future__ import annotations

from udfs.ginger.records import ClientTopic, Contact, Neighbour, TreeView
from udfs.ginger.state import State
from udfs.ginger.tree import Tree
from udfs.nodes.calls import JoinCall
from udfs.nodes.world import World


def lay(world: World) -> None:
    """Sets what nodes know before the first round."""
    brokers = {node for node, info in world.nodes.items() if info.role == "broker"}
    joining = {
        node: call.join_point for node, calls in world.calls.items() for call in calls if isinstance(call, JoinCall)
    }
    there = world.nodes.keys() - joining.keys()
    links = {ends: rounds for ends, rounds in world.links.items() if there.issuperset(ends)}
    named = world.settings.get("root")
    root = min(node for node in brokers & there if named in (None, world.nodes[node].name))
    is_mended = world.has_crashes or bool(joining)
    for node in world.nodes:
        repair = world.program(node).repair
        repair.role = "broker" if node in brokers else "client"
        repair.is_mended, repair.is_present, repair.is_root = is_mended, node in there, node == root
    _lay_tree(world, Tree(root, links, there - brokers), is_mended=is_mended)
    for (node, other), rounds in world.links.items():
        if {node, other} <= brokers and joining.get(node, other) == other:
            world.program(node).contact[other] = Contact(other, rounds, node in joining)
    _lay_topics(world)


def _lay_tree(world: World, tree: Tree, *, is_mended: bool) -> None:
    """Connects neighbours, and lets nodes see what is near enough."""
    for around in tree.neighbours():
        state: State = world.program(around.node)
        state.neighbour[around.peer] = Neighbour(around.peer, around.relationship, around.latency_rounds)
        if is_mended and around.relationship != "client":
            world.context(around.node).watch(around.peer, around.latency_rounds)
    for around in tree.views(int(world.settings["max_hops"])):
        world.program(around.node).tree_view[around.peer] = TreeView(*around[1:])


def _lay_topics(world: World) -> None:
    """Notes on which topics clients work: all that they subscribe to or publish on at some time."""
    for node, calls in world.calls.items():
        state: State = world.program(node)
        for kind, usage in (("publish", "published"), ("subscribe", "subscribed")):
            for topic in (call.topic for call in calls if call.kind == kind and call.topic is not None):
                state.client_topic[topic] = ClientTopic(topic, usage)
