"""The rows of a run do not depend on the other runs of its job: alone and in company all tables are equal."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from support.replicas import PROTOCOLS, by_run, differing, eventful

from pipelines.engines.session import Session
from pipelines.testing import run_all, run_configs, scenario

FEW = 4
"""Runs of each protocol, unless ``--schedules`` asks for more: half of them without a fault."""
JOINED = scenario(
    protocol={"name": "delta", "delta": 2},
    overlay={"links": [["A", "B", 3], ["B", "C", 3], ["C", "J0"], ["J0", "J1"]]},
    workload={
        "subscriptions": [{"at": "J1", "round": 14, "topic": "t"}],
        "publications": [{"at": "A", "round": 60, "topic": "t"}],
        "joins": [{"node": "J0", "to": "C", "round": 10}, {"node": "J1", "to": "J0", "round": 14}],
    },
)
"""J1 asks J0 to let it in before J0 itself has joined."""
CRASHED = {**JOINED, "faults": [{"kind": "crash", "node": "A", "round": 5, "until": 7}]}


def joining(seed: int) -> dict[str, Any]:
    """Returns a scenario of `delta` in which nodes join while others publish; in every other one a broker crashes."""
    draw = random.Random(seed)
    n_brokers, n_joining = draw.randint(4, 7), draw.randint(1, 3)
    tree = nx.random_labeled_tree(n_brokers, seed=seed)
    links = [[f"N{a}", f"N{b}", draw.randint(1, 4)] for a, b in tree.edges]
    names, joins = [f"N{node}" for node in tree], []
    rounds = sorted(draw.sample(range(5, 40), n_joining))
    for number, round_ in enumerate(rounds):
        at, name = draw.choice(names), f"J{number}"
        links.append([at, name, draw.randint(1, 4)])
        joins.append({"node": name, "to": at, "round": round_})
        names.append(name)
    subscriptions = [{"at": name, "round": draw.randrange(0, 50), "topic": "t"} for name in draw.sample(names, 3)]
    publications = [{"at": draw.choice(names), "round": draw.randrange(10, 90), "topic": "t"} for _ in range(6)]
    crash = {"kind": "crash", "node": f"N{draw.randrange(n_brokers)}", "round": draw.randrange(1, 60)}
    return scenario(
        protocol={"name": "delta", "delta": draw.randint(1, 3), "detector": draw.choice(["identifier", "visited"])},
        overlay={"links": links},
        workload={"subscriptions": subscriptions, "publications": publications, "joins": joins},
        faults=[{**crash, "until": crash["round"] + draw.randrange(1, 30)}] if seed % 2 else [],
    )


def cases(protocol: str, n_runs: int) -> list[dict[str, Any]]:
    """Returns scenarios of a protocol, every other one without a fault."""
    found = [eventful(protocol, seed) for seed in range(1, n_runs + 1)]
    mixed = [one if place % 2 else {**one, "faults": []} for place, one in enumerate(found)]
    return [JOINED, CRASHED, *(joining(seed) for seed in range(n_runs)), *mixed] if protocol == "delta" else mixed


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_has_the_same_rows_alone_and_in_company(
    protocol: str, sail: Session, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    runs = run_configs(cases(protocol, pytestconfig.getoption("schedules") or FEW))
    together = by_run(run_all(runs, sail, tmp_path))
    differ = {}
    for run in runs:
        (alone,) = by_run(run_all([run], sail, tmp_path)).values()
        assert alone["message"]
        if names := list(differing(alone, together[run.run_id])):
            differ[run.run_id] = names
    assert differ == {}
