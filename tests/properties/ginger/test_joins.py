"""The future work of the Ginger thesis (section 6.1): brokers recover and join, and buffers are collected.

Without an engine in `support.ginger.nodes`; then some of these runs on one, with the same deliveries.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from support.ginger.nodes import played
from support.ginger.setups import FIRST_ROUND, Crashing, coming_back, delivery_orders, stored

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import audited, broken, rows
from udfs.ginger.messages import Failed

SOON = FIRST_ROUND + 100
N_RUNS = 16


def drawn(seed: int) -> Crashing:
    """Every other run collects what everybody has had."""
    return replace(coming_back(seed, seed % 3), collect_every=2 * (seed // 3 % 2))


def test_nodes_that_come_back_or_join_keep_all_guarantees() -> None:
    cases = {seed: drawn(seed) for seed in range(200)}
    within = {seed: network for seed, case in cases.items() if not (network := played(case)).beyond}
    assert {seed: found for seed, network in within.items() if (found := network.violations())} == {}
    assert len(within) > 150
    assert {status for network in within.values() for status in network.status.values()} == {"OPERATIONAL"}
    assert sum(len(cases[seed].until) for seed in within) > 100
    found = [flight.message for network in within.values() for flight in network.sent if flight.kind == "TopicJoined"]
    assert sum(message.told is not None for message in found) > 5
    assert sum(len(cases[seed].joins) for seed in within) > 100


def test_a_broker_that_is_back_tells_of_its_failure_itself() -> None:
    """B4 fails and recovers, and B2, the only one that knew that it had failed, fails before it tells anybody."""
    network = played(coming_back(254, 3))
    assert network.violations() == []
    assert Failed(4, incarnation=0) in [flight.message for flight in network.sent]


def test_a_sibling_that_was_not_known_is_counted_in_the_election() -> None:
    """B2 recovers below the root, which fails before B1 hears of it: B1 knows B2 as failed until B2's vote comes."""
    network = played(coming_back(864, 3))
    assert network.violations() == []
    votes = {(flight.src, flight.dst) for flight in network.sent if flight.kind == "RootElection"}
    assert {(1, 2), (2, 1)} <= votes


@pytest.mark.parametrize("seed", [466, 511, 1056])
def test_news_of_a_failure_before_the_present_connection_is_stale(seed: int) -> None:
    """A broker that is back says that it is no parent any more, and is taken in before the failure is reported."""
    assert played(coming_back(seed, 3)).violations() == []


def test_what_everybody_has_had_is_forgotten() -> None:
    """With any buffer, and brokers that fail; of nearly all messages nothing but runs of ids is left."""
    for size in (150, 2):
        cases = [replace(coming_back(seed, seed % 3), collect_every=1, buffer_size=size) for seed in range(60)]
        within = [network for case in cases if not (network := played(case)).beyond]
        assert [network.violations() for network in within if network.violations()] == []
        n_sent = sum(len(network.publication) for network in within)
        assert sum(len(network.buffered) for network in within) < n_sent // 5


@pytest.fixture(scope="module")
def cases() -> list[Crashing]:
    """Runs that are soon quiescent and have brokers that join or recover."""
    found = (case for seed in itertools.count() if (case := drawn(seed)).until or case.joins)
    return list(itertools.islice((case for case in found if played(case).last_round < SOON), N_RUNS))


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory, cases: list[Crashing]) -> Store:
    return stored(cases, sail, tmp_path_factory.mktemp("ginger_joins"))


def test_the_engine_delivers_as_the_nodes_do_by_themselves(store: Store, cases: list[Crashing]) -> None:
    orders = delivery_orders(store)
    for run, case in enumerate(cases):
        for client, log in played(case).logs.items():
            assert orders.get((run, f"C{client}"), []) == [m.id for what, m in log if what == "deliver"], (run, client)


def test_buffers_are_collected_where_the_settings_say_so(store: Store, cases: list[Crashing]) -> None:
    size = Counter(run for (run,) in rows(store, "state_metadata_buffer", "run_id"))
    collected = {run for run, case in enumerate(cases) if case.collect_every}
    assert {run for run, kind in rows(store, "message", "run_id", "kind") if kind == "Collect"} <= collected != set()
    of = {flag: sum(size[run] for run in range(N_RUNS) if (run in collected) == flag) for flag in (True, False)}
    assert of[True] < of[False] // 2


def test_all_guarantees_hold_and_the_new_brokers_are_in_the_tree(store: Store, cases: list[Crashing]) -> None:
    report = audited(store, "ginger")
    assert broken(report) == {}
    assert report.verdict == "valid"
    within = {run.run_id for run in report.runs if run.within_bound}
    told = {row[:3] for row in rows(store, "node_status", "run_id", "status", "node_id") if row[0] in within}
    for before in ("RECOVERING", "JOINING"):
        began = {(run, node) for run, status, node in told if status == before}
        assert began != set()
        assert began <= {(run, node) for run, status, node in told if status == "OPERATIONAL"}
