"""The node program of protocol ``repository``: the role of a node and the type of an event select the handler.

With setting ``baseline`` (section 5, best effort) publishers send messages directly to subscribers, and repositories
receive no messages. The last functions set the initial topics, bundles and registrations of nodes (sections 3.3, 4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from udfs.nodes.calls import Call, JoinCall, PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.world import World
from udfs.repository import (
    events,
    gossip,
    membership,
    publisher,
    recovery,
    registrations,
    routes,
    steering,
    storage,
    subscriber,
    syncs,
)
from udfs.repository.at import At
from udfs.repository.events import Publication
from udfs.repository.records import PUBLISHER, SUBSCRIBER, Bundle, Duty, Log, Member, Registration, Subscribed
from udfs.repository.state import Home, State


def publish_best_effort(at: At, call: PublishCall) -> None:
    """Handles call ``publish``, best effort: sends a message once to each subscriber with a matching subscription."""
    of = Publication(at.me, call.source_seq, at.round, call.matches)
    to = publisher.receivers(at, of, ())
    at.send(events.Message, to, *of)
    if at.me in to:
        deliver_best_effort(at, of, 0)


def subscribe_best_effort(at: At, call: SubscribeCall) -> None:
    """Stores a subscription, and confirms the call."""
    index = at.topic, call.subscription_id
    at.node.subscribed[index] = Subscribed(*index, None, ())
    at.ctx.confirm(call.source_seq)


def unsubscribe_best_effort(at: At, call: UnsubscribeCall) -> None:
    """Deletes a subscription, and confirms the call."""
    at.node.subscribed.pop((at.topic, call.subscription_id), None)
    at.ctx.confirm(call.source_seq)


def confirm_best_effort(at: At, call: Call) -> None:
    """Confirms a call that only changes how repositories serve a topic, without an effect."""
    at.ctx.confirm(call.source_seq)


def deliver_best_effort(at: At, of: Publication, hops: int) -> None:
    """Delivers message `of` if it satisfies a subscription of the client."""
    if any((at.topic, one) in at.node.subscribed for one in of.matches):
        at.deliver(of, hops)


CLIENT = "client"
REPOSITORY = "repository"
Handler = Callable[[At, Any], object]
Timer = Callable[[At], object]

CLIENT_CALLS: Mapping[str, Handler] = {
    "publish": publisher.call,
    "subscribe": subscriber.call_subscribe,
    "unsubscribe": subscriber.call_unsubscribe,
    "steer": steering.call,
    "register": membership.call_register,
    "deregister": membership.call_register,
}
BEST_EFFORT_CALLS: Mapping[str, Handler] = {
    **dict.fromkeys(CLIENT_CALLS, confirm_best_effort),
    "publish": publish_best_effort,
    "subscribe": subscribe_best_effort,
    "unsubscribe": unsubscribe_best_effort,
}
REPOSITORY_CALLS: Mapping[str, Handler] = {
    "join": recovery.join,
    "leave": membership.leave,
    "remove": membership.remove,
}
AT_CLIENTS: Mapping[type, Handler] = {
    events.Message: subscriber.on_message,
    events.ProbeAnswer: steering.on_answer,
    events.Migrate: steering.on_migrate,
    events.Refuse: steering.on_refuse,
    events.RegistrationConfirm: membership.on_confirm,
    events.PublisherAck: publisher.on_ack,
    events.PublisherNak: publisher.on_nak,
    events.PublisherRecovered: publisher.on_recovery,
    events.Persistent: subscriber.on_persistent,
    events.SubscriberRetransmit: subscriber.on_retransmit,
    events.Sync: subscriber.on_sync,
    events.Rectify: subscriber.on_rectify,
    events.SubscribeConfirm: subscriber.on_confirm,
}
AT_REPOSITORIES: Mapping[type, Handler] = {
    events.Message: storage.on_message,
    events.Probe: recovery.on_probe,
    events.Order: storage.on_order,
    events.Retransmit: storage.on_order,
    events.Dropped: recovery.on_dropped,
    events.PublisherRecovery: storage.on_recovery,
    events.Subscribe: syncs.on_subscribe,
    events.SubscriberRecovery: syncs.on_recovery,
    events.SubscriberAck: syncs.on_ack,
    events.SubscriberNak: syncs.on_nak,
    events.Register: membership.on_register,
    events.Deregister: membership.on_register,
    events.GossipAck: gossip.on_gossip,
    events.GossipLeave: gossip.on_leave,
    events.BundleNak: recovery.on_nak,
    events.BundleRetransmit: recovery.on_retransmit,
    events.Assist: recovery.on_assist,
    events.BundleRecovery: recovery.on_recovery,
}
TIMERS: Mapping[str, Timer] = {
    f"seek {PUBLISHER}": lambda at: steering.seek_again(at, PUBLISHER),
    f"seek {SUBSCRIBER}": lambda at: steering.seek_again(at, SUBSCRIBER),
    f"ask {PUBLISHER}": publisher.ask_again,
    f"ask {SUBSCRIBER}": subscriber.ask_again,
    "reoffer": publisher.repeat_orders,
    "acknowledge": subscriber.acknowledge,
    "wait": subscriber.request_missing,
    "idle": subscriber.poll,
    "register": membership.repeat_registrations,
    "evict": storage.evict,
    "nak": recovery.ask_again,
    "rectify": syncs.on_rectify_timer,
    "gossip": gossip.on_gossip_timer,
    "fetch": recovery.fetch,
    "assist": recovery.request_assistance,
    "leave": membership.on_leave_timer,
}


class Repository(State):
    """A node: a client, a repository or a broker."""

    detection = "reroute_rounds"
    messages = (*{**AT_CLIENTS, **AT_REPOSITORIES}, routes.BrokerUp, routes.BrokerUpAck)
    on_broker_up = routes.on_up
    on_broker_up_ack = routes.on_up_ack
    on_down = routes.on_down

    @classmethod
    def start(cls, world: World) -> None:
        """Sets the initial routes, topics and bundles of all nodes."""
        routes.set_initial_routes(world)
        set_initial_topics(world)

    def on_message(self, m: Any, src: int, ctx: Context) -> None:  # noqa: ANN401 - all other kinds
        """Handles all messages except Broker-Up and Broker-Up-ACK.

        Brokers on the route forward the message. A receiver runs the handler of its role, client or repository.
        """
        is_mine, event = routes.receive(self, m, ctx)
        if not is_mine:
            return
        at = At(self, ctx, event.topic)
        if ctx.settings["baseline"]:
            deliver_best_effort(at, event.publication, event.hops)
        elif self.own.role == CLIENT and event.topic in self.bundle:
            AT_CLIENTS[type(event)](at, event)
        elif self.own.role == REPOSITORY and event.topic in self.log:
            self._at_repository(at, event)

    def _at_repository(self, at: At, event: Any) -> None:  # noqa: ANN401 - any event for repositories
        """Handles `event` at a member. A repository that has left the bundle handles only Gossip-ACK."""
        if at.log.is_left and isinstance(event, events.GossipAck):
            membership.on_farewell(at, event)
        elif at.log.is_member and not at.log.is_left:
            if (at.topic, event.origin) in self.member:
                membership.record_heard(at, event.origin)
            AT_REPOSITORIES[type(event)](at, event)

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Runs timer `name` of the topic with number `key`. Only timer ``leave`` survives the departure (4.10).

        Timers ``start``, ``store`` and ``up`` belong to the node, not to a topic.
        """
        if name == "start":
            self._begin(ctx)
        elif name == "up":
            routes.announce(self, ctx)
        elif name == "store":
            for topic in self.log:
                storage.on_stored(At(self, ctx, topic))
        else:
            rows: list[Log | Bundle] = [*self.log.values(), *self.bundle.values()]
            topic = next(row.topic for row in rows if row.number == key)
            if topic not in self.log or not self.log[topic].is_left or name == "leave":
                TIMERS[name](At(self, ctx, topic))

    def on_recover(self, ctx: Context) -> None:
        """Starts an incarnation of the node from its durable tables, after a crash."""
        if self.link:
            routes.start(self, ctx)
        if self.own.role == routes.BROKER:
            routes.recover(self, ctx)
        if not ctx.settings["baseline"]:
            self._begin(ctx)

    def _begin(self, ctx: Context) -> None:
        """Starts an incarnation of a client or repository for each of its topics.

        A repository is operational from the beginning of the run. After a crash, and thus without `Duty`, it recovers.
        """
        for topic, bundle in self.bundle.items():
            at = At(self, ctx, topic)
            if bundle.is_publisher:
                publisher.start(at)
            subscriber.start(at)
        for topic in [topic for topic, log in self.log.items() if log.is_member]:
            (recovery.complete if topic in self.duty else recovery.begin)(At(self, ctx, topic))

    def on_round_end(self, ctx: Context) -> None:
        """Sends the designations of this round (rule P28), and ends recoveries that wait for no message."""
        for (topic, role), row in self.steering.items():
            at = At(self, ctx, topic)
            if not steering.apply_choice(at, row):
                continue
            if role == PUBLISHER:
                publisher.request(at, row)
            else:
                subscriber.reset(at)
                subscriber.request(at, row)
        for topic in self.duty:
            recovery.finish(At(self, ctx, topic))

    def _client_call(self, call: Call, ctx: Context) -> None:
        """Handles a call of a client about a topic."""
        handlers = BEST_EFFORT_CALLS if ctx.settings["baseline"] else CLIENT_CALLS
        handlers[call.kind](At(self, ctx, call.topic or ""), call)

    call_publish = call_subscribe = call_unsubscribe = call_steer = call_register = call_deregister = _client_call

    def _repository_call(self, call: Call, ctx: Context) -> None:
        """Handles a call of a repository, in each of its bundles. Best effort only confirms the call."""
        for topic in () if ctx.settings["baseline"] else self.log:
            REPOSITORY_CALLS[call.kind](At(self, ctx, topic), call)
        ctx.confirm(call.source_seq)

    call_join = call_leave = call_remove = _repository_call


