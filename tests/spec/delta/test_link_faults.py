"""Protocol delta on links that lose, duplicate, reorder or delay, and with nodes that pause.

It assumes links that keep order and lose nothing. What breaks then is found, excused, and explained; a run never hangs.
"""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.result import Result
from pipelines.testing import run_all, run_configs, scenario
from pipelines.why import Question, Story, stories

PARTS = scenario(
    protocol={"name": "delta", "delta": 1},
    overlay={"generate": {"kind": "random_tree", "nodes": 8, "max_degree": 3}},
    workload={
        "subscriptions": {"generate": {"kind": "topics", "topics": 1, "nodes": 4}},
        "publications": {"generate": {"kind": "topics", "topics": 1, "nodes": 2, "rate": 0.5, "rounds": [20, 40]}},
    },
    time={"rounds": 400},
)
CRASH = {"generate": {"kind": "crash", "count": 1, "down": [9, 15], "rounds": [22, 32]}}
REORDER = {"kind": "delay", "rounds": [1, 8], "rate": 0.3, "reorder": True}
FAULTS: dict[str, list[dict[str, Any]]] = {
    "loss": [{"kind": "loss", "rate": 0.01}],
    "duplicates": [{"kind": "duplicate", "rate": 0.3, "after": [0, 8]}],
    "reordering": [REORDER],
    "delay": [{"kind": "delay", "rounds": [0, 8], "rate": 0.3}],
    "pauses": [{"generate": {"kind": "pause", "count": 3, "down": [3, 9], "rounds": [15, 40]}}],
    "reordering and a crash": [REORDER, CRASH],
    "delay and a crash": [{"kind": "delay", "rounds": [0, 2], "rate": 0.3}, CRASH],
    "a break and a crash": [{"generate": {"kind": "break", "count": 1, "down": [9, 15], "rounds": [22, 32]}}, CRASH],
}
SEEDS = {"loss": 4}
RUNS = dict(zip(FAULTS, range(len(FAULTS)), strict=True))


@pytest.fixture(scope="module")
def struck(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """All of them as runs of one job."""
    configs = run_configs(
        [{**PARTS, "faults": faults} for faults in FAULTS.values()], [SEEDS.get(run, 5) for run in FAULTS]
    )
    result = Result(run_all(configs, sail, tmp_path_factory.mktemp("struck")).root, sail)
    report = result.audit()
    assert [finding.error for finding in report.findings if finding.error] == []
    return result


def found(result: Result, query: str, run: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in result.sql(query.format(run=RUNS[run])).collect()]


def told(result: Result, run: str) -> list[Story]:
    """The stories of all publications that did not come to somebody who was to get them."""
    query = """select distinct node_id, source, source_seq from violation
      where run_id = {run} and guarantee = 'exactly_once' order by 1, 2, 3"""
    return stories(result.reader, [Question(RUNS[run], *row) for row in found(result, query, run)])


@pytest.mark.parametrize("run", FAULTS)
def test_every_run_ends_before_the_horizon_and_breaks_nothing_that_it_promised(struck: Result, run: str) -> None:
    [(verdict, rounds)] = found(struck, "select verdict, rounds from run where run_id = {run}", run)
    assert verdict == "valid"
    assert rounds < 300


@pytest.mark.parametrize("run", ["delay", "pauses"])
def test_without_crashes_it_does_not_matter_how_long_messages_take(struck: Result, run: str) -> None:
    assert found(struck, "select within_bound from run where run_id = {run}", run) == [(True,)]
    assert found(struck, "select count(1) from violation where run_id = {run}", run) == [(0,)]
    assert found(struck, "select count(1) from delivery where run_id = {run}", run) > [(10,)]


@pytest.mark.parametrize("run", sorted(set(FAULTS) - {"delay", "pauses"}))
def test_what_breaks_an_assumption_puts_the_run_beyond_the_bound(struck: Result, run: str) -> None:
    assert found(struck, "select within_bound from run where run_id = {run}", run) == [(False,)]
    assert found(struck, "select count(1) from violation where run_id = {run} and not excused", run) == [(0,)]


def test_messages_that_arrive_twice_are_handled_once(struck: Result) -> None:
    """Nothing is promised, and nothing breaks: Algorithm 1, lines 1 to 9."""
    assert found(struck, "select count(1) from violation where run_id = {run}", "duplicates") == [(0,)]
    query = "select count(1) from message where run_id = {run} and fate = 'duplicate'"
    assert found(struck, query, "duplicates") > [(10,)]


def test_what_a_lost_message_cost_is_found_and_explained(struck: Result) -> None:
    """A publication ends where its copy, or that of the subscription, was lost; what waits for a Conf stays."""
    broken = {
        name for (name,) in found(struck, "select distinct guarantee from violation where run_id = {run}", "loss")
    }
    assert broken >= {"exactly_once", "nothing_pending"}
    for story in told(struck, "loss"):
        assert (story.ended, story.cause and story.cause.kind) == ("lost", "link")
        assert story.cause is not None
        assert story.cause.fault is not None
        assert (story.cause.fault.kind, story.cause.fault.until) == ("loss", None)
        assert "lost on the link" in str(story)


def test_what_was_overtaken_is_found_and_explained(struck: Result) -> None:
    lost = told(struck, "reordering")
    assert lost
    for story in lost:
        assert (story.ended, story.cause and story.cause.kind) == ("lost", "taken_for_duplicate")
        assert "other messages had overtaken it (reorder: from round 0 on)" in story.verdict
