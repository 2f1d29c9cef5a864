"""Crashes within δ: nothing is lost, repeated or reordered, nobody blocks, and the sequential program agrees.

The schedules are random: trees, latencies, calls and joins that go on during crashes, repeated crashes and recoveries,
at most δ nodes not OPERATIONAL at once. There are six eventful ones and those that broke a guarantee once;
``--schedules 2000`` takes so many as they come. Each is played with both duplicate detectors.
`properties/test_hunts.py` aims crashes at single messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from oracles.delta.generator import QUIET, random_run
from oracles.delta.network import Network, play
from support.delta.schedules import (
    RARELY,
    SOMETIMES,
    Places,
    as_runs,
    awaited,
    delivered,
    expected,
    played,
    short_schedules,
)
from support.one_job import Stores

from pipelines.audits.run import AuditReport
from pipelines.engines.session import Session
from pipelines.scenario.load import RunConfig
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import audited, broken, run_all, run_configs, scenario

N_SCHEDULES = 6
ONCE_BROKEN = (100035, 100039, 100272, 100314, 100455, 101634, 101995, 102724, 112849, 113871, 202803)
"""Seeds of schedules that broke a guarantee, for eight reasons in all; thousands of others did not show them."""
MOST_IN_A_JOB = 500
N_CRASHES = 5
LAST_RECOVERY, LAST_ROUND = 110, QUIET + 90


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cuts the schedules into jobs: None is that of the eventful ones, two numbers are places among all of them."""
    if "networks" in metafunc.fixturenames:
        n_schedules = metafunc.config.getoption("schedules")
        firsts = range(0, n_schedules or 0, MOST_IN_A_JOB)
        jobs = [(first, min(first + MOST_IN_A_JOB, n_schedules)) for first in firsts] or [None]
        names = ["eventful" if job is None else f"{job[0]} to {job[1]}" for job in jobs]
        metafunc.parametrize("networks", jobs, indirect=True, scope="module", ids=names)


@pytest.fixture(scope="module")
def networks(request: pytest.FixtureRequest) -> list[Network]:
    """Short schedules as the sequential program played them, with both duplicate detectors."""
    return _eventful() if request.param is None else _twice(itertools.islice(_as_they_come(), *request.param))


def _twice(chosen: Iterator[Network]) -> list[Network]:
    return [one for first in chosen for one in (first, play(first.schedule, "visited"))]


def _as_they_come() -> Iterator[Network]:
    return (random_run(seed, "identifier") for seed in short_schedules(100))


@cache
def _eventful() -> list[Network]:
    found = itertools.islice(filter(_is_eventful, _as_they_come()), N_SCHEDULES)
    return _twice(itertools.chain(found, (random_run(seed, "identifier") for seed in ONCE_BROKEN)))


Crashes = list[tuple[str, int, int]]


def line(
    names: str, latencies: list[int], crashes: Crashes, calls: dict[str, tuple[str, int]], **settings: int
) -> list[dict[str, Any]]:
    """Returns nodes in a line that crash, with δ = 2 and both duplicate detectors."""
    links = [[a, b, latency] for (a, b), latency in zip(pairwise(names), latencies, strict=True)]
    workload = {kind: [{"at": at, "round": round_, "topic": "t"}] for kind, (at, round_) in calls.items()}
    faults = [{"kind": "crash", "node": node, "round": at, "until": until} for node, at, until in crashes]
    return [
        scenario(
            protocol={"name": "delta", "delta": 2, "detector": detector, **settings}, overlay={"links": links},
            workload=workload, faults=faults,
        )
        for detector in ("identifier", "visited")
    ]  # fmt: skip


