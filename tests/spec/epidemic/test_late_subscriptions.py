"""Events that pass a subscription on its way: recovery delivers them late, and no guarantee is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipelines as rt
from pipelines.result import Result

SCENARIO = """
name: passed
protocol: {name: epidemic, gossip_rounds: 5, lost_rounds: 40}
overlay: {links: [[S, D, 3], [S, E, 2]]}
workload:
  subscriptions: [{at: E, round: 25, topic: a}, {at: D, round: 32, topic: a}]
  publications: [{at: S, round: 34, topic: a}, {at: S, round: 59, topic: a}, {at: S, round: 90, topic: a}]
time: {rounds: 200}
engine: local
"""


@pytest.mark.parametrize("recovery", ["subscriber_pull", "publisher_pull", "combined_pull"])
def test_an_event_that_passed_a_subscription_is_recovered_after_a_later_event(recovery: str, tmp_path: Path) -> None:
    """The subscription of D reaches S in round 35. D expects number 1, because it subscribed before that event."""
    result = rt.run(SCENARIO, overrides=f"protocol.recovery={recovery}", store=tmp_path / "store")
    came = result.sql("select source_seq from delivery where subscriber = 1 order by round").collect()  # D is node 1
    assert [row[0] for row in came] == [2, 1, 3]
    asked = result.sql("select source_seq from receiver where subscriber_name = 'D' order by 1").collect()
    assert [row[0] for row in asked] == [2, 3]
    assert [run.verdict for run in result.runs] == ["valid"]
    [within] = result.sql("select within_bound from run").collect()
    assert within[0]


def pushed(rounds: tuple[int, ...], store: Path, *more: str) -> Result:
    """Runs the scenario with push and publications of these rounds; ``more`` are further overrides."""
    publications = [{"at": "S", "round": at, "topic": "a"} for at in rounds]
    overrides = ["protocol.recovery=push", "time.rounds=600", f"workload.publications={publications}", *more]
    return rt.run(SCENARIO, overrides=overrides, store=store)


@pytest.mark.parametrize(("rounds", "owed"), [((20, 50), [2]), ((35, 36), [1, 2]), ((37, 51), [1, 2])])
def test_push_owes_no_event_that_passed_a_subscription(
    rounds: tuple[int, int], owed: list[int], tmp_path: Path
) -> None:
    """The subscription of round 32 reaches S in round 35."""
    result = pushed(rounds, tmp_path / "store")
    asked = result.sql("select source_seq from receiver where subscriber_name = 'D' order by 1").collect()
    assert [row[0] for row in asked] == owed
    assert [run.verdict for run in result.runs] == ["valid"]


EARLIER = """
name: earlier
protocol: {name: epidemic, recovery: push, push_patterns: local, p_forward: 1.0, gossip_rounds: 20, fanout: 2}
overlay: {links: [[S, R, 1], [R, D, 5], [R, X, 20], [R, Y, 20]]}
workload:
  subscriptions: [{at: X, round: 0, topic: a}, {at: Y, round: 0, topic: a}, {at: D, round: 64, topic: a}]
  publications:
    - {at: S, round: 55, topic: a}
    - {at: S, round: 63, topic: a}
    - {at: S, round: 110, topic: a}
    - {at: S, round: 184, topic: a}
time: {rounds: 900}
engine: local
"""


def test_push_brings_events_from_before_the_subscription_in_no_order(tmp_path: Path) -> None:
    """The subscription of D reaches S in round 70, after the first two events. Only later events are owed."""
    result = rt.run(EARLIER, store=tmp_path / "store")
    came = result.sql("select source_seq from delivery where subscriber = 2 order by round").collect()  # D is node 2
    assert [row[0] for row in came][:3] == [1, 3, 2]
    asked = result.sql("select source_seq from receiver where subscriber = 2 order by 1").collect()
    assert [row[0] for row in asked] == [3, 4]
    assert [run.verdict for run in result.runs] == ["valid"]
    assert [tuple(row) for row in result.sql("select within_bound from run").collect()] == [(True,)]


def test_a_recovered_event_counts_once_the_subscription_must_have_reached_its_source(tmp_path: Path) -> None:
    """Link S-D loses the event of round 40, and push repeats it, 3 rounds after round 37, when D is served at last."""
    lost = [{"kind": "loss", "rate": 1.0, "kinds": ["EVENT"], "round": 40, "until": 41}]
    result = pushed((40, 90), tmp_path / "store", f"faults={lost}")
    came = result.sql("select source_seq from delivery where subscriber = 1").collect()  # D is node 1
    assert sorted(row[0] for row in came) == [1, 2]
    asked = result.sql("select source_seq from receiver where subscriber_name = 'D' order by 1").collect()
    assert [row[0] for row in asked] == [1, 2]


RETURNED = """
name: returned
protocol: {name: epidemic, recovery: none}
overlay: {links: [[S, D, 5]]}
workload:
  subscriptions: [{at: D, round: 0, until: 31, topic: a}, {at: D, round: 32, topic: a}]
  publications:
    - {at: S, round: 35, topic: a}
    - {at: S, round: 36, topic: a}
    - {at: S, round: 37, topic: a}
    - {at: S, round: 38, topic: a}
time: {rounds: 100}
engine: local
"""


@pytest.mark.parametrize("protocol", ["{name: forwarding}", "{name: epidemic, recovery: none}", "{name: epidemic}"])
def test_an_ended_subscription_is_served_until_its_end_reaches_the_source(protocol: str, tmp_path: Path) -> None:
    """UNSUB reaches S in round 36, and SUB in round 37. The event of round 35 arrives because of the old entry."""
    scenario = RETURNED.replace("{name: epidemic, recovery: none}", protocol)
    result = rt.run(scenario, store=tmp_path / "store")
    asked = result.sql("select source_seq from receiver where subscriber_name = 'D' order by 1").collect()
    assert [row[0] for row in asked] == [3, 4]
    assert [run.verdict for run in result.runs] == ["valid"]
