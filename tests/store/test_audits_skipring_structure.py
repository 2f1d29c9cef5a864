"""Audits of databases, tries, flooding and convergence find what is planted, by formulas of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import (
    Change,
    added,
    audited,
    broken,
    copied,
    found,
    planted,
    removed,
    replaced,
    rows,
    run_all,
    run_configs,
    scenario,
)

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
def ids(clean: Store) -> dict[str, int]:
    return {name: node for run, node, name in rows(clean, "node", "run_id", "node_id", "name") if run == 0}


@pytest.fixture(scope="module")
def supervisor(clean: Store) -> tuple[str, int]:
    """The topic's supervisor."""
    names = {node: name for run, node, name in rows(clean, "node", "run_id", "node_id", "name") if run == 0}
    [node] = {node for run, node in rows(clean, "state_database_change", "run_id", "node_id") if run == 0}
    return names[node], node


def details(clean: Store, root: Path, audit: str, **changes: Change) -> list[tuple[str, str]]:
    """Returns node and detail of what an audit finds in run 0 once something is planted."""
    store = planted(clean, root, **changes)
    return [(node, detail) for run, node, _, _, detail in found(store, audit, "skipring") if run == 0]


def test_nothing_is_found_in_a_clean_run(clean: Store) -> None:
    report = audited(clean, "skipring")
    assert (report.verdict, broken(report)) == ("valid", {})


# ---- databases


def test_a_tuple_of_another_subscriber(
    clean: Store, root: Path, ids: dict[str, int], supervisor: tuple[str, int]
) -> None:
    name, node = supervisor
    taken = {label: subscriber for run, label, subscriber in
             rows(clean, "state_database_change", "run_id", "label", "subscriber") if run == 0}  # fmt: skip
    other = taken["1"]
    change = added(run_id=0, node_id=node, topic=NEWS, round=LATE, label="01", subscriber=other, is_tuple=True)
    told = details(clean, root, "database", state_database_change=change)
    assert told == [(name, f"topic {NEWS}: label 01 is of node {other}, whose own label is 1")]


def test_a_label_that_is_missing(clean: Store, root: Path, supervisor: tuple[str, int]) -> None:
    name, node = supervisor
    change = added(run_id=0, node_id=node, topic=NEWS, round=LATE, label="11", subscriber=None, is_tuple=False)
    told = details(clean, root, "database", state_database_change=change)
    assert told == [(name, f"topic {NEWS}: label 11 is missing in its database")]


def test_a_label_that_is_none_of_the_first(
    clean: Store, root: Path, ids: dict[str, int], supervisor: tuple[str, int]
) -> None:
    name, node = supervisor
    change = added(run_id=0, node_id=node, topic=NEWS, round=LATE, label="011", subscriber=ids["N1"], is_tuple=True)
    told = details(clean, root, "database", state_database_change=change)
    assert told == [(name, f"topic {NEWS}: its database has label 011, which is none of the first {N}")]


def test_a_database_at_another_node(clean: Store, root: Path, ids: dict[str, int]) -> None:
    change = added(run_id=0, node_id=ids["N2"], topic=NEWS, round=LATE, label="0", subscriber=ids["N1"], is_tuple=True)
    told = details(clean, root, "database", state_database_change=change)
    assert told == [("N2", f"topic {NEWS}: it has label 0 in a database, and is not the supervisor")]


# ---- tries


def trie_of(ids: dict[str, int], name: str, more: str) -> str:
    return f"run_id = 0 and node_id = {ids[name]} and {more}"


INNER, CALL = "publication is null", "coalesce(publication.source_seq, 0) > 0"


def test_hashes_that_do_not_fit(clean: Store, root: Path, ids: dict[str, int]) -> None:
    change = replaced(trie_of(ids, "N2", CALL), hash="'00'")
    told = details(clean, root, "tries", state_trie_node=change)
    assert {node for node, _ in told} == {"N2"}
    ends = {detail.rpartition(": ")[2] for _, detail in told}
    assert ends == {"the hash of the leaf is not that of its key", "the hash is not that of the children"}


