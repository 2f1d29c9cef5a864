"""Events that pass a subscription on its way: recovery delivers them late, and no guarantee is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipelines as rt

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
    assert [run.verdict for run in result.audit().runs] == ["valid"]
    [within] = result.sql("select within_bound from run").collect()
    assert within[0]


@pytest.mark.parametrize(("rounds", "is_within"), [((20, 50), False), ((35, 36), False), ((37, 51), True)])
def test_push_exceeds_the_bound_only_if_an_event_may_pass_a_subscription(
    rounds: tuple[int, int], tmp_path: Path, *, is_within: bool
) -> None:
    """The latencies of both links add up to 5 rounds, so the subscription of round 32 has reached S in round 37."""
    result = rt.run(
        SCENARIO,
        store=tmp_path / "store",
        overrides=[
            "protocol.recovery=push",
            "time.rounds=600",
            "workload.publications=" + str([{"at": "S", "round": at, "topic": "a"} for at in rounds]),
        ],
    )
    assert [run.verdict for run in result.audit().runs] == ["valid"]
    [within] = result.sql("select within_bound from run").collect()
    assert within[0] == is_within


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
    result = rt.run(EARLIER, store=tmp_path / "store")
    came = result.sql("select source_seq from delivery where subscriber = 2 order by round").collect()  # D is node 2
    assert [row[0] for row in came][:3] == [1, 3, 2]
    assert [run.verdict for run in result.audit().runs] == ["valid"]
    assert [tuple(row) for row in result.sql("select within_bound from run").collect()] == [(False,)]
