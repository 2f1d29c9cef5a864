"""The sequential program of the δ protocol: pinned cases, random schedules within δ, and a checker that works."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from oracles.delta import forwarding
from oracles.delta.checker import Checker
from oracles.delta.generator import random_run, random_schedule
from oracles.delta.messages import Multicast
from oracles.delta.network import Network, play
from oracles.delta.node import Entry, Node
from oracles.delta.schedule import Call, Crash, Schedule
from oracles.delta.view import Path

DETECTORS = ["identifier", "visited"]
EVER = {"guided", "bypasses", "resends", "duplicates", "PAR_SUB", "partners lost midway", "crashes while recovering"}


def line(length: int, delta: int, *crashes: Crash) -> Schedule:
    """A line whose last node subscribes in round 0 and whose first publishes in rounds 50 and 60."""
    calls = [Call(0, length - 1, "subscribe", 0)]
    calls += [Call(at, 0, "publish", seq, frozenset({0})) for seq, at in enumerate((50, 60))]
    links = {(n, n + 1): 1 for n in range(length - 1)}
    return Schedule(delta, links, calls, list(crashes), detection=5)


def violations(network: Network) -> list[str]:
    return Checker(network).violations()


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("delta", [0, 1, 2, 3])
def test_without_failures_rounds_and_messages_are_those_of_the_shortest_way(detector: str, delta: int) -> None:
    network = play(line(6, delta), detector)
    assert network.confirmations["subscribe", 5, 0] == 2 * 5
    assert network.deliveries == [(5, 0, 0, 55), (5, 0, 1, 65)]
    assert network.confirmations["publish", 0, 0] == 60
    assert network.count["duplicates"] == 0
    assert violations(network) == []


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("delta", [1, 2, 3])
def test_a_chain_of_delta_failed_nodes_is_bypassed(detector: str, delta: int) -> None:
    crashes = [Crash(n, 51, None) for n in range(1, 1 + delta)]
    network = play(line(6, delta, *crashes), detector)
    assert [row[:3] for row in network.deliveries] == [(5, 0, 0), (5, 0, 1)]
    assert violations(network) == []


@pytest.mark.parametrize("delta", [0, 1, 2])
def test_a_chain_of_more_than_delta_failed_nodes_cuts_the_tree(delta: int) -> None:
    crashes = [Crash(n, 51, None) for n in range(1, 2 + delta)]
    network = play(line(6, delta, *crashes), "visited")
    assert network.deliveries == []
    assert any(row.startswith("confirmed in") for row in violations(network))


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_node_that_comes_back_holds_what_one_that_never_failed_holds(detector: str) -> None:
    crashed = line(6, 1, Crash(2, 2, 30), Crash(4, 40, 45), Crash(2, 52, 58))
    network, undisturbed = play(crashed, detector), play(line(6, 1), detector)
    assert violations(network) == []
    for name, node in network.nodes.items():
        assert node.view.marks == undisturbed.nodes[name].view.marks
        assert node.entries == undisturbed.nodes[name].entries
    assert [row[:3] for row in network.deliveries] == [row[:3] for row in undisturbed.deliveries]


def overtaken() -> Schedule:
    """Node 2 tells node 3 of subscription 1 in a message, of 0 in its PAR_SUB; it crashes before that arrives."""
    calls = [Call(10, 4, "subscribe", 0), Call(15, 4, "subscribe", 1)]
    links = {(2, 4): 1, (2, 3): 1, (4, 6): 30}
    crashes = [Crash(3, 5, 15), Crash(2, 17, None)]
    return Schedule(2, links, calls, crashes, detection=3, low_priority=10)


@pytest.mark.parametrize("detector", DETECTORS)
def test_what_an_overtaken_and_lost_par_sub_held_comes_as_an_older_message(detector: str) -> None:
    network = play(overtaken(), detector)
    assert network.count["partners lost midway"] == 1
    assert [(node, m.kind, m.subscription) for node, m, _ in network.refused] == [(3, "SUB", 0)]
    assert network.nodes[3].entries == {0: Entry(4, 2), 1: Entry(4, 2)}
    assert violations(network) == []


def test_refusing_it_outright_loses_a_confirmed_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(node: Node, m: Multicast) -> None:
        node.network.refused.append((node.name, m, False))

    monkeypatch.setattr(forwarding, "refuse", refuse)
    found = violations(play(overtaken(), "visited"))
    assert any(row.startswith("first copy judged a duplicate at 3") for row in found)
    assert any(row.startswith("Level-2 at 3 for 0 of 4: holds None") for row in found)


@pytest.mark.parametrize("detector", DETECTORS)
def test_random_schedules_within_delta_keep_every_guarantee(detector: str) -> None:
    total: Counter[str] = Counter()
    for seed in range(30):
        network = random_run(seed, detector)
        assert violations(network) == [], seed
        total += network.count
    assert total.keys() >= EVER


def test_the_same_schedule_replayed_gives_the_same_run() -> None:
    network = random_run(7, "visited")
    again = play(network.schedule, "visited")
    assert again.deliveries == network.deliveries
    assert again.confirmations == network.confirmations
    assert again.statuses == network.statuses


def test_both_detectors_deliver_the_same_where_nothing_fails() -> None:
    schedule = random_schedule(random.Random(3))
    first, second = (play(schedule, detector) for detector in DETECTORS)
    assert first.deliveries == second.deliveries != []


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_joiner_that_fails_before_its_queued_request_is_served_is_detected(detector: str) -> None:
    schedule = line(6, 2, Crash(4, 20, 31), Crash(5, 33, None))
    schedule.calls[0] = Call(0, 0, "subscribe", 0)
    schedule.calls += [Call(30, 5, "join", join_point=4), Call(45, 1, "subscribe", 1)]
    network = play(schedule, detector)
    assert violations(network) == []
    assert [row[:3] for row in network.deliveries] == [(0, 0, 0), (0, 0, 1)]


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("kind", ["subscribe", "unsubscribe"])
def test_a_joining_node_synchronises_again_with_a_recovered_join_point(detector: str, kind: str) -> None:
    """Node 0 finishes its SUB or UNSUB while node 1 is down, the only node that knows the joining node 2."""
    calls = [Call(10, 2, "join", join_point=1), Call(11, 0, kind, 0), Call(100, 2, "publish", 0, frozenset({0}))]
    calls += [Call(0, 0, "subscribe", 0)] if kind == "unsubscribe" else []
    calls.sort(key=lambda one: one.round)
    schedule = Schedule(1, {(0, 1): 3, (1, 2): 1}, calls, [Crash(1, 13, 15)], detection=4, low_priority=0)
    network = play(schedule, detector)
    assert violations(network) == []
    assert network.nodes[2].entries == ({0: Entry(0, 2)} if kind == "subscribe" else {})
    assert [row[:3] for row in network.deliveries] == ([(0, 2, 0)] if kind == "subscribe" else [])


def test_an_old_bypass_that_jumps_over_a_recovered_node_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = line(6, 1, Crash(2, 2, 30))
    assert violations(play(schedule, "visited")) == []

    def farthest(node: Node, path: Path) -> int | None:
        return next((x for x in reversed(path[1:]) if x in node.connections), None)

    monkeypatch.setattr(Node, "closest", farthest)
    assert any("skipped at 2" in row for row in violations(play(schedule, "visited")))


def lose(network: Network) -> None:
    network.deliveries.pop()


def repeat(network: Network) -> None:
    network.deliveries.append(network.deliveries[0])


def forget_entry(network: Network) -> None:
    network.nodes[3].entries.clear()


def forget_link(network: Network) -> None:
    network.nodes[3].view.clear()


def unconfirm(network: Network) -> None:
    del network.confirmations["publish", 0, 1]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lose, "confirmed in"),
        (repeat, "delivered 2 times"),
        (repeat, "out of order"),
        (forget_entry, "Level-2 at 3"),
        (forget_link, "Eq. (1) at 3"),
        (unconfirm, "never confirmed"),
    ],
)
def test_the_checker_finds_a_planted_violation(spoil: Callable[[Network], None], words: str) -> None:
    network = play(line(6, 2, Crash(2, 51, 70)), "visited")
    assert violations(network) == []
    spoil(network)
    assert any(words in row for row in violations(network))