def test_children_that_do_not_fit(clean: Store, root: Path, ids: dict[str, int]) -> None:
    lost = details(clean, root, "tries", state_trie_node=removed(trie_of(ids, "N3", CALL)))
    assert "a child is missing" in {detail.rpartition(": ")[2] for _, detail in lost}
    change = replaced(trie_of(ids, "N3", INNER), zero="one")
    swapped = {detail.rpartition(": ")[2] for _, detail in details(clean, root, "tries", state_trie_node=change)}
    assert "a child does not continue the label" in swapped
    assert "it has 2 parents" in swapped


def test_a_root_that_is_none(clean: Store, root: Path, ids: dict[str, int]) -> None:
    change = replaced(f"run_id = 0 and node_id = {ids['N4']}", label="'0101'")
    told = details(clean, root, "tries", state_trie_root=change)
    assert [detail.rpartition(": ")[2] for _, detail in told] == ["it has 0 parents"]
    lost = details(clean, root, "tries", state_trie_root=removed(f"run_id = 0 and node_id = {ids['N4']}"))
    assert {detail.rpartition(": ")[2] for _, detail in lost} == {"the trie has no root"}


def test_a_key_of_another_publication(clean: Store, root: Path, ids: dict[str, int]) -> None:
    forged = """named_struct('key', publication.key, 'source', publication.source, 'source_seq', 77L,
      'issued_round', publication.issued_round, 'hops', publication.hops)"""
    change = replaced(trie_of(ids, "N2", CALL), publication=forged)
    told = details(clean, root, "tries", state_trie_node=change)
    assert [detail.rpartition(": ")[2] for _, detail in told] == [
        "the key is not that of its publisher, number and topic"
    ]


# ---- flooding


def test_an_edge_without_a_copy(clean: Store, root: Path, ids: dict[str, int]) -> None:
    text = "run_id", "message_id", "src", "dst", "kind"
    number, dst = next((number, dst) for run, number, src, dst, kind in rows(clean, "message", *text)
                       if run == 0 and kind == "PublishNew" and src == ids["N1"])  # fmt: skip
    names = {node: name for name, node in ids.items()}
    told = details(clean, root, "flooding", message=removed(f"run_id = 0 and message_id = {number}"))
    assert ("N1", f"takes it in round 50 and does not pass it on to its neighbour {names[dst]}") in told


def test_copies_that_are_too_many(clean: Store, root: Path, ids: dict[str, int]) -> None:
    text = "run_id", "message_id", "src", "dst", "kind", "fate", "source_seq"
    copies = [row for row in rows(clean, "message", *text) if row[0] == 0 and row[4] == "PublishNew" and row[6] > 0]
    of_n1 = next(row[1] for row in copies if row[2] == ids["N1"])
    where = f"run_id = 0 and message_id = {of_n1}"
    change = copied(where, message_id="999999999", dst=str(ids["N1"]), fate="'duplicate'")
    assert details(clean, root, "flooding", message=change) == [("N1", "passes it on to N1, which is no neighbour")]
    change = copied(where, message_id="999999999", sent_round="300", due_round="302", fate="'duplicate'")
    [(node, detail)] = details(clean, root, "flooding", message=change)
    assert node == "N1"
    assert detail.endswith("in round 300, when it takes no copy")


# ---- convergence


def test_a_ring_that_stands_still(clean: Store, root: Path, ids: dict[str, int], supervisor: tuple[str, int]) -> None:
    """From the start a node has a wrong label, which 600 rounds do not heal."""
    change = replaced("round = -1 and label = '01'", label="'00001'")
    store = planted(clean, root, state_configuration_change=change)
    [(run, node, _, _, detail)] = found(store, "convergence", "skipring")
    assert (run, node) == (0, supervisor[0])
    assert detail.startswith(f"topic {NEWS} is not legitimate 6")
    assert "rounds after its last disturbance or fault: node" in detail
    assert detail.endswith("its potential has been at least 1 since round 0")
    assert audited(store, "skipring").verdict == "invalid"


def test_a_short_horizon_is_no_livelock(sail: Session, root: Path) -> None:
    change = replaced("round = -1 and label = '01'", label="'00001'")
    store = planted(run_all(run_configs([ring(100)]), sail, root), root, state_configuration_change=change)
    assert found(store, "convergence", "skipring") == []
    broken = {one.name for one in audited(store, "skipring").findings if one.n_violations != 0}
    assert broken == {"adopts_configuration"}, "the wrong label itself"
