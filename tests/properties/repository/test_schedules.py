"""Random schedules of protocol `repository`: nothing that it promises breaks; broken rules are found.

tests/perf/repository_schedules.py plays thousands.
"""

from __future__ import annotations

import pytest
from support.repository.broken import BROKEN, Broken
from support.repository.checker import Checker
from support.repository.schedules import crossed, drawn, owned

N_SCHEDULES = 30


def test_random_schedules_break_nothing() -> None:
    found, seen = {}, set[str]()
    for seed in range(N_SCHEDULES):
        checker = Checker(drawn(seed))
        found[seed] = checker.run()
        seen |= {flight.kind for flight in checker.network.rows.handled}
    assert {seed: broken for seed, broken in found.items() if broken} == {}
    assert {"R2S-Rectify", "R2S-Retransmit", "R2P-NAK", "R2R-Retransmit", "R2R-Recovery", "Gossip-LEAVE"} <= seen


def test_clients_that_are_registered_again_miss_nothing() -> None:
    """What is stored while a client is deregistered is for it, or from it, once it is registered again (rule P25)."""
    found, n_refused = {}, 0
    for seed in range(N_SCHEDULES):
        checker = Checker(owned(seed))
        found[seed] = checker.run()
        n_refused += sum(flight.kind == "Refuse" for flight in checker.network.rows.handled)
    assert {seed: broken for seed, broken in found.items() if broken} == {}
    assert n_refused > 50


def test_two_repositories_do_not_wait_for_each_other() -> None:
    checker = Checker(crossed(0))
    assert checker.run() == []
    assert len(checker.delivered[5]) == 2


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: f"P{one.rule}: {one.what}")
def test_a_broken_rule_is_found(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules that break nothing break with it: what the checker says is the rule's doing."""
    broken.patch(monkeypatch)
    for seed in broken.seeds:
        assert Checker(broken.schedules(seed)).run(most=1), seed
