"""Dispatchers of protocol ``epidemic`` on a network without an engine: caches, gossip timers, reconfiguration."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from pipelines.protocols.epidemic import EpidemicSettings
from udfs.epidemic.dispatcher import CachedEvent, DispatcherRound
from udfs.epidemic.forwarding import discard
from udfs.epidemic.program import Epidemic
from udfs.nodes.context import Context, Internal
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import Flight, RoundDue

LINE = {(0, 1): 1, (1, 2): 1}


def network(links: dict[tuple[int, int], int], lost: set[tuple[int, int]] | None = None, **settings: Any) -> Any:
    """Returns a network of dispatchers.

    Args:
        links: The links.
        lost: The events that are lost on the link that they reach last: the round of sending and the receiver.
        settings: Settings of the protocol.
    """

    def strike(sent: list[Flight]) -> list[Flight]:
        return [
            one._replace(fate="lost_link") if one.kind == "EVENT" and (one.sent_round, one.dst) in (lost or ()) else one
            for one in sent
        ]

    return LocalNetwork(
        Epidemic, links=links, settings=EpidemicSettings(**settings).model_dump() | {"seed": 1}, strike=strike
    )


def rounds_of(played: Any, kind: str, src: int) -> list[int]:
    """Returns the rounds in which a dispatcher sends messages of a kind."""
    return sorted({one.sent_round for one in played.rows.handled if (one.kind, one.src) == (kind, src)})


@pytest.mark.parametrize("eviction", ["oldest", "foreign_first", "random"])
def test_a_full_cache_keeps_what_its_policy_says(eviction: str) -> None:
    """For any content and number of new events the cache keeps its bound, and own events while it has foreign ones."""
    buffer, draw = 5, random.Random(eviction)
    settings = {"seed": 1, "buffer": buffer, "eviction": eviction}
    victims = set()
    for node in range(40):
        size = draw.randrange(1, 12)
        dispatcher = Epidemic()
        events = [CachedEvent(0, n, n, draw.random() < 0.5, 0, 0, 0, (), ()) for n in range(size)]
        dispatcher.cache = {(0, one.source_seq): one for one in events}
        due = RoundDue((), ())
        discard(DispatcherRound(dispatcher, Context(node, 1, settings, Internal()), due, n_cached=1))
        has = [one.position for one in dispatcher.cache.values()]
        newest = sorted(events, key=lambda one: (one.is_own or eviction == "oldest", one.position))[-buffer:]
        assert len(has) == min(size, buffer)
        if eviction != "random":
            assert sorted(has) == sorted(one.position for one in newest)
        victims |= {one.position for one in events} - set(has)
    assert len(victims) > 3


def test_gossip_rounds_of_a_pause_are_skipped_and_keep_their_phase() -> None:
    """A timer that expires during a pause starts no gossip round. The next gossip round is whole intervals later."""
    found = {}
    for is_paused in (False, True):
        played = network(LINE, recovery="push", gossip_rounds=7, push_rounds=60, p_forward=0.0)
        played.call(2, "subscribe", 0, subscription_id=0, topic="t")
        played.call(0, "publish", 10, topic="t", matches=(0,))
        if is_paused:
            played.pause(0, 20, 40)
        played.play(200)
        found[is_paused] = rounds_of(played, "GOSSIP", 0)
    assert {right - left for left, right in pairwise(found[False])} == {7}
    assert found[True] == [round_ for round_ in found[False] if not 20 <= round_ < 40]
    assert len(found[False]) - len(found[True]) in (2, 3)


def test_a_dispatcher_that_recovers_hears_the_patterns_of_its_neighbours_again() -> None:
    """A crash loses the subscription table; subscription forwarding restores it (rule E14)."""
    played = network(LINE)
    played.call(0, "subscribe", 0, subscription_id=4, topic="a")
    played.call(1, "subscribe", 0, subscription_id=5, topic="b")
    played.crash(1, 20, 30)
    played.play(25)
    assert 1 not in played.up
    played.play(60)
    tables = {at: sorted(node.routing_entry) for at, node in played.up.items()}
    assert tables == {0: [(4, 0), (5, 1)], 1: [(4, 0), (5, 1)], 2: [(4, 1), (5, 1)]}
    assert rounds_of(played, "SUB", 0) == [0, 30]


def test_the_ends_of_a_replaced_link_repair_their_tables_while_they_pause() -> None:
    """Entries over the old link are dropped, and the ends of the new link send each other all patterns."""
    played = network(LINE)
    played.call(2, "subscribe", 0, subscription_id=4, topic="a")
    played.call(0, "subscribe", 0, subscription_id=5, topic="b")
    played.replace((1, 2), (0, 2), 20)
    played.pause(2, 18, 30)
    played.play(60)
    tables = {at: sorted(node.routing_entry) for at, node in played.up.items()}
    assert tables == {0: [(4, 2), (5, 0)], 1: [(4, 0), (5, 0)], 2: [(4, 2), (5, 0)]}
    assert {20} <= {*rounds_of(played, "SUB", 2), *rounds_of(played, "UNSUB", 1)}


@pytest.mark.parametrize("recovery", ["push", "subscriber_pull", "publisher_pull", "combined_pull", "push_pull"])
def test_every_strategy_recovers_a_lost_event(recovery: str) -> None:
    """The second of three events is lost on its last link. Two other dispatchers have it, one of them a subscriber."""
    played = network({**LINE, (1, 3): 1}, {(12, 2)}, recovery=recovery, gossip_rounds=4, p_forward=1.0, fanout=3)
    for number, node in ((4, 2), (5, 3)):
        played.call(node, "subscribe", 0, subscription_id=number, topic="t")
    for round_ in (9, 11, 13):
        played.call(0, "publish", round_, topic="t", matches=(4, 5))
    played.play(400)
    came = {one.source_seq: round_ for at, round_, one in played.rows.delivered if at == 2}
    assert came[1] == 11
    assert came[3] == 15
    assert came[2] > 13
    assert {one.kind for one in played.rows.handled if one.dst == 2} >= {"REPLY"}


def test_an_interval_is_halved_after_losses_and_doubled_without() -> None:
    """Adaptive gossip (section 5): without losses the interval doubles up to its bound."""
    played = network(LINE, recovery="push", gossip_rounds=4, gossip_rounds_max=16, adaptive=True, push_rounds=90)
    played.call(2, "subscribe", 0, subscription_id=0, topic="t")
    played.call(0, "publish", 10, topic="t", matches=(0,))
    played.play(300)
    sent = rounds_of(played, "GOSSIP", 0)
    assert [right - left for left, right in pairwise(sent)][:4] == [8, 16, 16, 16]
