"""Audits of databases, tries, flooding and convergence find what is planted, by formulas of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.copies import Copy, Plant, Planting

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import added, copied, removed, replaced, rows, run_all, run_configs, scenario

NEWS = "news"
N = 5
LATE = 590


def ring(rounds: int) -> dict[str, Any]:
    subscribers = [{"at": f"N{number}", "topic": NEWS} for number in range(1, N + 1)]
    return scenario(
        protocol={"name": "skipring", "start": "legitimate", "start_publications": 4, "timeout_interval": 4,
                  "max_delay": 4},
        overlay={"nodes": {"count": N + 1, "supervisors": 2}},
        workload={"subscriptions": subscribers, "publications": [{"at": "N1", "round": 50, "topic": NEWS}]},
        time={"rounds": rounds},
    )  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("structure_skipring")


@pytest.fixture(scope="module")
def clean(sail: Session, root: Path) -> Store:
    """A run with time for everything."""
    return run_all(run_configs([ring(600)]), sail, root)


@pytest.fixture(scope="module")
def short(sail: Session, root: Path) -> Store:
    """A run with a short horizon."""
    return run_all(run_configs([ring(100)]), sail, root)


@pytest.fixture(scope="module")
def ids(clean: Store) -> dict[str, int]:
    return {name: node for node, name in rows(clean, "node", "node_id", "name")}


@pytest.fixture(scope="module")
def supervisor(clean: Store) -> tuple[str, int]:
    """The topic's supervisor."""
    names = dict(rows(clean, "node", "node_id", "name"))
    [(node,)] = set(rows(clean, "state_database_change", "node_id"))
    return names[node], node


def test_nothing_is_found_in_a_clean_run(clean: Store) -> Planting:
    [run] = yield [Plant(clean)]
    assert (run.verdict, run.broken) == ("valid", set())


# ---- databases


def test_a_tuple_of_another_subscriber(clean: Store, supervisor: tuple[str, int]) -> Planting:
    name, node = supervisor
    taken = dict(rows(clean, "state_database_change", "label", "subscriber"))
    other = taken["1"]
    change = added(run_id=0, node_id=node, topic=NEWS, round=LATE, label="01", subscriber=other, is_tuple=True)
    [run] = yield [Plant(clean, state_database_change=change)]
    assert run.broken == {"closure", "database", "repairs_database", "tells_database"}
    told = run.told("database")
    assert told == [(name, f"topic {NEWS}: label 01 is of node {other}, whose own label is 1")]


def test_a_label_that_is_missing(clean: Store, supervisor: tuple[str, int]) -> Planting:
    name, node = supervisor
    change = added(run_id=0, node_id=node, topic=NEWS, round=LATE, label="11", subscriber=None, is_tuple=False)
    [run] = yield [Plant(clean, state_database_change=change)]
    assert run.broken == {"closure", "database", "repairs_database", "tells_database"}
    told = run.told("database")
    assert told == [(name, f"topic {NEWS}: label 11 is missing in its database")]


def test_a_label_that_is_none_of_the_first(clean: Store, ids: dict[str, int], supervisor: tuple[str, int]) -> Planting:
    name, node = supervisor
    change = added(run_id=0, node_id=node, topic=NEWS, round=LATE, label="011", subscriber=ids["N1"], is_tuple=True)
    [run] = yield [Plant(clean, state_database_change=change)]
    told = run.told("database")
    assert told == [(name, f"topic {NEWS}: its database has label 011, which is none of the first {N}")]


def test_a_database_at_another_node(clean: Store, ids: dict[str, int]) -> Planting:
    change = added(run_id=0, node_id=ids["N2"], topic=NEWS, round=LATE, label="0", subscriber=ids["N1"], is_tuple=True)
    [run] = yield [Plant(clean, state_database_change=change)]
    assert run.broken == {"closure", "database", "repairs_database"}
    told = run.told("database")
    assert told == [("N2", f"topic {NEWS}: it has label 0 in a database, and is not the supervisor")]


# ---- tries


def trie_of(ids: dict[str, int], name: str, more: str) -> str:
    return f"node_id = {ids[name]} and {more}"


def ends(run: Copy) -> list[str]:
    """Returns the ends of the details of the violations of guarantee ``tries``."""
    return [detail.rpartition(": ")[2] for _, detail in run.told("tries")]


INNER, CALL = "publication is null", "coalesce(publication.source_seq, 0) > 0"