ANSWER_OF_THE_DEAD = line(
    "PBCDS", [2, 9, 7, 8], [("C", 50, 75), ("D", 52, 70), ("D", 86, 88)],
    {"subscriptions": ("S", 0), "publications": ("P", 54)}, detection_rounds=12,
)  # fmt: skip
"""B asks D past C; D answers in round 78, is down from 86 to 88, and its STATUS reaches B in round 94."""
REQUESTS_OF_THE_DEAD = [
    run
    for down in ((48, 49), (46, 47), (46, 48), (47, 48), (47, 49), (45, 48), (50, 52))
    for run in line(
        "SCDBP", [2, 2, 3, 2], [("C", 20, 45), ("D", 22, 40), ("D", *down)],
        {"subscriptions": ("S", 15), "publications": ("P", 90)},
    )
]  # fmt: skip
"""D asks S past C in round 45, with four rounds to go; when it arrives D may be back from another crash already."""


def delta_runs() -> dict[str, list[RunConfig]]:
    pinned = run_configs([*ANSWER_OF_THE_DEAD, *REQUESTS_OF_THE_DEAD])
    return {"eventful": as_runs(_eventful()), "pinned": pinned}


def test_connections_to_incarnations_that_are_over_are_reported(stores: Stores) -> None:
    store = stores("pinned")
    report = audited(store)
    assert broken(report) == {}
    assert {(run.verdict, run.within_bound) for run in report.runs} == {("valid", True)}
    assert store.read("delivery").count() == len(report.runs) == 16


def _is_eventful(one: Network) -> bool:
    """Returns whether a schedule has many crashes and is over soon: a job costs what its longest run takes."""
    ends = [crash.until for crash in one.schedule.crashes if crash.until is not None]
    return len(one.schedule.crashes) >= N_CRASHES and max(ends) <= LAST_RECOVERY and one.round <= LAST_ROUND


@pytest.fixture(scope="module")
def store(
    request: pytest.FixtureRequest, networks: list[Network], sail: Session, tmp_path_factory: pytest.TempPathFactory
) -> Store:
    """The same schedules as runs of one job."""
    if networks is _eventful():
        stores: Stores = request.getfixturevalue("stores")
        return stores("eventful")
    root: Path = tmp_path_factory.mktemp("crashes")
    return run_all(as_runs(networks), sail, root)


@pytest.fixture(scope="module")
def report(store: Store, sail: Session) -> AuditReport:
    """What the audits say."""
    return audited(store)


def test_no_guarantee_is_broken(report: AuditReport) -> None:
    broken = [finding for finding in report.findings if finding.n_violations != 0]
    assert [(finding.name, finding.shown, finding.error) for finding in broken] == []
    untested = {run.run_id for run in report.untested}
    assert {run.verdict for run in report.runs if run.run_id not in untested} == {"valid"}
    assert len(untested) <= 0.1 * len(report.runs)


def test_the_schedules_stay_within_the_bound(report: AuditReport) -> None:
    assert sum(run.within_bound for run in report.runs) >= 0.8 * len(report.runs)


def test_the_sequential_program_agrees(networks: list[Network], store: Store, sail: Session) -> None:
    """On what must be delivered where both have confirmed the subscription in time; all in order, none twice."""
    places = Places(store)
    found, due = delivered(store, places), awaited(StoreReader(sail, store.root), places)
    n_tested = 0
    for run, network in enumerate(networks):
        must = expected(network) & due[run]
        n_tested += bool(must)
        here = {(s, p, k) for (s, p), all_ in found[run].items() for k in all_}
        there = {(s, p, k) for (s, p), all_ in played(network).items() for k in all_}
        assert must <= there
        assert must - here == set(), run
        assert all(all_ == sorted(set(all_)) for all_ in found[run].values()), run
    assert n_tested >= 0.9 * len(networks)


def test_what_failures_cause_happens_sometimes(networks: list[Network], store: Store, sail: Session) -> None:
    reader = StoreReader(sail, store.root)
    texts = SOMETIMES | (RARELY if len(networks) > MOST_IN_A_JOB else {})
    counts = {what: reader.sql(text).collect()[0][0] for what, text in texts.items()}
    print(counts)
    assert all(counts.values()), counts
