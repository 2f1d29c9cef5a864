"""Table 1 of the report: RCPT^PUB at every node of Figure 5, for δ = 0..3."""

from __future__ import annotations

import pytest

from pipelines.engines.session import Session
from pipelines.testing import rows, run_all, run_configs, scenario

NODES = ("P1", "N1", "N2", "N3", "S1", "S2", "S3", "S4")
LINKS = [["P1", "N1"], ["N1", "N2"], ["N1", "N3"], ["N2", "S1"], ["N2", "S2"], ["N3", "S3"], ["N3", "S4"]]

# Two cells are misprinted: N1 for S2 at δ = 0, and S4 N1 for N3 at δ = 1. Level-2 consistency (4.3) asks for the node
# δ+1 hops towards the subscriber: one hop from S2 that is N2, and two hops from N3 towards S1 it is N2 as well.
TABLE_1 = {
    "P1": ("N1", "N2 N3", "S1 S4", "S1 S4"),
    "N1": ("N2 N3", "S1 S4", "S1 S4", "S1 S4"),
    "N2": ("S1 N1", "S1 N3", "S1 S4", "S1 S4"),
    "N3": ("S4 N1", "S4 N2", "S1 S4", "S1 S4"),
    "S1": ("S1 N2", "S1 N1", "S1 N3", "S1 S4"),
    "S2": ("N2", "S1 N1", "S1 N3", "S1 S4"),
    "S3": ("N3", "S4 N1", "S4 N2", "S1 S4"),
    "S4": ("S4 N3", "S4 N1", "S4 N2", "S1 S4"),
}


def figure_5(delta: int) -> dict[str, object]:
    return scenario(
        protocol={"name": "delta", "delta": delta},
        overlay={"links": LINKS},
        workload={"subscriptions": [{"at": "S1", "topic": "t"}, {"at": "S4", "topic": "t"}]},
    )


@pytest.fixture(scope="module")
def recipients(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], set[str]]:
    store = run_all(run_configs([figure_5(delta) for delta in range(4)]), sail, tmp_path_factory.mktemp("table1"))
    name = {(run, node): text for run, node, text in rows(store, "node", "run_id", "node_id", "name")}
    found: dict[tuple[int, str], set[str]] = {}
    for run, node, origin in rows(store, "state_routing_entry", "run_id", "node_id", "origin"):
        found.setdefault((run, name[run, node]), set()).add(name[run, origin])
    return found


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("delta", range(4))
def test_cell(recipients: dict[tuple[int, str], set[str]], delta: int, node: str) -> None:
    """The recipients of a publication that S1 and S4 match, before those towards its sender are dropped."""
    assert recipients[delta, node] == set(TABLE_1[node][delta].split())
