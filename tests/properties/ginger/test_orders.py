"""Protocol ginger on random trees delivers in the order of the sequential program, and all guarantees hold."""

from __future__ import annotations

import pytest
from oracles.ginger.network import TimedNetwork
from support.ginger.setups import Timed, delivery_orders, stored, timed_setup

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import audited, broken, rows

N_RUNS = 250


@pytest.fixture(scope="module")
def setups() -> list[Timed]:
    return [timed_setup(seed) for seed in range(N_RUNS)]


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory, setups: list[Timed]) -> Store:
    return stored(setups, sail, tmp_path_factory.mktemp("ginger"))


def test_clients_deliver_in_the_order_of_the_sequential_program(store: Store, setups: list[Timed]) -> None:
    orders = delivery_orders(store)
    n_compared = 0
    for run, timed in enumerate(setups):
        network = TimedNetwork(timed.setup, timed.latency, timed.calls)
        network.run()
        for node, client in network.clients.items():
            wanted = [m.id for what, m in client.log if what == "deliver"]
            assert orders.get((run, f"C{node}"), []) == wanted, (run, node)
            n_compared += len(wanted)
    assert n_compared > 20 * N_RUNS


def test_all_guarantees_hold(store: Store) -> None:
    report = audited(store, "ginger")
    assert broken(report) == {}
    assert report.verdict == "valid"


def test_some_message_waited_and_some_key_was_locked_twice(store: Store) -> None:
    """What the guarantees are about happens in these runs, and nothing of it is left at the end."""
    assert [rows(store, f"state_{name}") for name in ("pending", "locked", "entry_queue")] == [[], [], []]
    late = [row for row in rows(store, "delivery", "latency_rounds", "hops") if row[0] > 3 * row[1]]
    assert late


def test_every_subscription_is_confirmed_before_the_first_publication(store: Store) -> None:
    confirmed = [at for (at,) in rows(store, "subscription", "confirmed_round")]
    assert all(at is not None and at < 200 for at in confirmed)
