"""Joins, alone and concurrent: Eq. (1) and routing afterwards, message counts, and calls that wait for them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from support.one_job import Stores

from pipelines.contract.run_inputs import Overlay
from pipelines.engines.session import Session
from pipelines.experiment.build import build_run
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario


def tree(overlay: Overlay) -> nx.Graph[int]:
    found: nx.Graph[int] = nx.Graph()
    found.add_nodes_from(range(len(overlay.names)))
    found.add_edges_from(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    return found


def joining_tree(seed: int) -> dict[str, Any]:
    """A tree in which every link is made by a join, while nodes subscribe, unsubscribe and publish."""
    draw = random.Random(seed)
    n = draw.randrange(2, 16)
    names = [f"N{i}" for i in range(1, n + 1)]
    overlay = {
        "generate": {"kind": "random_tree", "nodes": n}, "start": "joining",
        "latency": {"uniform": [1, 3]} if seed % 2 else {"rounds": 1},
    }  # fmt: skip
    subscriptions = [
        {"at": draw.choice(names), "round": draw.randrange(40), "topic": "t"}
        | ({"until": 60} if draw.random() < 0.3 else {})
        for _ in range(4)
    ]
    publications = [{"at": draw.choice(names), "round": draw.randrange(80), "topic": "t"} for _ in range(4)]
    publications.append({"at": names[0], "round": 2000, "topic": "t"})
    work = {"subscriptions": subscriptions, "publications": publications}
    return scenario(protocol={"name": "delta", "delta": seed % 5}, overlay=overlay, workload=work)


def late_joiners(seed: int) -> dict[str, Any]:
    """A standing tree that leaves join in small waves, several in one round."""
    draw = random.Random(seed)
    grown = nx.random_labeled_rooted_tree(draw.randrange(3, 16), seed=seed)
    names = [f"N{node}" for node in grown]
    links = [[f"N{a}", f"N{b}"] for a, b in grown.edges]
    leaves = [node for node in grown if grown.degree(node) == 1]
    joiners = draw.sample(leaves, len(leaves) // 2)
    if len(grown) - len(joiners) < 2:
        joiners = []
    joins = [
        {"node": f"N{node}", "to": f"N{next(iter(grown[node]))}", "round": 10 + draw.randrange(3)} for node in joiners
    ]
    subscriptions = [{"at": draw.choice(names), "round": draw.randrange(15), "topic": "t"} for _ in range(3)]
    publications = [{"at": draw.choice(names), "round": 1000, "topic": "t"}]
    work = {"subscriptions": subscriptions, "publications": publications, "joins": joins}
    return scenario(protocol={"name": "delta", "delta": seed % 5}, overlay={"links": links}, workload=work)


def check(runs: list[RunConfig], store: Store) -> None:
    """Eq. (1) and Level-2 at every node of every run, and a delivery of the last publication to every subscriber."""
    views = _by_run(rows(store, "state_topology", "run_id", "node_id", "a", "b", "is_marked"))
    entries = _by_run(
        rows(store, "state_routing_entry", "run_id", "node_id", "subscription_id", "origin", "responsible")
    )
    subscribed = _by_run(rows(store, "subscription", "run_id", "subscription_id", "subscriber", "unsubscribed_round"))
    delivered = _by_run(rows(store, "delivery", "run_id", "subscriber", "source", "source_seq"))
    published = _by_run(rows(store, "publication", "run_id", "source", "source_seq", "issued_round", "confirmed_round"))
    assert store.read("state_processing").count() == 0
    assert store.read("state_call").count() == 0
    assert store.read("state_join_request").count() == 0
    for run in runs:
        graph = tree(build_run(run, None)[0])
        paths = dict(nx.all_pairs_shortest_path(graph))
        reach = run.scenario.protocol.delta + 1
        near = {node: {other for other in graph if len(paths[node][other]) - 1 <= reach} for node in graph}
        expected_view = {
            (node, min(link), max(link), False) for node in graph for link in graph.edges if set(link) <= near[node]
        }
        assert set(views.get(run.run_id, [])) == expected_view
        assert len(views.get(run.run_id, [])) == len(expected_view)
        stays = {(number, node) for number, node, left in subscribed.get(run.run_id, []) if left is None}
        expected_entries = set()
        for number, subscriber in stays:
            for node in graph:
                path = paths[node][subscriber]
                expected_entries.add((node, number, path[min(reach, len(path) - 1)], path[min(1, len(path) - 1)]))
        assert set(entries.get(run.run_id, [])) == expected_entries
        assert len(entries.get(run.run_id, [])) == len(expected_entries)
        last = max(published[run.run_id], key=lambda row: row[2])
        assert last[3] is not None
        got = [node for node, source, seq in delivered.get(run.run_id, []) if (source, seq) == last[:2]]
        assert sorted(got) == sorted({node for _, node in stays})


def _by_run(found: list[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    grouped: dict[int, list[tuple[Any, ...]]] = {}
    for run, *rest in found:
        grouped.setdefault(run, []).append(tuple(rest))
    return grouped


def delta_runs() -> dict[str, list[RunConfig]]:
    return {"joining": run_configs([joining_tree(seed) for seed in range(60)])}


def test_every_link_by_a_join(stores: Stores) -> None:
    store = stores("joining")
    check(delta_runs()["joining"], store)
    status = rows(store, "node_status", "run_id", "node_id", "status")
    nodes = rows(store, "node", "run_id", "node_id")
    assert {row[:2] for row in status if row[2] == "VALID_JOINED"} == set(nodes)
    kinds = {kind for (kind,) in rows(store, "message", "kind")}
    assert {"JOIN_REQUEST", "PAR_TOP", "PAR_SUB", "J", "SUB", "UNSUB", "PUB", "CONF"} == kinds


def test_waves_of_concurrent_joins(sail: Session, tmp_path: Path) -> None:
    runs = run_configs([late_joiners(seed) for seed in range(100)])
    check(runs, run_all(runs, sail, tmp_path))


@pytest.mark.parametrize("latency", [1, 3])
def test_a_join_alone(sail: Session, tmp_path: Path, latency: int) -> None:
    """J messages = nodes within δ of the join point, the joiner left out; 2 + 2(1 + their distance) rounds."""
    links = [["A", "B"], ["B", "C"], ["C", "D"], ["D", "E"], ["B", "F"], ["F", "N"]]
    work = {"joins": [{"node": "N", "to": "F", "round": 10}]}
    overlay = {"links": links, "latency": {"rounds": latency}}
    scenarios = [
        scenario(protocol={"name": "delta", "delta": delta}, overlay=overlay, workload=work) for delta in range(5)
    ]
    store = run_all(run_configs(scenarios), sail, tmp_path)
    distances = nx.single_source_shortest_path_length(nx.Graph(links), "F")
    del distances["N"]
    sent = rows(store, "message", "run_id", "kind")
    joined = {run: round_ for run, round_, status in rows(store, "node_status", "run_id", "round", "status")
              if status == "VALID_JOINED" and round_ > 0}  # fmt: skip
    for delta in range(5):
        scope = [d for d in distances.values() if d <= delta]
        assert sent.count((delta, "J")) == len(scope)
        assert sent.count((delta, "CONF")) == len(scope)
        assert joined[delta] == 10 + latency * (2 + 2 * (1 + max(scope)))


def test_calls_wait_for_the_join(sail: Session, tmp_path: Path) -> None:
    """What a node publishes or subscribes before it is VALID_JOINED is issued in the round in which it is."""
    work = {
        "joins": [{"node": "N", "to": "B", "round": 10}],
        "subscriptions": [{"at": "A", "topic": "t"}, {"at": "N", "round": 11, "topic": "t"}],
        "publications": [{"at": "N", "round": 11, "topic": "t"}, {"at": "A", "round": 100, "topic": "t"}],
    }
    parts = scenario(protocol={"name": "delta", "delta": 1}, overlay={"links": [["A", "B"], ["B", "N"]]}, workload=work)
    store = run_all(run_configs([parts]), sail, tmp_path)
    joined = 10 + 2 + 2 * (1 + 1)
    assert rows(store, "publication", "source", "source_seq", "issued_round") == [(0, 2, 100), (2, 3, joined)]
    assert rows(store, "subscription", "subscriber", "issued_round", "confirmed_round") == [
        (0, 0, 2), (2, joined, joined + 4),
    ]  # fmt: skip
    assert rows(store, "delivery", "subscriber", "source", "round") == [(0, 0, 100), (0, 2, joined + 2), (2, 0, 102)]
