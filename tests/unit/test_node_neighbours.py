"""What a node program is told of its neighbours and its own subscriptions."""

from __future__ import annotations

import pytest

from udfs.nodes.calls import CALLS, PublishCall
from udfs.nodes.context import Context
from udfs.nodes.local import LocalNetwork
from udfs.nodes.program import LocalSubscription, PublicationCopy, SubscribingNode
from udfs.nodes.records import message


@message("PUB")
class Pub(PublicationCopy):
    """A publication."""


class Neighbourly(SubscribingNode):
    """A node that tells its neighbours of a publication, and delivers what its application asks for."""

    messages = (Pub,)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        ctx.send_all(Pub.of(call, ctx.node).onward())

    def on_pub(self, m: Pub, src: int, ctx: Context) -> None:
        self.deliver(m, ctx)


def test_neighbours_come_in_ascending_order_with_the_latency_of_their_links() -> None:
    seen = []

    class Looking(Neighbourly):
        def call_publish(self, call: PublishCall, ctx: Context) -> None:
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
    assert network.node(2).subscription == {8: LocalSubscription(8, "u", 0)}


def test_subscriptions_are_numbered_and_publications_match_those_of_their_topic() -> None:
    network = LocalNetwork(Neighbourly, links={(0, 1): 1, (0, 2): 1})
    for node, topic in ((1, "t"), (2, "u"), (2, "t")):
        network.call(node, "subscribe", 0, topic=topic)
    network.call(0, "publish", 5, topic="t")
    network.call(0, "publish", 6, topic="u")
    found = network.play(20)
    assert [(node, round_) for node, round_, _ in found.delivered] == [(1, 6), (2, 6), (2, 7)]
    assert network.node(2).subscription.keys() == {1, 2}


def test_a_neighbour_can_be_left_out() -> None:
    class Besides(Neighbourly):
        def call_publish(self, call: PublishCall, ctx: Context) -> None:
            ctx.send_all(Pub.of(call, ctx.node), besides=2)

    network = LocalNetwork(Besides, links={(0, 1): 1, (0, 2): 1, (0, 3): 1})
    network.call(0, "publish", 5, topic="t")
    assert [one.dst for one in network.play(9).handled] == [1, 3]


def test_a_call_has_the_fields_of_its_kind_and_no_others() -> None:
    with pytest.raises(TypeError, match="subscription_id"):
        CALLS["publish"](1, 0, subscription_id=3)
    with pytest.raises(TypeError, match="peer"):
        CALLS["steer"](1, 0)