def set_initial_topics(world: World) -> None:
    """Sets the role, the topics and the bundles of each node before the first round."""
    calls = [(node, call) for node, of in sorted(world.calls.items()) for call in of]
    homes = [Home(call.subscription_id, node) for node, call in calls if isinstance(call, SubscribeCall)]
    for node, info in world.nodes.items():
        if info.role in (CLIENT, REPOSITORY):
            world.program(node).own.role = info.role
            if not world.settings["baseline"]:
                world.context(node).set_timer("start")
        if info.role == CLIENT:
            world.program(node).home = {home.subscription_id: home for home in homes}
    clients = [node for node, info in world.nodes.items() if info.role == CLIENT]
    everybody = [info.name for _, info in sorted(world.nodes.items()) if info.role == REPOSITORY]
    ids = {info.name: node for node, info in world.nodes.items()}
    later = {node for node, call in calls if isinstance(call, JoinCall)}
    named = {topic for bundle in world.settings["bundles"] for topic in bundle["topics"] or ()}
    # If a call names no topic, its topic is the one with the empty name.
    called = {call.topic or "" for _, call in calls if isinstance(call, SubscribeCall | PublishCall)}
    for number, topic in enumerate(sorted(named | called | {*world.settings["topics"]})):
        serving = sorted(ids[name] for name in bundle_of(topic, world.settings, everybody))
        members = tuple(node for node in serving if node not in later)
        for node in serving:
            _lay_repository(world, node, topic, number, members, ids)
        for node in clients:
            _lay_client(world, node, topic, number, members)


