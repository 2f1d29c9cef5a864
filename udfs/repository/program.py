"""The node program of protocol ``repository``: the role of a node and the type of an event select the handler.

With setting ``baseline`` (section 5, best effort) publishers send messages directly to subscribers, and repositories
receive no messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from udfs.nodes import calls
from udfs.nodes.context import Context
from udfs.nodes.world import World
from udfs.repository import (
    events,
    gossip,
    membership,
    publisher,
    recovery,
    routes,
    steering,
    storage,
    subscriber,
    syncs,
    topics,
)
from udfs.repository.at import At
from udfs.repository.events import Publication
from udfs.repository.records import PUBLISHER, SUBSCRIBER, Subscribed
from udfs.repository.state import State


def publish_best_effort(at: At, call: calls.PublishCall) -> None:
    """Handles call ``publish``, best effort: sends a message once to each subscriber with a matching subscription."""
    of = Publication(at.me, call.source_seq, at.round, call.matches)
    to = publisher.receivers(at, of, ())
    at.send(events.Message, to, *of)
    if at.me in to:
        deliver_best_effort(at, of, 0)


def subscribe_best_effort(at: At, call: calls.SubscribeCall) -> None:
    """Stores a subscription, and confirms the call."""
    index = at.topic, call.subscription_id
    at.node.subscribed[index] = Subscribed(*index, None, ())
    at.ctx.confirm(call.source_seq)


def unsubscribe_best_effort(at: At, call: calls.UnsubscribeCall) -> None:
    """Deletes a subscription, and confirms the call."""
    at.node.subscribed.pop((at.topic, call.subscription_id), None)
    at.ctx.confirm(call.source_seq)


def deliver_best_effort(at: At, of: Publication, hops: int) -> None:
    """Delivers message `of` if it satisfies a subscription of the client."""
    if any((at.topic, one) in at.node.subscribed for one in of.matches):
        at.deliver(of, hops)


Handler = Callable[[At, Any], object]
Timer = Callable[[At], object]

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
    events.Retransmit: storage.on_retransmit,
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
    "nak": storage.ask_again,
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

    @classmethod
    def start(cls, world: World) -> None:
        """Sets the initial routes, topics and bundles of all nodes."""
        routes.set_initial_routes(world)
        topics.set_initial_topics(world)

    def on_broker_up(self, m: routes.BrokerUp, src: int, ctx: Context) -> None:
        """Broker-Up (rule P31): answers with Broker-Up-ACK, and allows routes over the recovered broker again."""
        routes.on_up(self, m, ctx)

    def on_broker_up_ack(self, m: routes.BrokerUpAck, src: int, ctx: Context) -> None:
        """Broker-Up-ACK (rule P31): ends this broker's announcements of its recovery to the sender."""
        routes.on_up_ack(self, m)

    def on_down(self, peer: int, ctx: Context) -> None:
        """Crash report: computes routes without broker `peer` (rule P29)."""
        routes.on_down(self, peer, ctx)

    def on_message(self, m: Any, src: int, ctx: Context) -> None:  # noqa: ANN401 - all other kinds
        """Handles all messages except Broker-Up and Broker-Up-ACK.

        Brokers on the route forward the message. A receiver runs the handler of its role, client or repository.
        """
        is_mine, event = routes.receive(self, m, ctx)
        if is_mine and ctx.settings["baseline"]:
            deliver_best_effort(At(self, ctx, event.topic), event.publication, event.hops)
        elif is_mine and self.own.role == "client" and event.topic in self.bundle:
            AT_CLIENTS[type(event)](At(self, ctx, event.topic), event)
        elif is_mine and self.own.role == "repository" and event.topic in self.log:
            recovery.receive(At(self, ctx, event.topic), event, AT_REPOSITORIES[type(event)])

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Runs timer `name` of the topic with number `key`.

        Timers ``start``, ``store`` and ``up`` belong to the node, not to a topic.
        """
        if name == "start":
            topics.start(self, ctx)
        elif name == "up":
            routes.announce(self, ctx)
        elif name == "store":
            for topic in self.log:
                storage.on_stored(At(self, ctx, topic))
        else:
            recovery.run_timer(At(self, ctx, topics.numbered(self, key)), name, TIMERS[name])

    def on_recover(self, ctx: Context) -> None:
        """Starts an incarnation of the node from its durable tables, after a crash."""
        if self.link:
            routes.start(self, ctx)
        if self.own.role == routes.BROKER:
            routes.recover(self, ctx)
        topics.start(self, ctx)

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

    def call_publish(self, call: calls.PublishCall, ctx: Context) -> None:
        """Handles call ``publish``: publishes a message on a topic (section 3.4)."""
        part = publish_best_effort if ctx.settings["baseline"] else publisher.call
        part(topics.at_call(self, call, ctx), call)

    def call_subscribe(self, call: calls.SubscribeCall, ctx: Context) -> None:
        """Handles call ``subscribe``: adds a subscription to a topic."""
        part = subscribe_best_effort if ctx.settings["baseline"] else subscriber.call_subscribe
        part(topics.at_call(self, call, ctx), call)

    def call_unsubscribe(self, call: calls.UnsubscribeCall, ctx: Context) -> None:
        """Handles call ``unsubscribe``: ends a subscription."""
        part = unsubscribe_best_effort if ctx.settings["baseline"] else subscriber.call_unsubscribe
        part(topics.at_call(self, call, ctx), call)

    def call_steer(self, call: calls.SteerCall, ctx: Context) -> None:
        """Handles call ``steer`` (section 4): the client designates the repository that the call names."""
        steering.call(topics.at_call(self, call, ctx), call)
        ctx.confirm(call.source_seq)

    def call_register(self, call: calls.RegisterCall | calls.DeregisterCall, ctx: Context) -> None:
        """Handles calls ``register`` and ``deregister`` of a topic's owner for a client (section 3.3)."""
        membership.call_register(topics.at_call(self, call, ctx), call)

    call_deregister = call_register

    def call_join(self, call: calls.JoinCall, ctx: Context) -> None:
        """Handles call ``join`` (section 4.9): adds this repository to the bundles of its topics."""
        for topic in self.log:
            recovery.join(At(self, ctx, topic))
        ctx.confirm(call.source_seq)

    def call_leave(self, call: calls.LeaveCall, ctx: Context) -> None:
        """Handles call ``leave`` (section 4.10): starts the departure of this repository from all its bundles."""
        for topic in self.log:
            membership.leave(At(self, ctx, topic))
        ctx.confirm(call.source_seq)

    def call_remove(self, call: calls.RemoveCall, ctx: Context) -> None:
        """Handles call ``remove`` (rule P36): removes the dead repository `call.peer` from all bundles."""
        for topic in self.log:
            membership.remove(At(self, ctx, topic), call)
        ctx.confirm(call.source_seq)
