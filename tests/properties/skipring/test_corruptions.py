"""Corruptions that the model allows beside labels and edges: each kind occurs in starts, and each is healed (K21, K22).

Requests at nodes that are not the topic's supervisor, databases there, false verdicts, invalid labels, publications
with wrong keys, tries that are none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from support.skipring import INTERVAL, TOPIC, converge, has_same_tries, network, state_of

from udfs.nodes.local import LocalNetwork
from udfs.skipring.labels import Label, label_of
from udfs.skipring.messages import REQUESTS, Publish, PublishNew
from udfs.skipring.state import Contact, Crashed, Database, Neighbour, responsible
from udfs.skipring.trie import Publication, Root, TrieNode, has_right_key, publication_key, repair_tries

HORIZON = 200 * INTERVAL
KEY_BITS, HASH_BITS = 32, 64
LONG = Label(70, 5)


def supervisor_of(played: LocalNetwork) -> int:
    return responsible(TOPIC, played.node(-1).supervisor.values())


def sound(played: LocalNetwork) -> bool:
    """Returns whether all tries are as `repair_tries` leaves them."""
    for program in played.up.values():
        nodes, roots = ({key: replace(one) for key, one in held.items()}
                        for held in (program.trie_node, program.trie_root))  # fmt: skip
        repair_tries(nodes, roots, KEY_BITS, HASH_BITS)
        if (nodes, roots) != (program.trie_node, program.trie_root):
            return False
    return True


def labels_of(played: LocalNetwork) -> list[Label]:
    """Returns all labels in the state of nodes and in messages."""
    found: list[Label | None] = []
    for program in played.up.values():
        for own in program.subscription.values():
            found += [own.label, *own.short, *(one.label for one in own.on_ring())]
        found += [label for one in program.database.values() for label in one.entries]
    for flight in played.in_flight:
        for name in ("label", "believed", "predecessor", "successor"):
            one = getattr(flight.message, name, None)
            found.append(one.label if isinstance(one, Contact) else one)
    return [one for one in found if one is not None]


def publications_of(played: LocalNetwork) -> list[Publication]:
    """Returns the publications of messages in flight."""
    found: list[Publication] = []
    for one in (flight.message for flight in played.in_flight):
        if isinstance(one, PublishNew):
            found.append(Publication(one.key, one.source, one.source_seq, one.issued_round, one.hops))
        elif isinstance(one, Publish):
            found += one.publications
    return found


def test_starts_contain_every_kind() -> None:
    seen: Counter[str] = Counter()
    for seed in range(24):
        played = network(8, n_others=2, n_supervisors=2, seed=seed, start="arbitrary", start_publications=6)
        supervisor = supervisor_of(played)
        served = [one for one in played.in_flight if isinstance(one.message, REQUESTS)]
        seen["request at its supervisor"] += sum(one.dst == supervisor for one in served)
        seen["request at another supervisor"] += sum(one.dst < 0 and one.dst != supervisor for one in served)
        seen["request at a subscriber"] += sum(one.dst > 0 for one in served)
        seen["stray database"] += sum(node != supervisor and bool(one.database) for node, one in played.up.items())
        seen["false verdict"] += len(played.node(supervisor).crashed)
        seen["long label"] += sum(one.bits > 62 for one in labels_of(played))
        seen["trailing zero"] += sum(one.bits <= 62 and not one.is_valid for one in labels_of(played))
        for one in publications_of(played):
            is_long = len(one.key) != KEY_BITS
            is_right = has_right_key(TOPIC, one, KEY_BITS)
            seen["right key" if is_right else "key of another length" if is_long else "wrong key"] += 1
        leaves = [one for node in played.up.values() for one in node.trie_node.values() if one.publication]
        seen["leaf of another length"] += sum(len(one.label) != KEY_BITS for one in leaves)
        seen["unsound tries"] += not sound(played)
    assert {kind for kind, count in seen.items() if count < 5} == set()
    assert len(seen) == 12


@pytest.mark.parametrize("request_class", REQUESTS)
@pytest.mark.parametrize("at", ["subscriber", "supervisor"])
def test_a_request_at_another_node_is_ignored(request_class: type, at: str) -> None:
    """Such a node created a database, and handed out configurations for ever."""
    played = network(6, n_supervisors=2, seed=2, start="messages")
    other = 3 if at == "subscriber" else -3 - supervisor_of(played)
    rest: dict[str, Any] = {"subscriber": 2} if request_class is REQUESTS[2] else {}
    if request_class is REQUESTS[1]:
        rest = {"reason": "label"}
    [first, *_] = played.in_flight
    played.in_flight[:] = [first._replace(kind=request_class.__name__, src=2, dst=other, due_round=3,
                                         message=request_class(TOPIC, **rest))]  # fmt: skip
    found = converge(played, HORIZON, after=30 * INTERVAL)
    assert (found.clean_round is not None, found.broken_round) == (True, None)
    assert TOPIC not in played.node(other).database


def test_a_database_at_another_node_vanishes() -> None:
    played = network(6, n_supervisors=2)
    supervisor = supervisor_of(played)
    for node in (3, -3 - supervisor):
        played.node(node).database[TOPIC] = Database(TOPIC, 1, {label_of(0): 5, label_of(1): 2})
    problem = state_of(TOPIC, played.up).explicit_problem()
    assert problem is not None
    assert "has a database, and is not the topic's supervisor" in problem
    found = converge(played, HORIZON, after=30 * INTERVAL)
    assert (found.explicit_round or 0) <= INTERVAL
    assert found.broken_round is None
    assert [node for node, one in played.up.items() if one.database] == [supervisor]


def test_a_false_verdict_is_taken_back() -> None:
    played = network(6)
    played.crash(5, 4 * INTERVAL)
    played.node(-1).crashed.update({node: Crashed(node) for node in (2, 3, 5, -1)})
    found = converge(played, 3 * INTERVAL, after=3 * INTERVAL)
    assert (found.clean_round, found.broken_round, played.node(-1).crashed) == (0, None, {})
    played.play(HORIZON)
    assert set(played.node(-1).crashed) == {5}
    assert state_of(TOPIC, played.up).explicit_problem() is None


def test_invalid_labels_are_dropped() -> None:
    played = network(6, seed=4)
    own = played.node(2).subscription[TOPIC]
    own.label, own.short, own.left = LONG, {LONG: 3, Label(2, 2): 4}, Neighbour(3, Label(63, 1))
    played.node(-1).database[TOPIC].entries[LONG] = 2
    found = converge(played, HORIZON, after=20 * INTERVAL)
    assert found.clean_round is not None
    assert all(one.is_valid for one in labels_of(played))


@pytest.mark.parametrize("fault", ["hash", "child", "root", "inner", "leaf", "length", "lone"])
def test_a_corrupted_trie_keeps_its_publications(fault: str) -> None:
    played = network(3, start_publications=8)
    program = played.node(2)
    keys = {one.label for one in program.trie_node.values() if one.publication}
    inner = next(one for one in program.trie_node.values() if one.publication is None)
    leaf = next(one for one in program.trie_node.values() if one.publication)
    if fault == "hash":
        leaf.hash = "0" * 16
    elif fault == "child":
        inner.zero = inner.label
    elif fault == "root":
        program.trie_root[TOPIC] = Root(TOPIC, "0101")
    elif fault == "inner":
        del program.trie_node[TOPIC, inner.label]
    elif fault == "leaf":
        leaf.zero = inner.label
    elif fault == "length":
        wrong = replace(leaf.publication, key="01")
        program.trie_node[TOPIC, "01"] = TrieNode(TOPIC, "01", "", publication=wrong, via="start")
    else:
        lone = Publication(publication_key(TOPIC, 1, -99, KEY_BITS), 1, -99, -1)
        program.trie_node[TOPIC, lone.key] = TrieNode(TOPIC, lone.key, "", publication=lone, via="start")
        keys.add(lone.key)
    assert not sound(played)
    played.play(60 * INTERVAL)
    assert sound(played)
    assert has_same_tries(TOPIC, played.up)
    assert {one.label for one in played.node(3).trie_node.values() if one.publication} == keys


def test_a_publication_of_another_topic_is_dropped() -> None:
    """Its key is that of its publisher, number and topic."""
    key = publication_key("sports", 1, -5, KEY_BITS)
    assert not has_right_key(TOPIC, Publication(key, 1, -5, -1), KEY_BITS)
    assert has_right_key("sports", Publication(key, 1, -5, -1), KEY_BITS)
