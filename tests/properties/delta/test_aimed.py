"""Crash schedules within δ that broke a guarantee once; `properties/test_hunts.py` searches further ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from support.delta.aimed import DETECTORS, Plan, as_runs, bases
from support.one_job import Stores

from pipelines.scenario.expand import RunConfig
from pipelines.store.store import Store
from pipelines.testing import audited, broken, scenario

N_PLANS = 12


def line(names: str, latencies: list[int], delta: int, calls: dict[str, list[Any]], **settings: int) -> dict[str, Any]:
    links = [[a, b, latency] for (a, b), latency in zip(pairwise(names), latencies, strict=True)]
    workload = {kind: [{"at": at, "round": round_, "topic": "t"} for at, round_ in of] for kind, of in calls.items()}
    protocol = {"name": "delta", "delta": delta, **settings}
    return scenario(protocol=protocol, overlay={"links": links}, workload=workload)


ANSWER_OF_THE_DEAD = Plan(
    line("PBCDS", [2, 9, 7, 8], 2, {"subscriptions": [("S", 0)], "publications": [("P", 54)]}, detection_rounds=12),
    (("C", 50, 75), ("D", 52, 70), ("D", 86, 88)),
)
"""B asks D past C; D answers in round 78, is down from 86 to 88, and its STATUS reaches B in round 94."""
REQUESTS_OF_THE_DEAD = [
    Plan(
        line("SCDBP", [2, 2, 3, 2], 2, {"subscriptions": [("S", 15)], "publications": [("P", 90)]}),
        (("C", 20, 45), ("D", 22, 40), ("D", first, until)),
    )
    for first, until in ((48, 49), (46, 47), (46, 48), (47, 48), (47, 49), (45, 48), (50, 52))
]
"""D asks S past C in round 45, with four rounds to go; when it arrives D may be back from another crash already."""
ONCE_BROKEN = [ANSWER_OF_THE_DEAD, *REQUESTS_OF_THE_DEAD]


BASES = list(bases(1, N_PLANS, is_short=True))


def delta_runs() -> dict[str, list[RunConfig]]:
    """Returns plans that are struck then, and behind them those that broke a guarantee once."""
    return {"played": as_runs([*BASES, *ONCE_BROKEN])}


@pytest.fixture(scope="module")
def played(stores: Stores) -> Store:
    return stores("played")


def test_connections_to_incarnations_that_are_over_are_reported(played: Store) -> None:
    report = audited(played)
    assert broken(report) == {}
    first = len(DETECTORS) * len(BASES)
    found = [(run.verdict, run.within_bound) for run in report.runs if run.run_id >= first]
    assert found == [("valid", True)] * 2 * len(ONCE_BROKEN)
    assert played.read("delivery").where(f"run_id >= {first}").count() == 2 * len(ONCE_BROKEN)
