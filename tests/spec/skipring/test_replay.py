"""The history of a run, played again, tells what was seen of its nodes (rules K9, K18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.skipring import INTERVAL, TOPIC, edges, history, network, rounds, state_of

from udfs.nodes.local import LocalNetwork
from udfs.skipring.labels import label_of, levels
from udfs.skipring.legitimate import Convergence, broken, max_degree, n_edges
from udfs.skipring.replay import BROKEN, CONVERGENCE, PROGRESS, TopicReplay, convergence, progress, violations

HORIZON = 60 * INTERVAL


def seen(played: LocalNetwork, since: int = 0, until: int = HORIZON) -> Convergence:
    """Plays a run, and looks at its nodes from a round on."""
    found = Convergence()
    for number in rounds(played, until):
        if number >= since:
            found.observe(number, state_of(TOPIC, played.up), played.in_flight)
    return found


def again(run: dict[str, Any]) -> TopicReplay:
    """Plays the history of a run."""
    topic = TopicReplay(run)
    assert [*topic.play()]
    return topic


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("start", ["arbitrary", "labels", "edges", "shortcuts", "database", "messages", "legitimate"])
def test_a_start_converges_in_the_same_rounds(start: str, seed: int) -> None:
    played = network(7, n_others=2, seed=seed, start=start, start_publications=2)
    found = seen(played)
    last = again(history(played)).disturbances[-1]
    assert last.cause == "start"
    assert replace(last.seen, broken_round=None) == replace(found, broken_round=None)
    assert last.changed_round == found.broken_round


def test_an_interrupted_run_has_the_same_reason() -> None:
    reasons = set()
    for until in range(0, 10 * INTERVAL, 3):
        played = network(6, seed=3, start="arbitrary")
        found = seen(played, until=until)
        last = again(history(played)).disturbances[-1].seen
        assert last == found
        reasons.add(found.problem)
    assert len(reasons) > 3


@pytest.mark.parametrize("seed", range(4))
def test_each_disturbance_is_healed_on_its_own(seed: int) -> None:
    joins, leaves, crash = 10 * INTERVAL, 25 * INTERVAL, 40 * INTERVAL
    played = network(8, n_others=1, start_until=0, seed=seed)
    played.call(9, "subscribe", joins, subscription_id=99, topic=TOPIC)
    played.call(3, "unsubscribe", leaves, subscription_id=3)
    played.crash(5, crash)
    found = seen(played, since=crash, until=80 * INTERVAL)
    all_of = again(history(played, n5=crash))
    assert [(one.round, one.cause, one.node, one.n_subscribers) for one in all_of.disturbances] == [
        (0, "start", None, 8), (joins, "subscribe", 9, 9), (leaves, "unsubscribe", 3, 8), (crash, "crash", 5, 7),
    ]  # fmt: skip
    assert all(one.seen.clean_round is not None and one.changed_round is None for one in all_of.disturbances)
    assert all_of.disturbances[-1].seen == found
    assert all_of.disturbances[1].n_configurations <= 2 * 4
    assert all_of.broken == []


def test_a_change_after_all_was_clean_is_found() -> None:
    played = network(5)
    played.play(HORIZON)
    run = history(played)
    wrong = dict(run["configurations"][0], round=HORIZON - 3, label="00001", left={"node": 77, "label": "01"})
    topic = again(run | {"configurations": [*run["configurations"], wrong]})
    node = wrong["node_id"]
    assert topic.disturbances[-1].changed_round == HORIZON - 3
    assert "does not have its label" in str(topic.disturbances[-1].seen.problem)
    assert [(one.guarantee, one.round, one.node) for one in topic.broken][:2] == [
        ("closure", HORIZON - 3, node), ("departed", HORIZON - 3, node),
    ]  # fmt: skip
    assert "labels" in {one.guarantee for one in topic.broken}


def test_a_database_is_gone_with_the_node_that_should_not_have_one() -> None:
    """Node 6 is no subscriber, starts with a database, and crashes in round 3."""
    played = network(5, n_others=1)
    played.play(HORIZON)
    run = history(played, n6=3)
    stray = {**run["databases"][0], "node_id": 6}
    seen = again(run | {"databases": [stray, *run["databases"]]}).disturbances[-1].seen
    assert (seen.clean_round, seen.problem) == (3, None)


def test_labels_and_records_are_counted() -> None:
    played = network(6, start="empty")
    played.play(HORIZON)
    run = history(played)
    [rows] = progress([pa.RecordBatch.from_pylist([run | {"messages": run["messages"].to_pylist()}])])
    first, *_, last = rows.to_pylist()
    assert (first["n_subscribers"], first["n_recorded"], first["n_wrong_labels"]) == (6, 0, 6)
    assert (last["n_recorded"], last["n_wrong_labels"], last["max_degree"]) == (6, 0, max_degree(6))


def test_rows_fit_their_columns() -> None:
    played = network(4, start="empty")
    played.play(10 * INTERVAL)
    run = history(played)
    batch = pa.RecordBatch.from_pylist([run | {"messages": run["messages"].to_pylist()}])
    for made, columns in ((convergence, CONVERGENCE), (progress, PROGRESS), (violations, BROKEN)):
        [rows] = made([batch])
        assert rows.schema.names == [name for name, _ in columns]
        assert bool(rows.num_rows) == (made is not violations)


@pytest.mark.parametrize("n", [*range(1, 40), 64, 100])
def test_the_skip_ring_is_within_its_formulas(n: int) -> None:
    near: dict[int, set[int]] = {index: set() for index in range(n)}
    index = {label_of(place): place for place in range(n)}
    for _, one, other in edges(n) if n > 1 else ():
        near[index[one]].add(index[other])
    assert [*broken(near)] == []
    both = {node: near[node] | {other for other in near if node in near[other]} for node in near}
    assert max(map(len, both.values())) == max_degree(n)
    assert sum(map(len, both.values())) == 2 * n_edges(n)


def test_what_is_no_skip_ring_is_found() -> None:
    line = {node: {node + 1} for node in range(7)} | {7: set()}
    found = [detail for _, detail in broken(line)]
    assert found == [
        "the ring of 8 has 7 edges, and SR(8) has 13",
        f"it has 7 hops to another one, and in SR(8) {levels(8)} are enough",
    ]
    star = {0: set(range(1, 8))} | {node: set() for node in range(1, 8)}
    assert "it has 7 neighbours, and in SR(8) nobody has more than 5" in [detail for _, detail in broken(star)]
    parts = {0: {1}, 1: set(), 2: {3}, 3: set()}
    assert "it does not reach all others, and in SR(4) 2 are enough" in [detail for _, detail in broken(parts)]
