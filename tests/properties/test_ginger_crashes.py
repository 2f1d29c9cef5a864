"""Protocol ginger on random trees whose brokers crash, the root among them: all guarantees hold within the views.

tests/perf/ginger_runs.py makes thousands of these runs.
"""

from __future__ import annotations

import itertools
import json

import pytest
from ginger_support import bank_with_crashes, messages_with_crashes
from support import rows, run_all, run_configs

from pipelines.audits.run import audit_store
from pipelines.execute import protocol_module
from pipelines.protocols.ginger.audits.bank import OPERATION
from pipelines.query import StoreReader
from pipelines.session import Session
from pipelines.store import Store
from udfs.ginger.bank import Accounts

N_RUNS = 60


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    draws = (bank_with_crashes, messages_with_crashes)
    configs = run_configs([draws[seed % 2](seed, 1 + seed // 2 % 2) for seed in range(N_RUNS)])
    return run_all(configs, sail, tmp_path_factory.mktemp("ginger_crashes"))


def test_all_guarantees_hold_within_the_views(store: Store) -> None:
    report = audit_store(StoreReader(store.session, store.root), store.session, protocol_module("ginger"))
    assert {f.name: f.error or f.shown for f in report.findings if f.error or f.n_violations} == {}
    assert report.verdict == "valid"
    assert {beyond.reason for beyond in report.beyond} <= {"a node found nobody in its view to take it in"}
    assert sum(run.within_bound for run in report.runs) > N_RUNS // 2
    report.release()


def test_trees_were_mended_and_messages_sent_again(store: Store) -> None:
    kinds = {kind for (kind,) in rows(store, "message", "kind")}
    assert {"NeighborDown", "ParentRequest", "LostMessageRequest", "LostMessages", "RootElection", "Failed"} <= kinds
    answers = [row for row in rows(store, "message", "kind", "body") if row[0] == "LostMessages"]
    assert any('"events": []' not in body for _, body in answers)


def test_replicas_refuse_what_an_account_cannot_pay(store: Store) -> None:
    """Nothing is wrong only if balances were compared, and some operations could not be paid."""
    reader = StoreReader(store.session, store.root)
    operations = reader.sql(OPERATION).collect()
    assert len({row.run_id for row in operations}) == N_RUNS // 2
    refused = 0
    for _, of_replica in itertools.groupby(
        sorted(operations, key=lambda row: (row.run_id, row.node_id, row.place)),
        key=lambda row: (row.run_id, row.node_id),
    ):
        accounts = Accounts(150)
        refused += sum(accounts.apply(json.loads(row.content)) for row in of_replica)
    assert refused
