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


@pytest.mark.parametrize(("rounds", "is_within"), [((34, 35), False), ((36, 50), True)])
def test_push_exceeds_the_bound_only_if_an_event_may_pass_a_subscription(
    rounds: tuple[int, int], tmp_path: Path, *, is_within: bool
) -> None:
    """The latencies of both links add up to 5 rounds, so the subscription of round 32 has reached S in round 37."""
    first, second = rounds
    result = rt.run(
        SCENARIO,
        store=tmp_path / "store",
        overrides=[
            "protocol.recovery=push",
            "time.rounds=600",
            "workload.publications=" + str([{"at": "S", "round": at, "topic": "a"} for at in (first + 1, second + 1)]),
        ],
    )
    assert [run.verdict for run in result.audit().runs] == ["valid"]
    [within] = result.sql("select within_bound from run").collect()
    assert within[0] == is_within
