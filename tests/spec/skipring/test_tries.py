"""Patricia tries, and Figure 2 message by message (section 4.2)."""

from __future__ import annotations

import hashlib
from random import Random

import pytest
from support.skipring import TOPIC, network, sent

from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import Flight
from udfs.skipring.messages import CheckAndPublish, CheckTrie, Publish
from udfs.skipring.trie import NodeHash, Publication, Trie, publication_key

U, V = 1, 2
FIGURE_2 = ("000", "010", "100", "101")
P4 = "101"


@pytest.fixture
def figure_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications have the keys of Figure 2, whose hash function the paper does not name."""
    keys = {published(f"{number:03b}").source: f"{number:03b}" for number in range(8)}
    monkeypatch.setattr("udfs.skipring.trie.publication_key", lambda topic, source, number, bits: keys[source])


def trie(*keys: str) -> Trie:
    made = Trie(TOPIC, {}, {}, 64)
    for key in keys:
        assert made.insert(published(key), "publish")
    return made


def published(key: str) -> Publication:
    return Publication(key, source=int(key, 2) + 100, source_seq=1, issued_round=0)


def digest(*parts: str) -> str:
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def test_hashes() -> None:
    made = trie(*FIGURE_2)
    zero, one = digest(digest("000"), digest("010")), digest(digest("100"), digest("101"))
    assert made.hash_at("100") == NodeHash("100", digest("100"))
    assert made.hash_at("0") == NodeHash("0", zero)
    assert made.root == NodeHash("", digest(zero, one))
    assert trie().root == NodeHash("", None)
    assert trie("101").root == NodeHash("101", digest("101"))


def test_labels_of_figure_2() -> None:
    made, less = trie(*FIGURE_2), trie(*FIGURE_2[:3])
    assert all(made.find(label) for label in ("", "0", "10", *FIGURE_2))
    assert less.find("10") is None
    found = less.below("10")
    assert found is not None
    assert found.label == "100"
    assert less.below("11") is None


def test_a_trie_does_not_depend_on_the_order_of_insertions() -> None:
    drawn = Random(2)
    for _ in range(100):
        keys = [f"{key:08b}" for key in drawn.sample(range(256), drawn.randint(1, 50))]
        roots = {trie(*drawn.sample(keys, len(keys))).root for _ in range(3)}
        assert len(roots) == 1
        made, prefix = trie(*keys), f"{drawn.randrange(8):03b}"
        assert not made.insert(published(keys[0]), "trie")
        assert [one.key for one in made.publications(prefix)] == sorted(k for k in keys if k.startswith(prefix))


def test_keys_are_digits_of_sha_256() -> None:
    whole = f"{int(hashlib.sha256(b'7,3,news').hexdigest(), 16):0256b}"
    assert [publication_key(TOPIC, 7, 3, bits) for bits in (1, 20, 256)] == [whole[:1], whole[:20], whole]


def begun(first: int, keys_u: tuple[str, ...], keys_v: tuple[str, ...]) -> LocalNetwork:
    """Returns u and v, of which one has its Timeout long before the other one."""
    for seed in range(1000):
        played = network(2, seed=seed, timeout_interval=40, max_delay=1)
        wake = {node: played._running().nodes[node].internal.timers["Timeout", 0] for node in (U, V)}
        if wake[U + V - first] - wake[first] >= 20:
            break
    for node, keys in ((U, keys_u), (V, keys_v)):
        program = played.node(node)
        held = Trie(TOPIC, program.trie_node, program.trie_root, 64)
        assert all(held.insert(published(key), "start") for key in keys)
    played.play(wake[first] + 15)
    return played


def told(one: Flight) -> str:
    """Returns a message as the figure's text has it."""
    m, dst = one.message, "uv"[one.dst - 1]
    if isinstance(m, CheckTrie):
        return f"CheckTrie({','.join(node.label or 'root' for node in m.nodes)})->{dst}"
    if isinstance(m, CheckAndPublish):
        return f"CheckAndPublish({m.trie_node.label if m.trie_node else '-'}, {m.prefix or 'root'})->{dst}"
    return f"Publish({','.join(publication.key for publication in m.publications)})->{dst}"


def exchange(first: int, keys_u: tuple[str, ...], keys_v: tuple[str, ...]) -> tuple[list[str], LocalNetwork]:
    played = begun(first, keys_u, keys_v)
    messages = [one for one in sent(played) if isinstance(one.message, CheckTrie | CheckAndPublish | Publish)]
    return [told(one) for one in messages], played


@pytest.mark.usefixtures("figure_keys")
def test_figure_2_where_the_one_that_has_more_starts() -> None:
    trace, played = exchange(U, FIGURE_2, FIGURE_2[:3])
    assert trace == ["CheckTrie(root)->v", "CheckTrie(0,100)->u"]
    assert played.rows.delivered == []


@pytest.mark.usefixtures("figure_keys")
def test_figure_2_where_the_one_that_has_less_starts() -> None:
    trace, played = exchange(V, FIGURE_2, FIGURE_2[:3])
    assert trace == [
        "CheckTrie(root)->u", "CheckTrie(0,10)->v", "CheckAndPublish(100, 101)->u", "Publish(101)->v",
    ]  # fmt: skip
    assert [(at, one.source, one.hops) for at, _, one in played.rows.delivered] == [(V, published(P4).source, 1)]
    assert played.node(U).trie_node.keys() == played.node(V).trie_node.keys()


@pytest.mark.usefixtures("figure_keys")
@pytest.mark.parametrize(
    ("keys_u", "keys_v", "trace"),
    [
        ((), (), ["CheckTrie(root)->v"]),
        ((), ("101",), ["CheckTrie(root)->v", "CheckAndPublish(101, 0)->u", "CheckAndPublish(-, 101)->v",
                        "Publish(101)->u"]),
        (("000", "101"), (), ["CheckTrie(root)->v", "CheckAndPublish(-, root)->u", "Publish(000,101)->v"]),
        (("101",), ("101",), ["CheckTrie(101)->v"]),
        (("011",), ("101",), ["CheckTrie(011)->v", "CheckAndPublish(-, 011)->u", "Publish(011)->v"]),
    ],
    ids=["both empty", "own empty", "other empty", "the same", "one leaf each"],
)  # fmt: skip
def test_small_tries(keys_u: tuple[str, ...], keys_v: tuple[str, ...], trace: list[str]) -> None:
    found, _ = exchange(U, keys_u, keys_v)
    assert found == trace


@pytest.mark.usefixtures("figure_keys")
def test_the_leaf_says_how_a_publication_came() -> None:
    _, played = exchange(V, FIGURE_2, FIGURE_2[:3])
    leaf = played.node(V).trie_node[TOPIC, P4]
    assert (leaf.via, leaf.publication.hops) == ("trie", 1)
    assert played.node(V).trie_node[TOPIC, "0"].via is None
