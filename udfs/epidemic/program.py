"""Class `Epidemic`, the node program of protocol ``epidemic``.

A dispatcher handles a round in phases: unicast, subscription tables, events and buffers, gossip, gossip rounds. Within
a phase it handles messages in the order of their ids, then calls. It sends messages in the order of their causes:
received messages, then calls, then the gossip round. The README of the protocol lists the tables of each phase.
"""

from __future__ import annotations

from udfs.epidemic.dispatcher import MESSAGES, Dispatcher, DispatcherRound, GossipTimer, Pattern
from udfs.epidemic.forwarding import bound, change_table, discard, take_events
from udfs.epidemic.gossip import gossip, handle_pull, handle_push, handle_request
from udfs.nodes.calls import PublishCall, SubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.hashing import drawn_uniform
from udfs.nodes.run import patterns_of
from udfs.nodes.world import Flight, RoundDue, World

UNICAST = frozenset({"REQUEST", "REPLY"})


class Epidemic(Dispatcher):
    """A dispatcher as a node program, which handles all due events of a round in one method."""

    messages = MESSAGES
    notices_links = True

    @classmethod
    def start(cls, world: World) -> None:
        """Fills table ``pattern``, and sets the gossip timer of each node to a random phase, before the first round."""
        interval, seed = int(world.settings["gossip_rounds"]), int(world.settings["seed"])
        patterns = patterns_of(world.predicates)
        calls = [(node, call) for node, of_node in world.calls.items() for call in of_node]
        first = min((call.round for _, call in calls if isinstance(call, PublishCall)), default=None)
        for number in world.nodes:
            next_round = int(drawn_uniform(seed, "epidemic.phase", number) * interval)
            world.program(number).dispatcher = GossipTimer(interval, next_round)
        for node, call in calls:
            if isinstance(call, SubscribeCall):
                is_initial = first is None or call.round < first
                pattern = Pattern(call.subscription_id, patterns[call.subscription_id], is_initial)
                world.program(node).pattern[call.subscription_id] = pattern

    def on_round(self, due: RoundDue, ctx: Context) -> None:
        """Handles the due events of a round, in phases."""
        turn = DispatcherRound(self, ctx, due)
        turn.inbox = [one for one in due.received if _arrives(ctx, one)]
        change_table(turn)
        take_events(turn)
        if ctx.settings["recovery"] != "none":
            discard(turn)
            bound(turn)
            for one in turn.of("GOSSIP", "REQUEST"):
                if one.kind == "REQUEST":
                    handle_request(turn, one.message, one.message_id, one.src)
                else:
                    handle = handle_push if one.message.style == "push" else handle_pull
                    handle(turn, one.message, one.message_id, one.src)
            gossip(turn)
        turn.leave()


def _arrives(ctx: Context, one: Flight) -> bool:
    """Returns whether message `one` arrives. Drops `one` if the unicast loses it (setting ``out_of_band_loss``)."""
    loss, seed = ctx.settings["out_of_band_loss"], ctx.settings["seed"]
    if not loss or one.kind not in UNICAST:
        return True
    event = (one.message.source, one.message.source_seq) if one.kind == "REPLY" else (-1, -1)
    is_lost = drawn_uniform(seed, "epidemic.unicast", one.src, ctx.node, ctx.round, *event) < loss
    if is_lost:
        ctx.drop("lost_link", one.message_id)
    return not is_lost
