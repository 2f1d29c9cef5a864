"""Duplicates (Algorithm 1, lines 1 to 9): whatever arrives twice is handled once, and every sender gets its CONF."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.store.store import Store
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


LATE = (0, 1, 7)
"""Rounds by which second copies come after the first."""


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Run 0 is without duplicates; the others have every message twice."""
    doubled = [{**PARTS, "faults": [{"kind": "duplicate", "rate": 1.0, "after": [late, late]}]} for late in LATE]
    return run_all(run_configs([PARTS, *doubled]), sail, tmp_path_factory.mktemp("duplicates"))


def of_run(store: Store, run: int, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [
        row[1:] for row in rows(store, table, "run_id", *(columns or store.read(table).columns[1:])) if row[0] == run
    ]


@pytest.mark.parametrize("late", LATE)
def test_every_message_arrives_twice(store: Store, late: int) -> None:
    """The same deliveries and confirmations as without duplicates; one of two copies is marked as a duplicate."""
    plain, doubled = 0, 1 + LATE.index(late)
    for table in ("delivery", "publication", "subscription"):
        assert of_run(store, doubled, table) == of_run(store, plain, table)
    assert of_run(store, doubled, "state_processing") == []
    assert of_run(store, doubled, "state_waiting") == []
    fates = [(kind, fate) for kind, fate in of_run(store, doubled, "message", "kind", "fate")]
    kinds = [kind for (kind,) in of_run(store, plain, "message", "kind")]
    for kind in ("PUB", "SUB", "UNSUB"):
        assert fates.count((kind, "delivered")) == fates.count((kind, "duplicate")) == kinds.count(kind) > 0