def test_hashes_that_do_not_fit(clean: Store, ids: dict[str, int]) -> Planting:
    change = replaced(trie_of(ids, "N2", CALL), hash="'00'")
    [run] = yield [Plant(clean, state_trie_node=change)]
    assert run.broken == {"tries"}
    told = run.told("tries")
    assert {node for node, _ in told} == {"N2"}
    assert set(ends(run)) == {"the hash of the leaf is not that of its key", "the hash is not that of the children"}


def test_children_that_do_not_fit(clean: Store, ids: dict[str, int]) -> Planting:
    lost, swapped = yield [
        Plant(clean, state_trie_node=removed(trie_of(ids, "N3", CALL))),
        Plant(clean, state_trie_node=replaced(trie_of(ids, "N3", INNER), zero="one")),
    ]
    assert "a child is missing" in ends(lost)
    assert "a child does not continue the label" in ends(swapped)
    assert "it has 2 parents" in ends(swapped)


def test_a_root_that_is_none(clean: Store, ids: dict[str, int]) -> Planting:
    of_n4 = f"node_id = {ids['N4']}"
    other, lost = yield [
        Plant(clean, state_trie_root=replaced(of_n4, label="'0101'")), Plant(clean, state_trie_root=removed(of_n4)),
    ]  # fmt: skip
    assert ends(other) == ["it has 0 parents"]
    assert set(ends(lost)) == {"the trie has no root"}


def test_a_key_of_another_publication(clean: Store, ids: dict[str, int]) -> Planting:
    forged = """named_struct('key', publication.key, 'source', publication.source, 'source_seq', 77L,
      'issued_round', publication.issued_round, 'hops', publication.hops)"""
    change = replaced(trie_of(ids, "N2", CALL), publication=forged)
    [run] = yield [Plant(clean, state_trie_node=change)]
    assert run.broken == {"published_everywhere", "tries"}
    assert ends(run) == ["the key is not that of its publisher, number and topic"]


# ---- flooding


def test_an_edge_without_a_copy(clean: Store, ids: dict[str, int]) -> Planting:
    text = "message_id", "src", "dst", "kind"
    number, dst = next((number, dst) for number, src, dst, kind in rows(clean, "message", *text)
                       if kind == "PublishNew" and src == ids["N1"])  # fmt: skip
    names = {node: name for name, node in ids.items()}
    [run] = yield [Plant(clean, message=removed(f"message_id = {number}"))]
    assert run.broken == {"flooding"}
    told = run.told("flooding")
    assert ("N1", f"takes it in round 50 and does not pass it on to its neighbour {names[dst]}") in told


def test_copies_that_are_too_many(clean: Store, ids: dict[str, int]) -> Planting:
    text = "message_id", "src", "dst", "kind", "fate", "source_seq"
    copies = [row for row in rows(clean, "message", *text) if row[3] == "PublishNew" and row[5] > 0]
    of_n1 = next(row[0] for row in copies if row[1] == ids["N1"])
    where = f"message_id = {of_n1}"
    late = {"sent_round": "300", "due_round": "302"}
    unlinked, again = yield [
        Plant(clean, message=copied(where, message_id="999999999", fate="'duplicate'", **to))
        for to in ({"dst": str(ids["N1"])}, late)
    ]
    assert unlinked.told("flooding") == [("N1", "passes it on to N1, which is no neighbour")]
    [(node, detail)] = again.told("flooding")
    assert node == "N1"
    assert detail.endswith("in round 300, when it takes no copy")


# ---- convergence


def test_a_ring_that_stands_still(clean: Store, supervisor: tuple[str, int]) -> Planting:
    """From the start a node has a wrong label, which 600 rounds do not heal."""
    change = replaced("round = -1 and label = '01'", label="'00001'")
    [run] = yield [Plant(clean, state_configuration_change=change)]
    [(node, detail)] = run.told("convergence")
    assert node == supervisor[0]
    assert detail.startswith(f"topic {NEWS} is not legitimate 6")
    assert "rounds after its last disturbance or fault: node" in detail
    assert detail.endswith("its potential has been at least 1 since round 0")
    assert run.verdict == "invalid"


def test_a_short_horizon_is_no_livelock(short: Store) -> Planting:
    change = replaced("round = -1 and label = '01'", label="'00001'")
    [run] = yield [Plant(short, state_configuration_change=change)]
    assert run.found("convergence") == []
    assert {row["guarantee"] for row in run.violations} == {"adopts_configuration"}, "the wrong label itself"
