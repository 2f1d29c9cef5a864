"""Spark Connect: a scenario gives the rows that it gives on other engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.api import run_prepared
from pipelines.engines.session import Session
from pipelines.experiment.prepared import prepare
from pipelines.store.store import Store
from pipelines.testing import rows

SCENARIO = """name: small
protocol: {{name: {protocol}}}
overlay: {{links: [[A, B]]}}
workload:
  subscriptions: [{{at: B, round: 0, where: "topic = a and x > 1"}}]
  publications: [{{at: A, round: 3, topic: a, content: {{x: 2}}}}]
time: {{rounds: 20}}
runs: {{seeds: [0, 1]}}
"""
NODES = """name: small
protocol: {{name: {protocol}}}
overlay: {{links: [[A, B]], clients: [{{name: C, at: A}}, {{name: D, at: B}}]}}
workload:
  subscriptions: [{{at: C, topic: a}}, {{at: D, topic: a}}]
  publications: [{{at: C, round: 20, topic: a, guarantee: total}}]
time: {{rounds: 60}}
runs: {{seeds: [0, 1]}}
"""


@pytest.mark.parametrize("protocol", ["forwarding", "delta", "ginger"])
def test_the_rows_are_those_of_sail(
    connect: Session, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """The server writes and reads its tables itself, and its executors play nodes, as with many rows and runs."""
    monkeypatch.setattr("pipelines.store.store.Store._is_slow", False)
    monkeypatch.setattr("pipelines.rounds.blocks.MANY_RUNS", 1)
    text = NODES if protocol == "ginger" else SCENARIO
    (tmp_path / "s.yaml").write_text(text.format(protocol=protocol))
    for session in (connect, sail):
        session.activate()
        run_prepared(prepare(tmp_path / "s.yaml"), spark=session.spark, store=tmp_path / session.engine)
    found, wanted = (Store(tmp_path / name, sail) for name in ("connect", "local"))
    assert rows(found, "run", "engine") == [("connect",)] * 2
    assert rows(wanted, "delivery")
    for name in wanted.tables():
        if name not in ("run", "round_commit"):
            assert rows(found, name) == rows(wanted, name), name
