"""Excuses of protocol repository concern single publications: their way, or their time.

Each run delivers everything; a delivery is then removed or repeated, and the audits tell whether that is excused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame
from support.repository.scenes import NEWS, calls, chain, down

from pipelines.audits.run import AuditReport
from pipelines.engines.session import Session
from pipelines.testing import Change, audited, copied, planted, removed, run_all, run_configs

P, S1, S2, S3 = range(5, 9)
OWNED = {NEWS: {"owner": "s3", "publishers": ["p"], "subscribers": ["s1", "s2"]}}
OWNED_LATE = {NEWS: {"owner": "s3", "publishers": ["p"], "subscribers": ["s1"]}}
END = 1300
LACKS = {"stored_delivered", "sync_passes_nothing"}
DIVIDED = {*LACKS, "all_or_none"}


def ending(round_: int) -> dict[str, Any]:
    """Returns a run in which the subscription of s1 ends in a round; p publishes in round 100."""
    parts = chain(published=[100], rounds=END)
    parts["workload"]["subscriptions"][0]["until"] = round_
    return parts


def register(kind: str, round_: int, peer: str, role: str) -> list[dict[str, Any]]:
    return [calls(kind, "s3", round_, topic=NEWS, peer=peer, role=role)]


class Case(NamedTuple):
    """A run, what is changed of its deliveries, the guarantees that break, and those whose breach is excused."""

    parts: dict[str, Any]
    change: Change
    broken: set[str]
    excused: frozenset[str] = frozenset()


def lacking(subscriber: int) -> Change:
    return removed(f"subscriber = {subscriber}")


def as_played(frame: DataFrame) -> DataFrame:
    return frame


CASES = {
    "a subscription with an end": Case(ending(500), lacking(S1), LACKS),
    "a subscription that ends before": Case(ending(103), as_played, set()),
    "a subscriber that is gone later": Case(
        chain(published=[100], rounds=END, faults=[down("s1", 400)]), lacking(S1), LACKS
    ),
    "a subscriber that is gone at once": Case(
        chain(published=[100], rounds=END, faults=[down("s1", 102)]), as_played, set()
    ),
    "an owner that is down for a while": Case(
        chain(published=[200], rounds=END, settings={"topics": OWNED_LATE}, faults=[down("s3", 300, 305)],
              calls=register("register", 50, "s2", "subscriber")), lacking(S2), DIVIDED,
    ),
    "a publisher that is deregistered later": Case(
        chain(published=[100], rounds=END, settings={"topics": OWNED},
              calls=register("deregister", 300, "p", "publisher")), lacking(S2), DIVIDED - {"sync_passes_nothing"},
    ),
    "a subscriber that is deregistered later": Case(
        chain(published=[100], rounds=END, settings={"topics": OWNED},
              calls=register("deregister", 300, "s2", "subscriber")), lacking(S2), DIVIDED - {"sync_passes_nothing"},
    ),
    "a delivery long before a broker is gone": Case(
        chain(published=[100], rounds=END, faults=[down("b3", 900)]), copied(f"subscriber = {S1}", round="round + 1"),
        {"exactly_once"},
    ),
    "a delivery after a broker is gone": Case(
        chain(published=[100], rounds=END, faults=[down("b3", 900)]), copied(f"subscriber = {S1}", round="950"),
        set(), frozenset({"exactly_once"}),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def report(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> AuditReport:
    """The audits of all runs, each with its change."""
    root: Path = tmp_path_factory.mktemp("excuses_repository")
    store = run_all(run_configs([case.parts for case in CASES.values()]), sail, root)

    def changed(frame: DataFrame) -> DataFrame:
        for run_id, case in enumerate(CASES.values()):
            own = case.change(frame.where(f"run_id = {run_id}"))
            frame = frame.where(f"run_id <> {run_id}").unionByName(own)
        return frame

    return audited(planted(store, root, delivery=changed), "repository")


@pytest.mark.parametrize("name", CASES)
def test_an_excuse_concerns_its_publication(report: AuditReport, name: str) -> None:
    run_id, case = list(CASES).index(name), CASES[name]
    assert [found.error for found in report.findings if found.error] == []
    rows = report.violation.where(f"run_id = {run_id}").select("guarantee", "excused").distinct().collect()
    assert {row.guarantee for row in rows if not row.excused} == case.broken
    assert {row.guarantee for row in rows if row.excused} == case.excused
