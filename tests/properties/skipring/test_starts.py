"""Arbitrary starts reach the legitimate state and stay there; in the end all have all publications (section 5)."""

from __future__ import annotations

import pytest
from support.skipring import INTERVAL, TOPIC, Outcome, arbitrary_run, converge, network, rounds, state_of

from udfs.skipring.labels import Label, label_of
from udfs.skipring.legitimate import Convergence
from udfs.skipring.start import CORRUPTIONS
from udfs.skipring.supervisor import repaired

STARTS = (*CORRUPTIONS, "arbitrary")
SIZES = (1, 2, 3, 5, 8, 13, 24)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("seed", range(7))
def test_every_start_converges_and_stays(start: str, seed: int) -> None:
    found = arbitrary_run(SIZES[seed], seed, start)
    assert found.is_right, found


@pytest.mark.parametrize("seed", range(12))
def test_starts_with_crashes_converge_and_stay(seed: int) -> None:
    found = arbitrary_run(4 + seed, 100 + seed, has_crashes=True)
    assert found.is_right, found


@pytest.mark.parametrize("seed", range(3))
def test_delays_of_many_intervals(seed: int) -> None:
    played = network(8, n_others=2, seed=seed, start="arbitrary", max_delay=6 * INTERVAL)
    found = converge(played, 400 * INTERVAL, after=20 * INTERVAL)
    assert found.clean_round is not None
    assert found.broken_round is None


@pytest.mark.parametrize("start", STARTS)
def test_starts_are_what_they_say(start: str) -> None:
    played = network(8, n_others=2, seed=3, start=start, start_publications=6)
    found = converge(played, 0)
    assert (found.clean_round is None) == (start != "tries")


def test_a_start_follows_from_its_seed() -> None:
    outcomes: list[Outcome] = [arbitrary_run(6, seed) for seed in (4, 4, 5)]
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_the_state_is_legitimate_from_the_explicit_round_on() -> None:
    n_broken = 0
    for seed in range(20):
        played, found, legitimate = network(8, seed=seed, start="messages"), Convergence(), []
        for number in rounds(played, 80 * INTERVAL):
            snapshot = state_of(TOPIC, played.up)
            found.observe(number, snapshot, played.in_flight)
            legitimate.append(snapshot.explicit_problem() is None)
        assert found.explicit_round is not None
        assert all(legitimate[found.explicit_round :])
        assert not found.explicit_round or not legitimate[found.explicit_round - 1]
        n_broken += legitimate.index(True) < found.explicit_round
    assert n_broken


def test_stale_messages_about_anybody_break_the_state_before_it_is_clean() -> None:
    rounds = []
    for seed in range(20):
        found = converge(network(8, seed=seed, start="messages"), 400 * INTERVAL)
        assert found.explicit_round is not None
        assert found.clean_round is not None
        rounds.append(found.clean_round - found.explicit_round)
    assert max(rounds) > 0


def far(label: Label) -> Label:
    """Returns a long label just above another one, for which action (ii) hardly ever comes."""
    return Label(20, (label.numerator << (20 - label.bits)) + 1)


def test_a_ring_that_the_supervisor_does_not_know_asks_by_its_minimum() -> None:
    played = network(8, seed=1)
    for node in range(1, 9):
        own = played.node(node).subscription[TOPIC]
        own.label = far(own.label)
        own.short = {}
        for one in own.on_ring():
            one.label = far(one.label)
    played.node(-1).database.clear()
    found = converge(played, 200 * INTERVAL)
    assert found.clean_round is not None
    requests = [one.message.reason for one in played.rows.handled if one.kind == "GetConfiguration"]
    assert requests[0] == "minimum"


def test_a_subscriber_that_knows_only_crashed_ones_asks_after_a_silence() -> None:
    probe = network(8, seed=1)
    lost = probe.node(-1).database[TOPIC].entries[label_of(6)]
    dead = probe.node(lost).subscription[TOPIC].ring_nodes()
    played = network(8, seed=1)
    for node in dead:
        played.crash(node, 0)
    database = played.node(-1).database[TOPIC]
    database.entries = repaired(database.entries, {lost})
    for node in range(1, 9):
        played.node(node).subscription[TOPIC].delete(lost)
    own = played.node(lost).subscription[TOPIC]
    own.label, own.short = far(own.label), {}
    found = converge(played, 200 * INTERVAL)
    assert found.clean_round is not None
    requests = [one for one in played.rows.handled if one.kind == "GetConfiguration" and one.src == lost]
    assert requests[0].message.reason == "silence"
    assert requests[0].sent_round > 8 * INTERVAL
