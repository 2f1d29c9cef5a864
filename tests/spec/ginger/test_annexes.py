"""Annexes IV, VI and VIII of the Ginger thesis: the ParentRequests on its overlay after a failure, and their answers.

B0 - B1 - B4 C0      topic1: C0, C3, C4; topic2: C1, C2
 |    |
 |    B5 C1          totalDegree 3
 |- B2 - B6 C2 C3
 |- B3 - B7 C4
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import audited, broken, rows, run_all, run_configs, scenario
from udfs.ginger.messages import ACCEPTED, DECLINED

PARENT = {1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 2, 7: 3}
EDGE = {0: 4, 1: 5, 2: 6, 3: 6, 4: 7}
TOPICS = {"topic1": (0, 3, 4), "topic2": (1, 2)}
CRASHED = ("B3", "B0", "B1")


def failing(broker: str) -> dict[str, Any]:
    """Returns a scenario in which `broker` fails while total-order messages of all clients are in flight."""
    calls = [(client, topic) for topic, clients in TOPICS.items() for client in clients]
    return scenario(
        protocol={"name": "ginger", "total_degree": 3, "timer_rounds": 20},
        overlay={
            "links": [[f"B{above}", f"B{b}"] for b, above in PARENT.items()],
            "clients": [{"name": f"C{c}", "at": f"B{edge}"} for c, edge in EDGE.items()],
        },
        workload={
            "subscriptions": [{"at": f"C{client}", "topic": topic} for client, topic in calls],
            "publications": [
                {"at": f"C{client}", "round": round_, "topic": topic, "guarantee": "total", "keys": ["account"]}
                for client, topic in calls
                for round_ in (46, 49, 60)
            ],
        },
        faults=[{"kind": "crash", "node": broker, "round": 50}],
    )


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return run_all(run_configs([failing(broker) for broker in CRASHED]), sail, tmp_path_factory.mktemp("annexes"))


@pytest.fixture(scope="module")
def names(store: Store) -> dict[tuple[int, int], str]:
    return {(run, node): name for run, node, name in rows(store, "node", "run_id", "node_id", "name")}


def asked(store: Store, names: dict[tuple[int, int], str], run: int) -> dict[str, list[tuple[str, str]]]:
    """Returns for each node that sent a ParentRequest the asked brokers and their answers, in order."""
    found = defaultdict(list)
    answers = store.read("message").where(f"kind = 'ParentResponse' and run_id = {run}").orderBy("message_id").collect()
    for answer in answers:
        found[names[run, answer.dst]].append((names[run, answer.src], json.loads(answer.body)["answer"]))
    return found


def parents(store: Store, names: dict[tuple[int, int], str], run: int) -> dict[str, str]:
    up = store.read("state_neighbour").where(f"run_id = {run} and relationship in ('parent', 'edge')").collect()
    return {names[run, row.node_id]: names[run, row.neighbour] for row in up}


def test_annex_4_and_5_broker_7_comes_to_broker_0(store: Store, names: dict[tuple[int, int], str]) -> None:
    assert asked(store, names, 0) == {"B7": [("B0", ACCEPTED)]}
    assert parents(store, names, 0)["B7"] == "B0"


def test_annex_6_the_children_of_the_root_elect_broker_2(store: Store, names: dict[tuple[int, int], str]) -> None:
    votes = {
        (names[1, src], json.loads(body)["vote"])
        for run, kind, src, body in rows(store, "message", "run_id", "kind", "src", "body")
        if (run, kind) == (1, "RootElection")
    }
    assert votes == {("B1", 1), ("B2", 2), ("B3", 2)}
    assert asked(store, names, 1) == {"B1": [("B2", ACCEPTED)], "B3": [("B2", ACCEPTED)]}
    found = parents(store, names, 1)
    assert (found["B1"], found["B3"]) == ("B2", "B2")
    assert "B2" not in found


def test_annex_8_broker_5_is_declined_twice(store: Store, names: dict[tuple[int, int], str]) -> None:
    """Broker 0 has no connection left after it accepted broker 4. Broker 4 is not in topic2. Broker 2 accepts 5."""
    assert asked(store, names, 2) == {
        "B4": [("B0", ACCEPTED)],
        "B5": [("B0", DECLINED), ("B4", DECLINED), ("B2", ACCEPTED)],
    }


def test_all_operations_are_finished_in_one_order(store: Store) -> None:
    report = audited(store, "ginger")
    assert broken(report) == {}
    assert [(run.verdict, run.within_bound) for run in report.runs] == [("valid", True)] * 3
    assert len(rows(store, "delivery")) == 3 * (3 * 9 + 2 * 6)
