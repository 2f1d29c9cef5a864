"""The initial topics, bundles and registrations of nodes (sections 3.3, 4), and the start of an incarnation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from udfs.nodes.calls import Call, JoinCall, PublishCall, SubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.world import World
from udfs.repository import publisher, recovery, registrations, subscriber
from udfs.repository.at import At
from udfs.repository.records import Bundle, Duty, Log, Member, Registration
from udfs.repository.state import Home, State

CLIENT = "client"
REPOSITORY = "repository"
OF_A_TOPIC = ("subscribe", "publish")
"""The kinds of calls that have a topic. If a call names no topic, its topic is the one with the empty name."""


@dataclass(frozen=True)
class Served:
    """A topic of a run with its bundle.

    Attributes:
        topic: Name of the topic.
        number: Number of the topic, unique in the run.
        repositories: Ids of all repositories that serve the topic at some time.
        members: Ids of the repositories that serve the topic in round 0.
        owner: Id of the client that registers other clients. None if everybody may publish and subscribe.
        registered: Ids of the clients that are registered before round 0, by role.
    """

    topic: str
    number: int
    repositories: tuple[int, ...]
    members: tuple[int, ...]
    owner: int | None
    registered: Mapping[str, tuple[int, ...]]


def set_initial_topics(world: World) -> None:
    """Sets the role, the topics and the bundles of each node before the first round."""
    for node, info in world.nodes.items():
        world.program(node).own.role = info.role if info.role in (CLIENT, REPOSITORY) else "broker"
    calls = [(node, call) for node, of in sorted(world.calls.items()) for call in of]
    homes = [Home(call.subscription_id, node) for node, call in calls if isinstance(call, SubscribeCall)]
    for served in _served(world):
        for node, info in world.nodes.items():
            state = world.program(node)
            if info.role == CLIENT:
                _lay_client(world, state, node, served)
                state.home = {home.subscription_id: home for home in homes}
            elif node in served.repositories:
                _lay_repository(state, node, served)
    for node, info in world.nodes.items():
        if info.role in (CLIENT, REPOSITORY) and not world.settings["baseline"]:
            world.context(node).set_timer("start")


def _served(world: World) -> list[Served]:
    """Returns the topics that settings or calls name, with their bundles."""
    ids = {info.name: node for node, info in world.nodes.items()}
    later = {node for node, calls in world.calls.items() if any(isinstance(call, JoinCall) for call in calls)}
    everybody = [info.name for _, info in sorted(world.nodes.items()) if info.role == REPOSITORY]
    named = {topic for bundle in world.settings["bundles"] for topic in bundle["topics"] or ()}
    called = {call.topic or "" for calls in world.calls.values() for call in calls if call.kind in OF_A_TOPIC}
    served = []
    for number, topic in enumerate(sorted(named | called | {*world.settings["topics"]})):
        serving = tuple(sorted(ids[name] for name in bundle_of(topic, world.settings, everybody)))
        rules = world.settings["topics"].get(topic)
        members = tuple(one for one in serving if one not in later)
        served.append(Served(topic, number, serving, members, *_registered(rules, ids)))
    return served


def bundle_of(topic: str, settings: Mapping[str, Any], everybody: Sequence[str]) -> set[str]:
    """Returns the names of the repositories that serve `topic` at some time.

    A bundle without topics in the `settings` serves every topic that no bundle names. `everybody` has the names of all
    repositories, ascending by id.
    """
    bundles = settings["bundles"] or [{"repositories": everybody[: settings.get("bundle_size")], "topics": None}]
    named = {one for bundle in bundles for one in bundle["topics"] or ()}
    serving = (one for one in bundles if topic in (one["topics"] or ()) or (not one["topics"] and topic not in named))
    return {name for one in serving for name in (everybody if one["repositories"] is None else one["repositories"])}


def _registered(
    rules: Mapping[str, Any] | None, ids: Mapping[str, int]
) -> tuple[int | None, dict[str, tuple[int, ...]]]:
    if rules is None:
        return None, {}
    roles = {"publisher": rules["publishers"], "subscriber": rules["subscribers"]}
    return ids[rules["owner"]], {role: tuple(ids[name] for name in names) for role, names in roles.items()}


def _lay_client(world: World, state: State, node: int, served: Served) -> None:
    calls = [call for call in world.calls.get(node, ()) if (call.topic or "") == served.topic]
    is_publisher = any(isinstance(call, PublishCall) for call in calls)
    if calls:
        state.bundle[served.topic] = Bundle(served.topic, served.number, served.members, is_publisher)


def _lay_repository(state: State, node: int, served: Served) -> None:
    is_member = node in served.members
    if is_member:
        state.duty[served.topic] = Duty(served.topic, is_operational=True)
    state.log[served.topic] = Log(
        served.topic, served.number, owner=served.owner, is_member=is_member, is_complete=is_member
    )
    for other in served.members:
        if other != node:
            state.member[served.topic, other] = Member(served.topic, other)
    for role, clients in served.registered.items():
        for client in clients:
            index = served.topic, client, role
            state.registration[index] = Registration(*index, registrations.BEGINNING, is_registered=True)


def start(state: State, ctx: Context) -> None:
    """Starts an incarnation of a client or repository for each of its topics.

    A repository is operational from the beginning of the run. After a crash, and thus without `Duty`, it recovers.
    """
    for topic, bundle in state.bundle.items():
        at = At(state, ctx, topic)
        if bundle.is_publisher:
            publisher.start(at)
        subscriber.start(at)
    for topic in [topic for topic, log in state.log.items() if log.is_member]:
        at = At(state, ctx, topic)
        if topic in state.duty:
            recovery.complete(at)
        else:
            recovery.begin(at)


def at_call(state: State, call: Call, ctx: Context) -> At:
    """Returns the `At` of the topic of `call` at this node."""
    return At(state, ctx, call.topic or "")


def numbered(state: State, number: int) -> str:
    """Returns the name of the topic with number `number` at this node."""
    rows: list[Log | Bundle] = [*state.log.values(), *state.bundle.values()]
    return next(row.topic for row in rows if row.number == number)
