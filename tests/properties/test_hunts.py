"""Hunts with a fixed seed: schedules aimed at the messages of a run break no guarantee, and reach what they aim at."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipelines as rt

HUNTED = Path(__file__).parents[1] / "mutation" / "hunted"


@pytest.mark.parametrize(
    ("scenario", "n_schedules", "within_bound", "reached"),
    [
        (
            "delta", 60, True,
            {"CON_REQUEST VALID_JOINED delivered", "SYN_REQUEST VALID_JOINED delivered",
             "status RECOVERING to OPERATIONAL", "fault crash", "fault pause"},
        ),
        ("delta_chain", 25, True, {"PAR_SUB RECOVERING delivered", "REJOIN OPERATIONAL delivered"}),
        ("delta_guided", 25, True, {"PUB RECOVERING delivered", "REJOIN VALID_JOINED delivered"}),
        ("skipring", 25, True, {"RequestFor UP delivered", "Remove UP delivered", "fault loss"}),
        ("skipring_slow", 25, True, {"IntroduceShortcut UP delivered", "CheckTrie UP lost_link", "fault loss"}),
        ("epidemic", 25, False, {"GOSSIP UP delivered", "REPLY UP delivered", "fault loss"}),
        ("epidemic_links", 25, False, {"GOSSIP UP delivered", "fault link", "fault crash"}),
        ("gossipsub_slow", 25, False, {"PRUNE UP delivered", "GRAFT UP delivered", "fault crash"}),
    ],
    ids=[
        "delta", "delta_chain", "delta_guided", "skipring", "skipring_slow", "epidemic", "epidemic_links",
        "gossipsub_slow",
    ],
)  # fmt: skip
def test_a_hunt_finds_nothing(scenario: str, n_schedules: int, within_bound: bool, reached: set[str]) -> None:
    found = rt.hunt(HUNTED / f"{scenario}.yaml", n_schedules, within_bound=within_bound, shrinks=False)
    assert [(one.guarantee, one.cause, one.aims) for one in found.findings] == []
    assert found.n_played >= n_schedules
    assert reached - found.features == set()
