"""Runs of protocol repository that need a settled rule each: all audits hold.

Without its rule, a run breaks the guarantees that its case names; `tests/mutation/broken_rules.yaml` breaks the rules.
A message that p publishes in round t is at b1 in t + 1, at r1 and s1 in t + 2 and at r2 and s2 in t + 3; s1 delivers it
in t + 4. r1 steers p and s1, r2 steers s2, which publishes too where it says so. Number 4 is the first one behind those
of the subscriptions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from support.repository.scenes import NEWS, calls, chain, down, lost

from pipelines.audits.run import AuditReport
from pipelines.engines.session import Session
from pipelines.testing import audited, run_all, run_configs

REPLACED = Path(__file__).parents[1] / "mutation" / "hunted" / "repository_replaced.yaml"
OFFER = ("Message", "P2R-Order")
END = 920


class Case(NamedTuple):
    """The scenario of a run, and the guarantees that break without the rule."""

    guarantees: set[str]
    parts: dict[str, Any]


def case(*guarantees: str, published: list[Any], rounds: int = END, **parts: Any) -> Case:
    return Case(set(guarantees), chain(published=published, rounds=rounds, **parts))


NOT_AT_R1 = lost(101, 102, "b2", "b1", *OFFER), lost(101, 200, "b2", "b1", "R2R-Retransmit")
"""What s2 publishes in round 100 is number 4 of r2; r1 has not got it when s1 leaves for r2."""
TWO_AT_ONCE = [("s2", 100), ("p", 100), ("p", 101), ("p", 102)]


def to_r2(round_: int) -> list[dict[str, Any]]:
    return [calls("steer", "s1", round_, topic=NEWS, peer="r2")]


CASES = {
    1: case("stored_delivered", published=[100, 101, 200], faults=[down("p", 110, 150)]),
    2: case(
        "stored_delivered", "nothing_pending",
        published=[100, 101, 102, 200], faults=[lost(101, 102, "p", "b1"), down("p", 103, 150)],
    ),
    3: case("kept_until_stable", published=[100], faults=[down("r2", 90, 190)], rounds=194),
    4: case("stored_delivered", published=[100], faults=[lost(100, 101, "p", "b1")]),
    5: case("nothing_pending", published=[100, 103], faults=[lost(101, 102, "b1", "r1", *OFFER)]),
    6: case("stored_delivered", published=[100, 101], faults=[lost(103, 104, "b1", "s1", "R2S*-Persistent")]),
    8: case("sync_passes_nothing", published=[100], faults=[lost(101, 102, "b1", "s1", "Message")]),
    9: case("exactly_once", published=[100], faults=[lost(100, 110, "s1", "b1", "S2R-ACK"), down("s1", 108, 150)]),
    10: case("starts_at_cut", published=[100, 200], subscribed={"s3": 150}),
    12: case("stored_delivered", published=TWO_AT_ONCE, calls=to_r2(109), faults=[*NOT_AT_R1]),
    13: case(
        "asked_to_steer", published=[93], calls=[calls("steer", "p", 95, topic=NEWS, peer="r2")],
        faults=[
            lost(93, 94, "p", "b1", "Message"), lost(93, 130, "b1", "p", "R2P-NAK"),
            lost(95, 130, "p", "b1", "P2R-Recovery"),
        ],
    ),
    14: case("stored_delivered", published=[100, 200], faults=[down("r1", 120)]),
    16: case("sync_passes_nothing", published=TWO_AT_ONCE, calls=to_r2(116), faults=[*NOT_AT_R1]),
    17: case("nothing_pending", published=[100], faults=[lost(104, 105, "r2", "b2", "Gossip-ACK")]),
    19: case("nothing_pending", published=[100], faults=[lost(102, 103, "b2", "r2", *OFFER)]),
    20: case("kept_until_stable", published=[100], faults=[down("r1", 200, 220), down("r2", 200, 220)]),
    22: case("stored_delivered", published=[100, 300], faults=[down("r1", 200, 220), down("r2", 200, 220)], rounds=999),
    26: case(
        "stored_delivered",
        published=[100], faults=[lost(102, 103, "b2", "r2"), down("p", 104)], calls=[calls("leave", "r1", 105)],
    ),
}  # fmt: skip
"""By rule."""


@pytest.fixture(scope="module")
def report(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> AuditReport:
    """Audits the runs, and one in which r3 hears of its removal while it recovers (rule P36)."""
    replaced = yaml.safe_load(REPLACED.read_text("utf-8"))
    runs = run_configs([*(case.parts for case in CASES.values()), {**replaced, "faults": [down("r3", 80, 86)]}])
    return audited(run_all(runs, sail, tmp_path_factory.mktemp("audits_repository_rules")), "repository")


def test_runs_that_need_a_rule_break_nothing(report: AuditReport) -> None:
    assert [found.error for found in report.findings if found.error] == []
    assert report.violation.select(["run_id", "guarantee", "detail"]).to_pylist() == []


def test_the_audits_check_each_guarantee_that_a_rule_protects(report: AuditReport) -> None:
    audits = {found.name for found in report.findings}
    assert set[str]().union(*(case.guarantees for case in CASES.values())) <= audits
    assert {run.verdict for run in report.runs} == {"valid"}
