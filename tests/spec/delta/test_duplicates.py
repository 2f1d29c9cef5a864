"""Duplicates (Algorithm 1, lines 1 to 9): whatever arrives twice is handled once, and every sender gets its CONF."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engines.session import Session
from pipelines.testing import rows, run_all, run_configs, scenario

LINKS = [["P1", "N1"], ["N1", "N2"], ["N1", "N3"], ["N2", "S1"], ["N2", "S2"], ["N3", "S3"], ["N3", "S4"]]
PARTS = scenario(
    protocol={"name": "delta", "delta": 1},
    overlay={"links": LINKS},
    workload={
        "subscriptions": [{"at": "S1", "topic": "t"}, {"at": "S4", "topic": "t", "until": 60}],
        "publications": [{"at": "P1", "round": 30 + step, "topic": "t"} for step in range(3)]
        + [{"at": "S1", "round": 31, "topic": "t"}],
    },
)


@pytest.mark.parametrize("late", [0, 1, 7])
def test_every_message_arrives_twice(sail: Session, tmp_path: Path, late: int) -> None:
    """The same deliveries and confirmations as without duplicates; one of two copies is marked as a duplicate."""
    plain = run_all(run_configs([PARTS]), sail, tmp_path)
    twice = {"kind": "duplicate", "rate": 1.0, "after": [late, late]}
    doubled = run_all(run_configs([{**PARTS, "faults": [twice]}]), sail, tmp_path)
    for table in ("delivery", "publication", "subscription"):
        assert rows(doubled, table) == rows(plain, table)
    assert doubled.read("state_processing").count() == 0
    assert doubled.read("state_waiting").count() == 0
    fates = [(kind, fate) for kind, fate in rows(doubled, "message", "kind", "fate")]
    kinds = [kind for (kind,) in rows(plain, "message", "kind")]
    for kind in ("PUB", "SUB", "UNSUB"):
        assert fates.count((kind, "delivered")) == fates.count((kind, "duplicate")) == kinds.count(kind) > 0
