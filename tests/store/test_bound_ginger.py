"""What the bound of protocol ginger is computed from is read from a store run by run.

D - A - R - B - J      run 0: A fails
    |       |          run 1: nothing fails
    CA      CB         run 2: R and A fail at once, then B, where J joins; A comes back. A link is slow for a while.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.protocols.ginger import BOUND_INPUT, beyond
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import run_all, run_configs, scenario

LINKS = {("R", "A"): 2, ("R", "B"): 1, ("A", "D"): 3, ("B", "J"): 4}
CLIENTS = {"CA": "A", "CB": "B"}
FAULTS: list[list[dict[str, Any]]] = [
    [{"kind": "crash", "node": "A", "round": 208}],
    [],
    [
        {"kind": "crash", "node": "R", "round": 208},
        {"kind": "crash", "node": "A", "round": 208, "until": 400},
        {"kind": "crash", "node": "B", "round": 300},
        {"kind": "delay", "links": [["R", "B"]], "round": 20, "until": 30, "rounds": [5, 5]},
    ],
]


def parts(run: int) -> dict[str, Any]:
    """A run; links and the round in which CB subscribes differ in each."""
    return scenario(
        protocol={"name": "ginger", "max_hops": 3, "timer_rounds": 60, "root": "R"},
        overlay={
            "links": [[*pair, rounds + run] for pair, rounds in LINKS.items()],
            "clients": [{"name": name, "at": at} for name, at in CLIENTS.items()],
        },
        workload={
            "subscriptions": [
                {"at": "CA", "topic": "t"},
                {"at": "CB", "topic": "u", "round": 10 + run},
            ],
            "joins": [{"node": "J", "to": "B", "round": 350}],
        },
        faults=FAULTS[run],
    ) | {"time": {"rounds": 600}}


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return run_all(run_configs([parts(run) for run in range(3)]), sail, tmp_path_factory.mktemp("bound"))


def named(store: Store) -> list[dict[str, Any]]:
    """The runs that the bound is computed for, with names in place of ids."""
    found = []
    for run in StoreReader(store.session, store.root).sql(BOUND_INPUT).toArrow().to_pylist():
        names = {node["node_id"]: node["name"] for node in run["nodes"]}
        found.append({
            "run": run["run_id"],
            "parameters": json.loads(run["parameters"]),
            "clients": {node["name"] for node in run["nodes"] if node["role"] == "client"},
            "links": {(names[of["src"]], names[of["dst"]]): of["latency_rounds"] for of in run["links"]},
            "faults": [(of["round"], of["kind"], names[of["node_id"]]) for of in run["faults"]],
            "subscribed": [(names[of["subscriber"]], of["topic"], of["issued_round"]) for of in run["subscriptions"]],
            "joins": [(names[of["node_id"]], names[of["contact"]], of["issued_round"]) for of in run["joins"]],
        })  # fmt: skip
    return sorted(found, key=lambda run: run["run"])


def test_runs_with_crashes_are_read_as_their_scenarios_have_them(store: Store) -> None:
    """The join of run 0 is over; that of run 2 goes to a broker that failed."""
    first, last = named(store)
    assert (first["run"], last["run"]) == (0, 2)
    for run, of in ((0, first), (2, last)):
        assert of["parameters"]["protocol.max_hops"] == 3
        assert of["clients"] == {*CLIENTS}
        links = {pair: rounds + run for pair, rounds in LINKS.items()} | dict.fromkeys(CLIENTS.items(), 1)
        assert of["links"] == links | {(other, one): rounds for (one, other), rounds in links.items()}
        assert of["subscribed"] == [("CA", "t", 0), ("CB", "u", 10 + run)]
    assert first["faults"] == [(208, "crash", "A")]
    assert last["faults"] == [
        (208, "crash", "R"), (208, "crash", "A"), (300, "crash", "B"), (400, "recovery", "A")
    ]  # fmt: skip
    assert (first["joins"], last["joins"]) == ([("J", "B", None)], [("J", "B", 350)])


def test_each_reason_is_told_with_its_run(store: Store) -> None:
    found = beyond(StoreReader(store.session, store.root)).toArrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (2, 208, "all brokers of the sub-tree of t failed before a repair ended"),
        (2, 208, "all brokers of the sub-tree of u failed before a repair ended"),
        (2, 208, "all brokers that CB sees failed"),
        (2, 208, "nodes crash, and messages take longer than links do or wait for nodes that pause"),
        (2, 350, "J joins at B, which is down"),
    ]


def test_the_first_broker_that_does_not_join_is_the_root(sail: Session, tmp_path: Path) -> None:
    """B0, the first broker, joins; B2 fails, and B1 with the clients remains."""
    joining = scenario(
        protocol={"name": "ginger"},
        overlay={"links": [["B0", "B1"], ["B1", "B2"]], "clients": [{"name": "C", "at": "B1"}]},
        workload={
            "subscriptions": [{"at": "C", "topic": "t"}],
            "publications": [{"at": "C", "round": 150, "topic": "t", "guarantee": "total", "keys": ["k"]}],
            "joins": [{"node": "B0", "to": "B1", "round": 60}],
        },
        faults=[{"kind": "crash", "node": "B2", "round": 120}],
    )
    joined = run_all(run_configs([joining | {"time": {"rounds": 1500}}]), sail, tmp_path)
    assert beyond(StoreReader(joined.session, joined.root)).toArrow().to_pylist() == []
