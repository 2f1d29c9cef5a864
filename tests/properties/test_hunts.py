"""Hunts with a fixed seed: schedules aimed at the messages of a run break no guarantee, and reach what they aim at."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipelines as rt
from pipelines.engines.session import Session
from udfs.nodes.records import kind_of
from udfs.repository.events import Dropped
from udfs.repository.program import Repository

HUNTED = Path(__file__).parents[1] / "mutation" / "hunted"

GINGER_REPAIRS = {
    "Failed OPERATIONAL delivered", "Failed UP lost_crash", "LostMessageRequest OPERATIONAL delivered",
    "LostMessageRequest UP lost_crash", "LostMessages OPERATIONAL delivered", "ParentBuffer JOINING delivered",
    "ParentBuffer RECOVERING delivered", "ParentRequest RECOVERING delivered", "ParentRequest UP lost_crash",
    "ParentResponse JOINING delivered", "ParentResponse RECOVERING delivered", "RootElection UP delivered",
    "RootElection UP lost_crash", "TotalAck UP lost_crash", "TotalProcessed UP lost_crash",
    "TreeViewUpdate JOINING delivered", "TreeViewUpdate RECOVERING delivered", "TreeViewUpdate UP lost_crash",
    "Exception UP delivered", "Repeat UP delivered", "status RECOVERING to OPERATIONAL",
    "status JOINING to OPERATIONAL", "fault recovery",
}  # fmt: skip
"""What a second failure reaches while a broker repairs the tree, recovers or joins."""
SECOND_FAILURES = {
    "ParentRequest UP lost_crash", "RootElection UP delivered", "LostMessages RECOVERING delivered",
    "status RECOVERING to OPERATIONAL", "fault recovery",
}  # fmt: skip
REPOSITORY_LOSSES = {
    *(f"{kind_of(message)} UP lost_link" for message in Repository.messages if message is not Dropped),
    "Register OPERATIONAL lost_crash",
    "S2R-Subscribe OPERATIONAL lost_crash", "P2R-Order OPERATIONAL lost_crash", "Broker-Up UP lost_crash",
    "R2R-Recovery RECOVERING lost_link", "status OPERATIONAL to LEFT", "status RECOVERING to OPERATIONAL",
    "fault duplicate",
}  # fmt: skip
"""Links lose messages of all kinds, except P2R-Dropped, which needs the removal of all members that have a message.

Owners, clients and repositories crash during registrations and recoveries.
"""


@pytest.mark.parametrize(
    ("scenario", "n_schedules", "within_bound", "reached"),
    [
        (
            "delta", 32, True,
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
        ("ginger_late protocol.buffer_size=1", 25, True, GINGER_REPAIRS),
        ("repository_calls", 10, True, REPOSITORY_LOSSES),
        (
            "epidemic_trees runs.seeds=[0,1,2]", 27, True,
            {"REQUEST UP delivered", "REPLY UP delivered", "SUB UP lost_crash", "fault crash"},
        ),
        (
            "ginger_trees runs.seeds=[0,1,2]", 40, True,
            {"ParentRequest UP delivered", "RootElection UP delivered", "Current UP delivered", "fault crash"},
        ),
        # The runs of both scenarios have crashes of their own: the root's, and those of an orphan and its neighbours.
        ("ginger_failures runs.seeds.count=10", 85, True, SECOND_FAILURES),
        ("ginger_orphaned runs.seeds.count=20", 64, True, SECOND_FAILURES),
    ],
    ids=[
        "delta", "delta_chain", "delta_guided", "skipring", "skipring_slow", "epidemic", "epidemic_links",
        "gossipsub_slow", "ginger_late", "repository_calls", "epidemic_trees", "ginger_trees",
        "ginger_failures", "ginger_orphaned",
    ],
)  # fmt: skip
def test_a_hunt_finds_nothing(
    scenario: str, n_schedules: int, within_bound: bool, reached: set[str], sail: Session
) -> None:
    """All hunts use one engine: the end of an engine ends its worker processes, which take a CPU second to start."""
    name, *overrides = scenario.split()
    found = rt.hunt(
        HUNTED / f"{name}.yaml", n_schedules, within_bound=within_bound, shrinks=False, spark=sail.spark,
        overrides=overrides,
    )  # fmt: skip
    assert [(one.guarantee, one.cause, one.aims) for one in found.findings] == []
    assert found.n_played >= n_schedules
    assert reached - found.features == set()
    assert "NeighborDown" not in found.unreached  # the failure detector reports it, no node sends it
