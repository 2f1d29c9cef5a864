"""Whole runs: several topics and supervisors, joins, leaves, crashes, references to nodes that are gone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.skipring import INTERVAL, SETTINGS, TOPIC, converge, has_same_tries, network, sent, state_of

from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import NodeInfo, ProgramError
from udfs.skipring.labels import label_of
from udfs.skipring.program import SkipRing

HORIZON = 200 * INTERVAL


def test_everybody_joins_by_calls() -> None:
    played = network(16, start="empty")
    found = converge(played, HORIZON, after=10 * INTERVAL)
    assert found.clean_round is not None
    assert found.broken_round is None


def test_labels_are_given_in_the_order_of_requests() -> None:
    played = network(12, start="empty", max_delay=1)
    played.play(2 * INTERVAL)
    first: dict[int, None] = {one.src: None for one in played.rows.handled if one.kind == "Subscribe"}
    assert list(played.node(-1).database[TOPIC].entries.items()) == [
        (label_of(index), node) for index, node in enumerate(first)
    ]


def test_topics_have_rings_of_their_own_at_several_supervisors() -> None:
    topics = tuple(f"topic{number}" for number in range(6))
    played = network(8, n_supervisors=3, topics=topics, start="empty")
    played.call(3, "unsubscribe", 10 * INTERVAL, subscription_id=3)
    played.call(4, "publish", 20 * INTERVAL, topic="topic1")
    found = {topic: converge(played, HORIZON, topic=topic) for topic in topics}
    played.play(HORIZON)
    assert all(one.clean_round is not None for one in found.values())
    assert all(state_of(topic, played.up).explicit_problem() is None for topic in topics)
    held = [row for one in (1, 2, 3) for row in played.node(-one).database.values()]
    assert sorted(row.topic for row in held) == [*topics]
    assert {row.topic: len(row.entries) for row in held} == {topic: 7 if topic == "topic0" else 8 for topic in topics}
    assert sorted(at for at, _, _ in played.rows.delivered) == list(range(1, 9))


def test_a_leaver_is_forgotten() -> None:
    played = network(9)
    played.call(4, "unsubscribe", 2 * INTERVAL, subscription_id=4)
    played.play(2 * INTERVAL)
    found = converge(played, HORIZON, after=20 * INTERVAL)
    assert found.clean_round is not None
    assert found.broken_round is None
    assert played.node(4).subscription[TOPIC].neighbours() == []
    assert all(4 not in own.subscription[TOPIC].neighbours() for node, own in played.up.items() if node not in (4, -1))


def test_from_the_start_only_first_subscriptions_are_made() -> None:
    played = network(5)
    played.call(4, "unsubscribe", INTERVAL, subscription_id=4)
    played.call(4, "subscribe", 40 * INTERVAL, subscription_id=99, topic=TOPIC)
    played.play(30 * INTERVAL)
    assert not played.node(4).subscription[TOPIC].wants
    played.play(60 * INTERVAL)
    assert [*played.node(4).interest] == [99]
    assert state_of(TOPIC, played.up).explicit_problem() is None


def test_who_subscribes_again_has_all_publications_once() -> None:
    played = network(5, start_publications=2)
    played.call(4, "unsubscribe", INTERVAL, subscription_id=4)
    played.call(2, "publish", 30 * INTERVAL, topic=TOPIC)
    played.call(4, "subscribe", 40 * INTERVAL, subscription_id=99, topic=TOPIC)
    played.play(100 * INTERVAL)
    assert state_of(TOPIC, played.up).explicit_problem() is None
    assert has_same_tries(TOPIC, played.up)
    assert sorted(at for at, _, _ in played.rows.delivered) == [1, 2, 3, 4, 5]


def test_a_joiner_gets_all_publications() -> None:
    played = network(6, n_others=1, start_until=0)
    for number in range(5):
        played.call(number + 1, "publish", INTERVAL, topic=TOPIC)
    played.call(7, "subscribe", 10 * INTERVAL, subscription_id=99, topic=TOPIC)
    played.play(60 * INTERVAL)
    assert sorted(one.source for at, _, one in played.rows.delivered if at == 7) == [1, 2, 3, 4, 5]
    assert has_same_tries(TOPIC, played.up)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_crashes_in_the_legitimate_state(n: int) -> None:
    played = network(n + 1)
    played.crash(2 if n > 1 else 1, 5)
    played.play(5)
    found = converge(played, HORIZON, after=20 * INTERVAL)
    assert found.clean_round is not None
    assert found.broken_round is None
    dead = 2 if n > 1 else 1
    last = max(one.sent_round for one in sent(played) if one.dst == dead)
    assert last < found.clean_round


def test_a_request_on_its_way_does_not_record_a_crashed_node_again() -> None:
    n_late = 0
    for seed in range(8):
        played = network(3, n_others=1, start_until=0, max_delay=30, seed=seed)
        played.call(4, "subscribe", 1, subscription_id=99, topic=TOPIC)
        played.crash(4, 12)
        played.play(100)
        n_late += any(one.kind == "Subscribe" and one.due_round > 12 + 6 for one in played.rows.handled)
        assert 4 not in played.node(-1).database[TOPIC].entries.values()
    assert n_late


def test_growing_ring_stays_legitimate_between_joins() -> None:
    starts = {node: node * 30 * INTERVAL for node in range(9, 17)}
    played = network(8, n_others=8, start_until=0)
    for node, start in starts.items():
        played.call(node, "subscribe", start, subscription_id=node, topic=TOPIC)
    for start, end in pairwise([*starts.values(), 520 * INTERVAL]):
        played.play(start)
        found = converge(played, end - 1, after=10 * INTERVAL)
        assert found.clean_round is not None
        assert found.broken_round is None


def test_the_detector_finds_what_is_wrong() -> None:
    played = network(4, seed=1)
    own = played.node(2).subscription[TOPIC]
    assert state_of(TOPIC, played.up).explicit_problem() is None
    held, own.short = own.short, {label_of(9): 1}
    assert state_of(TOPIC, played.up).explicit_problem() == "node 2 has wrong shortcuts"
    own.short, own.ring, kept = held, own.left or own.right, own.ring
    assert state_of(TOPIC, played.up).explicit_problem() == "node 2 has wrong neighbours on the ring"
    own.ring, own.label = kept, label_of(17)
    assert "does not have its label" in str(state_of(TOPIC, played.up).explicit_problem())
    own.wants = False
    assert "4 tuples, and 3 nodes have subscribed" in str(state_of(TOPIC, played.up).explicit_problem())


def test_a_run_needs_a_supervisor() -> None:
    made = LocalNetwork(SkipRing, nodes=[NodeInfo(1, "node1", "subscriber")], settings=SETTINGS)
    with pytest.raises(ProgramError, match=r"run 0, start: ValueError: .* needs a node of role supervisor"):
        made.play(1)


def test_a_call_names_its_topic() -> None:
    played = network(2)
    played.call(1, "publish", 3)
    with pytest.raises(ProgramError, match="names no topic"):
        played.play(4)


def test_nothing_is_added_to_a_run_under_way() -> None:
    played = network(2)
    played.node(1)
    with pytest.raises(ValueError, match="call publish of node 1 comes after the run has begun"):
        played.call(1, "publish", 3, topic=TOPIC)
