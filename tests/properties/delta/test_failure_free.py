"""Without failures, message by message against networkx: who gets what, when, over how many links."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.engines.session import Session
from pipelines.experiment.build import build_run
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario

ZOO = Path(__file__).parents[3].parent / "shared" / "data" / "topologies" / "zoo" / "graphml.tar.gz"
NETWORKS = ("Abilene", "Geant2012", "Arpanet19728", "Bellcanada", "BtNorthAmerica", "Cesnet201006", "Garr201201",
            "Renater2010", "Sprint", "Uninett2011")  # fmt: skip
SUBSCRIBED, PUBLISHED = 0, 1000


def workload(draw: random.Random, names: list[str]) -> dict[str, Any]:
    """Some subscribers of two topics, and publications long after they are confirmed."""
    subscriptions = [
        {"at": name, "round": SUBSCRIBED + draw.randrange(5), "topic": draw.choice("ab")}
        for name in draw.sample(names, max(1, len(names) // 3))
    ]
    publications = [
        {"at": draw.choice(names), "round": PUBLISHED + draw.randrange(20), "topic": draw.choice("abc")}
        for _ in range(3)
    ]
    return {"subscriptions": subscriptions, "publications": publications}


def random_tree(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    n = draw.randrange(2, 25)
    names = [f"N{i}" for i in range(1, n + 1)]
    latency = {"uniform": [1, 4]} if seed % 2 else {"rounds": 1 + seed % 3}
    overlay = {"generate": {"kind": "random_tree", "nodes": n}, "latency": latency}
    protocol = {"name": "delta", "delta": seed % 4}
    return scenario(protocol=protocol, overlay=overlay, workload=workload(draw, names))


def zoo_network(name: str, seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    protocol = {"name": "delta", "delta": 1 + seed % 2}
    overlay = {"file": {"path": str(ZOO), "member": f"{name}.graphml"}}
    bare = scenario(protocol=protocol, overlay=overlay)
    names = list(build_run(run_configs([bare])[0], None)[0].names)
    return {**bare, "workload": workload(draw, names)}


def graph(overlay: Overlay) -> nx.Graph[int]:
    found: nx.Graph[int] = nx.Graph()
    found.add_nodes_from(range(len(overlay.names)))
    for a, b, latency in zip(overlay.a.tolist(), overlay.b.tolist(), overlay.latency_rounds.tolist(), strict=True):
        found.add_edge(a, b, weight=latency)
    return found


def check(scenarios: list[dict[str, Any]], session: Session, root: Path) -> None:
    """Runs all scenarios as one job and compares each run with what networkx says of it."""
    runs = run_configs(scenarios)
    store = run_all(runs, session, root)
    sent = count_messages(store)
    seen = {key[:4]: key[4:] for key in rows(
        store, "delivery", "run_id", "subscriber", "source", "source_seq", "round", "latency_rounds", "hops"
    )}  # fmt: skip
    published = rows(store, "publication", "run_id", "source", "source_seq", "issued_round", "topic", "confirmed_round")
    subscribed = rows(store, "subscription", "run_id", "subscriber", "predicate", "issued_round", "confirmed_round")
    expected = {}
    for run in runs:
        tree = graph(build_run(run, None)[0])
        hops = dict(nx.all_pairs_shortest_path_length(tree))
        rounds = dict(nx.all_pairs_dijkstra_path_length(tree))
        mine = [row[1:] for row in subscribed if row[0] == run.run_id]
        for subscriber, _, issued, confirmed in mine:
            assert confirmed == issued + 2 * max(rounds[subscriber].values())
        assert sum(sent[run.run_id, "SUB"].values()) == len(mine) * (len(tree) - 1)
        for source, seq, round_, topic, confirmed in (row[1:] for row in published if row[0] == run.run_id):
            to = {node for node, predicate, *_ in mine if predicate == f"topic = '{topic}'"}
            links = {frozenset(pair) for node in to for pair in nx.utils.pairwise(nx.shortest_path(tree, source, node))}
            assert sent[run.run_id, "PUB"].get((source, seq), 0) == len(links)
            assert sent[run.run_id, "CONF"].get((source, seq), 0) == len(links)
            assert confirmed == round_ + 2 * max((rounds[source][node] for node in to), default=0)
            for node in to:
                d = rounds[source][node]
                expected[run.run_id, node, source, seq] = (round_ + d, d, hops[source][node])
    assert seen == expected
    assert len(seen) == store.read("delivery").count()
    assert len(expected) > len(runs)


def count_messages(store: Store) -> dict[tuple[int, str], dict[tuple[int, int], int]]:
    """Counts messages by run, kind, and the call that they serve."""
    counts: dict[tuple[int, str], dict[tuple[int, int], int]] = {}
    found = store.read("message").groupBy("run_id", "kind", "source", "source_seq").count().toArrow().to_pylist()
    for row in found:
        counts.setdefault((row["run_id"], row["kind"]), {})[row["source"], row["source_seq"]] = row["count"]
    for run in {run for run, _ in counts}:
        for kind in ("PUB", "SUB", "CONF"):
            counts.setdefault((run, kind), {})
    return counts


def test_200_random_trees(sail: Session, tmp_path: Path) -> None:
    check([random_tree(seed) for seed in range(200)], sail, tmp_path)


def test_10_zoo_networks(sail: Session, tmp_path: Path) -> None:
    if not ZOO.exists():
        pytest.skip(f"the Topology Zoo is not at {ZOO}")
    check([zoo_network(name, seed) for seed, name in enumerate(NETWORKS)], sail, tmp_path)