def bundle_of(topic: str, settings: Mapping[str, Any], everybody: Sequence[str]) -> set[str]:
    """Returns the names of the repositories that serve `topic` at some time.

    A bundle without topics in the `settings` serves every topic that no bundle names. `everybody` has the names of all
    repositories, ascending by id.
    """
    bundles = settings["bundles"] or [{"repositories": everybody[: settings.get("bundle_size")], "topics": None}]
    named = {one for bundle in bundles for one in bundle["topics"] or ()}
    serving = (one for one in bundles if topic in (one["topics"] or ()) or (not one["topics"] and topic not in named))
    return {name for one in serving for name in (everybody if one["repositories"] is None else one["repositories"])}


def _lay_client(world: World, node: int, topic: str, number: int, members: tuple[int, ...]) -> None:
    calls = [call for call in world.calls.get(node, ()) if (call.topic or "") == topic]
    is_publisher = any(isinstance(call, PublishCall) for call in calls)
    if calls:
        world.program(node).bundle[topic] = Bundle(topic, number, members, is_publisher)


def _lay_repository(
    world: World, node: int, topic: str, number: int, members: tuple[int, ...], ids: Mapping[str, int]
) -> None:  # fmt: skip
    state, rules, is_member = world.program(node), world.settings["topics"].get(topic), node in members
    if is_member:
        state.duty[topic] = Duty(topic, is_operational=True)
    owner = None if rules is None else ids[rules["owner"]]
    state.log[topic] = Log(topic, number, owner=owner, is_member=is_member, is_complete=is_member)
    for other in members:
        if other != node:
            state.member[topic, other] = Member(topic, other)
    for role in () if rules is None else (PUBLISHER, SUBSCRIBER):
        for name in rules[f"{role}s"]:
            index = topic, ids[name], role
            state.registration[index] = Registration(*index, registrations.BEGINNING, is_registered=True)
