"""Protocol ginger on random trees whose brokers crash, the root among them: all guarantees hold within the views."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ginger_support import FIRST_ROUND, Timed
from sequential_ginger.generator import random_setup
from support import rows, run_all, run_configs

from pipelines.audits.run import audit_store
from pipelines.execute import protocol_module
from pipelines.query import StoreReader
from pipelines.session import Session
from pipelines.store import Store

N_RUNS = 16


def crashing(seed: int) -> dict[str, Any]:
    """Draws a setup of which one or two brokers crash while its messages are under way."""
    draw = random.Random(seed)
    setup = random_setup(draw, n_brokers=(3, 9))
    ends = [(b, above) for b, above in setup.parent.items() if above is not None]
    latency = {frozenset(pair): draw.randint(1, 2) for pair in [*ends, *setup.edge.items()]}
    at = sorted(FIRST_ROUND + draw.randrange(20) for _ in setup.publications)
    parts = Timed(setup, latency, list(zip(at, setup.publications, strict=True))).scenario
    brokers = draw.sample(sorted(setup.parent), draw.randint(1, 2))
    parts["protocol"]["timer_rounds"] = 20
    parts["faults"] = [{"kind": "crash", "node": f"B{b}", "round": FIRST_ROUND + draw.randrange(20)} for b in brokers]
    return parts


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    configs = run_configs([crashing(seed) for seed in range(N_RUNS)])
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
