"""The nodes of `ginger` at the start, and subscriptions (sections 3.1, 3.4 and 4.2.1), without an engine.

B0 - B1 - B2        clients: C8 at B2, C9 at B1; B3 is the other child of B1
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from support.ginger.single import SETTINGS, Got, around, kept, play, sent

from udfs.ginger import messages as ms
from udfs.ginger.program import Ginger
from udfs.ginger.records import Member
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import NodeInfo

LATENCY = {(0, 1): 3, (1, 2): 4, (1, 3): 2, (1, 9): 5, (2, 8): 1}
NODES = [NodeInfo(node, f"{'BC'[node > 7]}{node}", ("broker", "client")[node > 7]) for node in (0, 1, 2, 3, 8, 9)]


def network(links: dict[tuple[int, int], int] = LATENCY, **settings: Any) -> LocalNetwork:
    return LocalNetwork(Ginger, nodes=NODES, links=links, settings={**SETTINGS, **settings})


def contacts(nodes: LocalNetwork) -> dict[int, list[tuple[int, int, bool]]]:
    return {
        at: [(row.contact, row.latency_rounds, row.is_joining) for row in node.contact.values()]
        for at, node in nodes.up.items()
        if node.contact
    }


def test_brokers_may_ask_those_that_they_link_to_and_joiners_their_join_point() -> None:
    """3 joins at 1, and also has a link to 0. Nodes keep buffers because a broker joins."""
    nodes = network({**LATENCY, (0, 3): 6})
    nodes.call(3, "join", 9, join_point=1)
    assert contacts(nodes) == {
        0: [(1, 3, False), (3, 6, False)], 1: [(0, 3, False), (2, 4, False), (3, 2, False)], 2: [(1, 4, False)],
        3: [(1, 2, True)],
    }  # fmt: skip
    assert {at: node.repair.is_present for at, node in nodes.up.items()} == {
        0: True, 1: True, 2: True, 3: False, 8: True, 9: True,
    }  # fmt: skip
    assert all(node.repair.is_mended for node in nodes.up.values())
    assert not any(node.repair.is_mended for node in network().up.values())


@pytest.mark.parametrize(("root", "parents"), [(None, {1: 0, 2: 1, 3: 1}), ("B1", {0: 1, 2: 1, 3: 1})])
def test_the_root_is_the_first_broker_unless_another_is_named(root: str | None, parents: dict[int, int]) -> None:
    nodes = network(root=root)
    near = {(at, row.relationship): row for at, node in nodes.up.items() for row in node.neighbour.values()}
    assert {at: row.neighbour for (at, kind), row in near.items() if kind == "parent"} == parents
    assert (near[9, "edge"].neighbour, near[9, "edge"].latency_rounds) == (1, 5)
    assert [at for at, node in nodes.up.items() if node.repair.is_root] == [int((root or "B0")[1:])]


def test_neighbours_are_watched_where_brokers_crash() -> None:
    nodes = network()
    nodes.crash(2, 9)
    nodes.play(20)
    down = [(one.src, one.sent_round, one.due_round) for one in nodes.rows.handled if one.kind == "NeighborDown"]
    assert down == [(8, 9, 9 + 1 + 5), (1, 9, 9 + 4 + 5)]


def test_a_client_that_subscribes_to_a_topic_may_publish_on_it() -> None:
    nodes = network()
    for kind, topic in (("publish", "t"), ("subscribe", "t"), ("publish", "t"), ("publish", "s")):
        nodes.call(9, kind, 50, topic=topic)
    used = [(row.topic, row.usage) for row in nodes.node(9).client_topic.values()]
    assert used == [("s", "published"), ("t", "subscribed")]


def subscribed(*clients: tuple[int, str]) -> LocalNetwork:
    nodes = network(max_hops=2)
    for number, (client, topic) in enumerate(clients):
        nodes.call(client, "subscribe", 0, topic=topic, subscription_id=number)
    nodes.play(100)
    return nodes


def test_subscribe_goes_to_all_brokers_with_the_way_so_far() -> None:
    """The path has at most two entries: the last broker and the one before it. The way has all brokers."""
    nodes = subscribed((8, "t"))
    flood = [one for one in nodes.rows.handled if one.kind == "Subscribe"]
    assert [(one.src, one.dst, one.message.edge, one.message.path, one.message.way) for one in flood] == [
        (8, 2, None, (), ()),
        (2, 1, 2, ((2, 0, "up"),), (2,)),
        (1, 3, 2, ((1, 0, "down"), (2, 1, "up")), (2, 1)),
        (1, 0, 2, ((1, 0, "up"), (2, 1, "up")), (2, 1)),
    ]  # fmt: skip


def test_a_path_has_no_brokers_that_are_max_hops_away_or_more_and_a_way_has_all() -> None:
    """Of four brokers 7 is the first, three hops before 1."""
    path = ms.Step(2, 0, "up"), ms.Step(5, 1, "up"), ms.Step(7, 2, "up")
    rows = play(1, around(0, (2,)), Got(2, ms.Subscribe(9, 1, "t", 5, 7, path, (7, 5, 2))))
    assert sent(rows, "edge", "path", "way") == [
        ("Subscribe", 0, 7, ((1, 0, "up"), (2, 1, "up"), (5, 2, "up")), (7, 5, 2, 1)),
    ]  # fmt: skip


def test_members_that_a_parent_has_told_stay_when_somebody_else_subscribes() -> None:
    """1 has joined the tree and knows no path to the sub-tree, so it stores the path to the edge broker."""
    rows = play(1, around(0, (2,)), Member("t", {3, 8}), Got(2, ms.Subscribe(9, 1, "t", 5, 7, (), (7, 2))))
    assert kept(rows, "member", "topic", "members", "approach") == [("t", {3, 7, 8, 9}, [1, 2, 7])]


def test_a_subscription_is_confirmed_when_all_brokers_have_answered() -> None:
    """The farthest broker is 8 rounds away. 2 answers 8 after 1 has answered, and 1 answers after 0 and 3."""
    nodes = subscribed((8, "t"))
    answers = [(one.src, one.dst, one.due_round) for one in nodes.rows.handled if one.kind == "Subscribed"]
    assert answers == [(3, 1, 9), (0, 1, 11), (1, 2, 15), (2, 8, 16)]
    assert (8, 1, 16, "confirmed") in nodes.rows.calls
    assert {row.n_waiting for at in (0, 1, 2, 3) for row in nodes.node(at).subscribe.values()} == {0}


def test_subscriptions_that_are_under_way_at_once_are_confirmed_each_when_its_own_answers_are_there() -> None:
    """The subscription of 8 takes as long as alone. For that of 9 the farthest broker is 2, nine rounds away."""
    nodes = subscribed((8, "t"), (9, "t"))
    assert [call for call in nodes.rows.calls if call[3] == "confirmed"] == [
        (8, 1, 16, "confirmed"), (9, 1, 18, "confirmed"),
    ]  # fmt: skip
    assert {row.n_waiting for at in (0, 1, 2, 3) for row in nodes.node(at).subscribe.values()} == {0}


def test_where_nobody_fails_nothing_is_remembered_of_repairs() -> None:
    """All nodes are present and level, and one is the root. No request, vote or failure is stored."""
    nodes = subscribed((8, "t"), (9, "u"))
    for at, node in nodes.up.items():
        known = {one.name for of in (node.repair, node.election) for one in fields(of) if getattr(of, one.name)}
        assert known == {"role", "is_present", "is_level", *(("is_root",) if at == 0 else ())}


def test_a_broker_waits_for_all_brokers_that_it_asks_and_answers_once() -> None:
    """1 is below 0 and above 2. An answer to an unknown Subscribe has no effect."""
    first = play(1, around(0, (2,), (9,)), Got(9, ms.Subscribe(9, 1, "t", 5)))
    assert (sent(first), kept(first, "subscribe", "n_waiting")) == ([("Subscribe", 0), ("Subscribe", 2)], [2])
    second = play(1, first, Got(0, ms.Subscribed(9, 1, 5)), Got(2, ms.Subscribed(9, 1, 6)), round_=8)
    assert (sent(second), kept(second, "subscribe", "n_waiting")) == ([], [1])
    third = play(1, second, Got(2, ms.Subscribed(9, 1, 5)), round_=9)
    assert sent(third, "subscription_id") == [("Subscribed", 9, 5)]


def sub_trees(nodes: LocalNetwork) -> dict[int, list[tuple[str, int, str]]]:
    rows = {
        at: [(r.topic, r.neighbour, r.relationship) for r in node.subscriber.values()] for at, node in nodes.up.items()
    }
    return {at: of for at, of in rows.items() if of}


def test_the_sub_tree_of_a_topic_is_between_the_edge_brokers_of_its_subscribers() -> None:
    """t has clients at 1 and 2, u has one client. All brokers know the members."""
    nodes = subscribed((8, "t"), (9, "t"), (8, "u"))
    assert sub_trees(nodes) == {
        1: [("t", 2, "broker"), ("t", 9, "client")],
        2: [("t", 1, "broker"), ("t", 8, "client"), ("u", 8, "client")],
    }
    members = [{row.topic: row.members for row in nodes.node(at).member.values()} for at in range(4)]
    assert members == [{"t": {1, 2, 8, 9}, "u": {2, 8}}] * 4


def test_a_broker_is_in_a_sub_tree_between_two_others_in_any_order_of_messages() -> None:
    """C10 is at 0 and C11 at 3. Broker 1 is on the path to 2, so it is in the sub-tree without clients of its own."""
    links = {**{pair: 1 for pair in LATENCY if pair != (1, 9)}, (0, 10): 1, (3, 11): 1}
    infos = [*(info for info in NODES if info.node != 9), *(NodeInfo(c, f"C{c}", "client") for c in (10, 11))]
    for order in ((8, 10, 11), (10, 11, 8), (11, 8, 10)):
        nodes = LocalNetwork(Ginger, nodes=infos, links=links, settings=SETTINGS)
        for number, client in enumerate(order):
            nodes.call(client, "subscribe", 3 * number, topic="t", subscription_id=number)
        nodes.play(100)
        assert sub_trees(nodes) == {
            0: [("t", 1, "broker"), ("t", 10, "client")],
            1: [("t", 0, "broker"), ("t", 2, "broker"), ("t", 3, "broker")],
            2: [("t", 1, "broker"), ("t", 8, "client")], 3: [("t", 1, "broker"), ("t", 11, "client")],
        }  # fmt: skip
        assert {frozenset(nodes.node(at).member["t"].members) for at in range(4)} == {
            frozenset((0, 1, 2, 3, 8, 10, 11))
        }
