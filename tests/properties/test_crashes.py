"""Crashes within δ: nothing is lost, repeated or reordered, nobody waits for ever, and the sequential program agrees.

The schedules are random: trees, latencies, calls and joins that go on during crashes, repeated crashes and recoveries,
at most δ nodes not OPERATIONAL at once.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from schedules import Places, as_runs, awaited, delivered, expected, played
from sequential.generator import QUIET, random_run, random_schedule
from sequential.network import Network, play
from support import run_all

from pipelines.audits.run import AuditReport, audit_store
from pipelines.execute import protocol_module
from pipelines.query import StoreReader
from pipelines.session import Session
from pipelines.store import Store

N_SCHEDULES = 6
N_CRASHES = 5
LAST_CALL = 60

SOMETIMES = {
    "bypasses": "select count(1) from message where kind = 'CON_REQUEST'",
    "resends": "select count(1) from (select 1 from message where kind = 'PUB'"
    " group by run_id, source, source_seq, src, dst having count(1) > 1) twice",
    "duplicates": "select count(1) from message where fate = 'duplicate'",
    "Guided messages": "select count(1) from message where get_json_object(body, '$.guide') is not null",
    "PAR_SUB transfers": "select count(1) from message where kind = 'PAR_SUB' and source_seq is null",
    "crashes while recovering": """select count(1) from (
      select status, lead(status) over (partition by run_id, node_id order by round) as next_status from node_status
    ) step where status = 'RECOVERING' and next_status = 'FAILED'""",
    "joins after a crash": "select count(1) from node_status where status = 'VALID_JOINED' and round > 0",
}


@pytest.fixture(scope="module")
def networks() -> list[Network]:
    """Short schedules with many crashes as the sequential program played them, with both duplicate detectors."""
    short = (seed for seed in itertools.count(100) if _last_call(seed) == LAST_CALL)
    played_once = (random_run(seed, "identifier") for seed in short)
    eventful = itertools.islice((one for one in played_once if len(one.schedule.crashes) >= N_CRASHES), N_SCHEDULES)
    return [one for first in eventful for one in (first, play(first.schedule, "visited"))]


def _last_call(seed: int) -> int:
    """Gives the round of the last call but those that come when all is quiet again."""
    return max(call.round for call in random_schedule(random.Random(seed)).calls) - QUIET


@pytest.fixture(scope="module")
def store(networks: list[Network], sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The same schedules as runs of one job."""
    root: Path = tmp_path_factory.mktemp("crashes")
    return run_all(as_runs(networks), sail, root)


@pytest.fixture(scope="module")
def report(store: Store, sail: Session) -> AuditReport:
    """What the audits say."""
    return audit_store(StoreReader(sail, store.root), sail, protocol_module("delta"))


def test_no_guarantee_is_broken(report: AuditReport) -> None:
    broken = [finding for finding in report.findings if finding.n_violations != 0]
    assert [(finding.name, finding.shown, finding.error) for finding in broken] == []
    assert {run.verdict for run in report.runs} == {"valid"}


def test_the_schedules_stay_within_the_bound(report: AuditReport) -> None:
    assert sum(run.within_bound for run in report.runs) >= 0.8 * len(report.runs)


def test_the_sequential_program_agrees(networks: list[Network], store: Store, sail: Session) -> None:
    """On what must be delivered where both have confirmed the subscription in time; all in order, none twice."""
    places = Places(store)
    found, due = delivered(store, places), awaited(StoreReader(sail, store.root), places)
    for run, network in enumerate(networks):
        must = expected(network) & due[run]
        assert must
        here = {(s, p, k) for (s, p), all_ in found[run].items() for k in all_}
        there = {(s, p, k) for (s, p), all_ in played(network).items() for k in all_}
        assert must <= there
        assert must - here == set(), run
        assert all(all_ == sorted(set(all_)) for all_ in found[run].values()), run


def test_what_failures_cause_happens_sometimes(store: Store, sail: Session) -> None:
    reader = StoreReader(sail, store.root)
    counts = {what: reader.sql(text).collect()[0][0] for what, text in SOMETIMES.items()}
    print(counts)
    assert all(counts.values()), counts
