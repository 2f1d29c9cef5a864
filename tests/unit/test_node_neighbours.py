"""What a node program is told of its neighbours and its own subscriptions."""

from __future__ import annotations

from typing import Annotated

import pytest

from udfs.nodes.context import Context, Internal
from udfs.nodes.local import LocalNetwork
from udfs.nodes.program import Call, NodeProgram, keyed
from udfs.nodes.records import message
from udfs.nodes.subscriptions import OwnSubscription, OwnSubscriptions


@message("PUB")
class Pub:
    """A publication."""

    source: Annotated[int, "who published it"]
    source_seq: Annotated[int, "its number there"]
    issued_round: Annotated[int, "when"]
    matches: Annotated[tuple[int, ...], "the subscriptions that it satisfies"]


class Neighbourly(NodeProgram):
    """A node that tells its neighbours of a publication, and delivers what its application asks for."""

    messages = (Pub,)
    detection = None
    subscription = keyed(OwnSubscription)

    def call_subscribe(self, call: Call, ctx: Context) -> None:
        OwnSubscriptions.add(self.subscription, call)

    def call_unsubscribe(self, call: Call, ctx: Context) -> None:
        OwnSubscriptions.remove(self.subscription, call)

    def call_publish(self, call: Call, ctx: Context) -> None:
        for neighbour in ctx.neighbours:
            ctx.send(neighbour, Pub(ctx.node, call.source_seq, ctx.round, call.matches))

    def on_pub(self, m: Pub, src: int, ctx: Context) -> None:
        if OwnSubscriptions.any_of(self.subscription, m.matches):
            ctx.deliver(m.source, m.source_seq, m.issued_round, 1)


def test_neighbours_come_in_ascending_order_with_the_latency_of_their_links() -> None:
    seen = []

    class Looking(Neighbourly):
        def call_publish(self, call: Call, ctx: Context) -> None:
            seen.append(list(ctx.neighbours.items()))

    network = LocalNetwork(Looking, links={(1, 4): 5, (1, 0): 2, (1, 3): 1, (3, 2): 9})
    network.call(1, "publish", 1)
    network.call(2, "publish", 2)
    network.play(5)
    assert seen == [[(0, 2), (3, 1), (4, 5)], [(3, 9)]]


def test_a_node_delivers_what_its_own_subscriptions_ask_for_while_they_stand() -> None:
    network = LocalNetwork(Neighbourly, links={(0, 1): 1, (0, 2): 1})
    network.call(1, "subscribe", 0, subscription_id=7, topic="t")
    network.call(2, "subscribe", 0, subscription_id=8, topic="u")
    for round_ in (5, 15):
        network.call(0, "publish", round_, matches=(7,))
    network.call(1, "unsubscribe", 10, subscription_id=7)
    found = network.play(20)
    assert [(node, round_) for node, round_, _ in found.delivered] == [(1, 6)]
    assert network.node(2).subscription == {8: OwnSubscription(8, "u", 0)}


def test_a_node_that_is_played_apart_is_told_what_to_do() -> None:
    with pytest.raises(LookupError, match="--rounds-per-job auto"):
        _ = Context(3, 1, {}, Internal()).neighbours


def test_a_call_without_a_subscription_is_refused() -> None:
    with pytest.raises(ValueError, match="call publish 2 names no subscription"):
        OwnSubscriptions.add({}, Call("publish", 2))
