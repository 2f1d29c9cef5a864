"""Names and the order of the input mean nothing: the history is the same up to the relabelling."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import pytest

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario


def original(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    tree = nx.random_labeled_tree(12, seed=seed)
    links = [[f"N{a}", f"N{b}", 1 + (a * b) % 3] for a, b in tree.edges]
    names = [f"N{node}" for node in tree]
    subscriptions = [{"at": name, "round": draw.randrange(4), "topic": "t"} for name in draw.sample(names, 4)]
    subscriptions.append({"at": names[3], "where": "price > 10 and symbol prefix A", "until": 60})
    publications = [
        {"at": draw.choice(names), "round": 50 + place, "topic": "t", "content": {"price": 5 * place, "symbol": "AB"}}
        for place in range(5)
    ]
    workload = {"subscriptions": subscriptions, "publications": publications}
    return scenario(protocol={"name": "delta", "delta": seed % 3}, overlay={"links": links}, workload=workload)


def renamed(parts: dict[str, Any], names: dict[str, str], draw: random.Random) -> dict[str, Any]:
    """The same experiment with other names and its lists in another order; one node's calls keep theirs."""
    links = [[names[a], names[b], latency] for a, b, latency in parts["overlay"]["links"]]
    draw.shuffle(links)
    work = {kind: [{**call, "at": names[call["at"]]} for call in calls] for kind, calls in parts["workload"].items()}
    work["subscriptions"].sort(key=lambda call: call["at"])
    work["publications"].sort(key=lambda call: call["at"])
    return {**parts, "overlay": {"links": links}, "workload": work}


def outcome(store: Store, run: int, names: dict[str, str]) -> dict[str, list[Any]]:
    """What happened, told by original names."""
    name = {
        node: names[text] for number, node, text in rows(store, "node", "run_id", "node_id", "name") if number == run
    }
    told: dict[str, list[Any]] = {}
    for table, nodes, columns in (
        ("delivery", 2, ("subscriber", "source", "source_seq", "round", "latency_rounds", "hops")),
        ("publication", 1, ("source", "source_seq", "issued_round", "content", "confirmed_round")),
        ("subscription", 1, ("subscriber", "predicate", "issued_round", "confirmed_round", "ended_round")),
        ("message", 2, ("src", "dst", "kind", "sent_round", "due_round", "fate", "source_seq")),
        ("state_topology", 1, ("node_id", "is_marked")),
        ("state_path", 2, ("node_id", "target", "distance")),
    ):
        found = [row[1:] for row in rows(store, table, "run_id", *columns) if row[0] == run]
        told[table] = sorted(((*(name[node] for node in row[:nodes]), *row[nodes:]) for row in found), key=repr)
    return told


SEEDS = range(3)


def relabelled(seed: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Returns an experiment, the same with other names and in another order, and the new names by the old ones."""
    draw = random.Random(seed + 100)
    parts = original(seed)
    old = sorted({end for link in parts["overlay"]["links"] for end in link[:2]})
    new = [f"X{place}" for place in range(len(old))]
    draw.shuffle(new)
    names = dict(zip(old, new, strict=True))
    return parts, renamed(parts, names, draw), names


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Runs 2 n and 2 n + 1 are those of seed n."""
    runs = run_configs([parts for seed in SEEDS for parts in relabelled(seed)[:2]])
    return run_all(runs, sail, tmp_path_factory.mktemp("relabelled"))


@pytest.mark.parametrize("seed", SEEDS)
def test_relabelled_and_shuffled(store: Store, seed: int) -> None:
    names = relabelled(seed)[2]
    first = outcome(store, 2 * seed, {name: name for name in names})
    second = outcome(store, 2 * seed + 1, {changed: name for name, changed in names.items()})
    assert first == second
    assert first["delivery"]
