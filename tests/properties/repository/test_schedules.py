"""Random schedules of protocol `repository`: the checker and the independent judge find no broken promise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from oracles.repository.judge import judged
from perf.broken_rules import RULES
from support.repository.broken import broken
from support.repository.checker import Checker
from support.repository.schedules import Schedule, crossed, drawn, observed, owned

N_SCHEDULES = 15


@pytest.mark.parametrize(
    ("schedule_of", "kinds", "n_refused"),
    [
        (
            drawn,
            {"R2S-Rectify", "R2S-Retransmit", "R2P-NAK", "R2R-Retransmit", "R2R-Recovery", "Gossip-LEAVE"}, 0,
        ),
        (owned, {"Refuse", "Register", "Deregister", "R2C-Confirm"}, 50),
    ],
    ids=["drawn", "owned"],
)  # fmt: skip
def test_random_schedules_break_nothing(
    schedule_of: Callable[[int], Schedule], kinds: set[str], n_refused: int
) -> None:  # fmt: skip
    """Clients that are registered again miss nothing of the time when they were not (rule P25)."""
    found, sent = {}, list[str]()
    for seed in range(N_SCHEDULES):
        checker = Checker(schedule_of(seed))
        found[seed] = [*checker.run(), *judged(observed(checker.schedule, checker.network))]
        sent += [flight.kind for flight in checker.network.rows.handled]
    assert {seed: broken for seed, broken in found.items() if broken} == {}
    assert kinds - set(sent) == set()
    assert sent.count("Refuse") >= n_refused


def test_two_repositories_do_not_wait_for_each_other() -> None:
    checker = Checker(crossed(0))
    assert checker.run() == []
    assert len(checker.delivered[5]) == 2


BROKEN = {row["rule"]: row for row in yaml.safe_load(RULES.read_text("utf-8"))["repository"]}
"""A change of the program that breaks the rule, by rule; of several changes, the last."""


@pytest.mark.parametrize(
    ("rule", "drawn_by", "seed"),
    [
        ("P1", "owned", 9), ("P2", "drawn", 13), ("P3", "drawn", 3), ("P4", "drawn", 0), ("P5", "drawn", 0),
        ("P6", "drawn", 0), ("P7", "owned", 11), ("P8", "drawn", 0), ("P9", "drawn", 3), ("P10", "drawn", 0),
        ("P12", "owned", 23), ("P13", "drawn", 1), ("P14", "drawn", 5), ("P17", "owned", 1),
    ],
)  # fmt: skip
def test_a_broken_rule_is_found(rule: str, drawn_by: str, seed: int) -> None:
    """Each schedule is the first of its kind in which the broken rule breaks a promise."""
    with broken(BROKEN[rule]) as violations:
        assert violations(drawn_by, seed)
