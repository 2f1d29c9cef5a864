"""Protocol ginger on random trees whose brokers crash, the root among them: all guarantees hold within the views.

Without an engine in `ginger_nodes`; then some of these runs on one, with the same deliveries. tests/perf/ginger_runs.py
makes thousands of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from ginger_nodes import PARENT, operation_with_crash, played
from ginger_support import (
    FIRST_ROUND,
    Crashing,
    bank_with_crashes,
    crashing,
    delivery_orders,
    n_refused,
)
from support import audited, broken, rows, run_all, run_configs

from pipelines.protocols.ginger.audits.bank import OPERATION
from pipelines.query import StoreReader
from pipelines.session import Session
from pipelines.store import Store

SOON = FIRST_ROUND + 100
N_BANKS = 10
N_RUNS = 30


@pytest.mark.parametrize("n_crashes", [1, 2])
def test_nodes_keep_all_guarantees_within_the_views(n_crashes: int) -> None:
    networks = {seed: played(crashing(seed, n_crashes)) for seed in range(250)}
    within = {seed: network for seed, network in networks.items() if not network.isolated}
    assert {seed: found for seed, network in within.items() if (found := network.violations())} == {}
    assert len(within) > 180
    assert sum("RootElection" in network.kinds for network in within.values()) > 20


def test_a_total_order_operation_is_finished_whatever_broker_fails_when() -> None:
    """Every broker, from before its first message to after its last one: all clients deliver it, its own too."""
    networks = {(b, at): operation_with_crash(b, at) for b in PARENT for at in range(20)}
    assert {case: network.isolated for case, network in networks.items() if network.isolated} == {}
    assert {case: found for case, network in networks.items() if (found := network.violations())} == {}
    late = [network for network in networks.values() if network.last_delivery > FIRST_ROUND + 25]
    assert len(late) > 30


def short(draw: Callable[[int, int], Crashing], count: int) -> list[Crashing]:
    """Those runs of seeds from 0 on that are soon quiet: a job costs as its longest run."""
    drawn = (draw(seed, 1 + seed % 2) for seed in itertools.count())
    return list(itertools.islice((case for case in drawn if played(case).last_round < SOON), count))


@pytest.fixture(scope="module")
def cases() -> list[Crashing]:
    return short(crashing, N_RUNS)


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory, cases: list[Crashing]) -> Store:
    configs = run_configs([case.scenario for case in [*cases, *short(bank_with_crashes, N_BANKS)]])
    return run_all(configs, sail, tmp_path_factory.mktemp("ginger_crashes"))


def test_the_engine_delivers_as_the_nodes_do_by_themselves(store: Store, cases: list[Crashing]) -> None:
    orders = delivery_orders(store)
    n_compared = 0
    for run, case in enumerate(cases):
        for client, log in played(case).logs.items():
            wanted = [m.id for what, m in log if what == "deliver"]
            assert orders.get((run, f"C{client}"), []) == wanted, (run, client)
            n_compared += len(wanted)
    assert n_compared > 20 * N_RUNS


def test_all_guarantees_hold_within_the_views(store: Store) -> None:
    report = audited(store, "ginger")
    assert broken(report) == {}
    assert report.verdict == "valid"
    assert {beyond.reason for beyond in report.beyond} <= {"a node found nobody in its view to take it in"}
    assert sum(run.within_bound for run in report.runs) > len(report.runs) // 2
    report.release()


def test_trees_were_mended_and_messages_sent_again(store: Store) -> None:
    kinds = {kind for (kind,) in rows(store, "message", "kind")}
    assert {"NeighborDown", "ParentRequest", "LostMessageRequest", "LostMessages", "RootElection", "Failed"} <= kinds
    answers = [row for row in rows(store, "message", "kind", "body") if row[0] == "LostMessages"]
    assert any('"events": []' not in body for _, body in answers)


def test_some_replicas_refuse_what_an_account_cannot_pay(store: Store) -> None:
    operations = StoreReader(store.session, store.root).sql(OPERATION)
    assert operations.select("run_id").distinct().count() == N_BANKS
    assert 0 < n_refused(store) < operations.count()
