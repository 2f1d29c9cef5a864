"""Protocol ginger on random trees whose brokers crash, the root among them: all guarantees hold within the views.

Without an engine in `support.ginger.nodes`; then some of these runs on one, with the same deliveries.
tests/perf/ginger_runs.py makes thousands of them.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.ginger.nodes import PARENT, NodeNetwork, operation_with_crash, plain, played
from support.ginger.setups import (
    FIRST_ROUND,
    Crashing,
    bank_with_crashes,
    crashing,
    delivery_orders,
    n_refused,
    stored,
)

from pipelines.engines.session import Session
from pipelines.protocols.ginger.audits import OPERATION
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import audited, broken, rows

SOON = FIRST_ROUND + 100
N_BANKS = 10
N_RUNS = 24
N_SMALL = 6
SMALL = 2


@pytest.mark.parametrize("n_crashes", [1, 2])
def test_nodes_keep_all_guarantees_within_the_views(n_crashes: int) -> None:
    networks = {seed: played(crashing(seed, n_crashes)) for seed in range(250)}
    within = {seed: network for seed, network in networks.items() if not network.beyond}
    assert {seed: found for seed, network in within.items() if (found := network.violations())} == {}
    assert len(within) > (245 if n_crashes == 1 else 230)
    assert sum("RootElection" in network.kinds for network in within.values()) > 20


def sub_tree(network: NodeNetwork) -> set[tuple[int, int]]:
    """Brokers and their neighbours in the sub-tree of the topic."""
    assert (network.beyond, network.violations()) == ([], [])
    return {(b, neighbour) for b, node in network.nodes.items() for _, neighbour in node.subscriber}


def test_a_broker_outside_a_sub_tree_joins_it_to_take_in_those_who_are_in_it() -> None:
    """B1, where the sub-tree ends, fails; B0 is not in it, and nobody else is in the views of B2 and B3."""
    network = played(Crashing(plain({0: None, 1: 0, 2: 1, 3: 1}, {5: 2, 6: 3}), {1: FIRST_ROUND + 2}))
    assert sub_tree(network) == {(0, 2), (0, 3), (2, 0), (2, 5), (3, 0), (3, 6)}


def test_what_has_left_small_buffers_is_published_again() -> None:
    """Nothing is lost even with a single event in a buffer; clients are told of what was missing."""
    cases = [replace(crashing(seed, 2), buffer_size=1 + seed % 2) for seed in range(150)]
    within = {seed: network for seed, case in enumerate(cases) if not (network := played(case)).beyond}
    assert {seed: found for seed, network in within.items() if (found := network.violations())} == {}
    assert [network.lost for network in within.values() if network.lost] == []
    assert sum("Repeat" in network.kinds for network in within.values()) > 20


def test_a_total_order_operation_ends_for_every_broker_and_round_of_failure() -> None:
    """Every broker, from before its first message to after its last one: all clients deliver it, its own too."""
    networks = {(b, at): operation_with_crash(b, at) for b in PARENT for at in range(20)}
    assert {case: network.beyond for case, network in networks.items() if network.beyond} == {}
    assert {case: found for case, network in networks.items() if (found := network.violations())} == {}
    late = [network for network in networks.values() if network.last_delivery > FIRST_ROUND + 25]
    assert len(late) > 30


def short(draw: Callable[[int, int], Crashing], count: int, kind: str = "ParentRequest") -> list[Crashing]:
    """Those runs of seeds from 0 on that send a kind of message and are soon quiet: a job costs as its longest run."""
    drawn = ((case, played(case)) for seed in itertools.count() if (case := draw(seed, 1 + seed % 2)))
    found = (case for case, network in drawn if network.last_round < SOON and kind in network.kinds)
    return list(itertools.islice(found, count))


def with_small_buffers(seed: int, n_crashes: int) -> Crashing:
    return replace(crashing(N_RUNS + seed, n_crashes), buffer_size=SMALL)


@pytest.fixture(scope="module")
def cases() -> list[Crashing]:
    plain = [*short(crashing, N_RUNS), *short(with_small_buffers, N_SMALL, "Repeat")]
    return [*plain, *short(bank_with_crashes, N_BANKS)]


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory, cases: list[Crashing]) -> Store:
    return stored(cases, sail, tmp_path_factory.mktemp("ginger_crashes"))


def test_the_engine_delivers_as_the_nodes_do_by_themselves(store: Store, cases: list[Crashing]) -> None:
    orders = delivery_orders(store)
    n_compared = 0
    for run, case in enumerate(cases[:-N_BANKS]):
        for client, log in played(case).logs.items():
            wanted = [m.id for what, m in log if what == "deliver"]
            assert orders.get((run, f"C{client}"), []) == wanted, (run, client)
            n_compared += len(wanted)
    assert n_compared > 20 * N_RUNS


def test_all_guarantees_hold_within_the_views(store: Store, cases: list[Crashing]) -> None:
    report = audited(store, "ginger")
    assert broken(report) == {}
    assert report.verdict == "valid"
    told = {run: played(case).beyond for run, case in enumerate(cases)}
    assert {run.run_id: (run.round, run.reason) for run in report.beyond} == {
        run: (min(at for at, _ in beyond), "; ".join(reason for _, reason in sorted(beyond)))
        for run, beyond in told.items()
        if beyond
    }
    assert sum(run.within_bound for run in report.runs) > len(report.runs) // 2


def test_trees_were_mended_and_messages_sent_again(store: Store) -> None:
    kinds = {kind for (kind,) in rows(store, "message", "kind")}
    assert {"NeighborDown", "ParentRequest", "LostMessageRequest", "LostMessages", "RootElection", "Failed"} <= kinds
    answers = [json.loads(body) for kind, body in rows(store, "message", "kind", "body") if kind == "LostMessages"]
    assert any(answer["told"]["events"] for answer in answers)


def test_small_buffers_hold_no_more_and_publishers_are_told(store: Store) -> None:
    sizes = Counter(
        (run, node, topic)
        for run, node, topic, event in rows(store, "state_metadata_buffer", "run_id", "node_id", "topic", "event")
        if event != "published"
    )
    size = {run: json.loads(text)["protocol.buffer_size"] for run, text in rows(store, "run", "run_id", "parameters")}
    assert all(count <= size[run] for (run, *_), count in sizes.items())
    assert {size[run] for (run, *_), count in sizes.items() if count == size[run]} == {SMALL}
    told = {row[:3] for row in rows(store, "state_exception", "run_id", "source", "source_seq")}
    again = {row[1:] for row in rows(store, "message", "kind", "run_id", "source", "source_seq") if row[0] == "Repeat"}
    assert told == again != set()
    assert rows(store, "state_gap") == []


def test_some_replicas_refuse_what_an_account_cannot_pay(store: Store) -> None:
    operations = StoreReader(store.session, store.root).sql(OPERATION)
    assert operations.select("run_id").distinct().count() == N_BANKS
    assert 0 < n_refused(store) < operations.count()
