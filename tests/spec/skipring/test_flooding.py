"""Flooding with PublishNew over all edges (section 4.3)."""

from __future__ import annotations

import pytest
from support.skipring import TOPIC, network, sent

DIAMETER = {2: 1, 4: 2, 8: 3, 16: 4, 64: 6, 100: 6}
PUBLISH_NEW = {2: 1, 4: 7, 8: 19, 16: 43, 64: 187, 100: 295}
START = 3


@pytest.mark.parametrize("n", PUBLISH_NEW)
def test_publish_new_per_publication(n: int) -> None:
    played = network(n, timeout_interval=1000, max_delay=1)
    played.call(n, "publish", START, topic=TOPIC)
    played.play(START + 20)
    copies = [one for one in sent(played) if one.kind == "PublishNew"]
    assert len(copies) == PUBLISH_NEW[n] == 3 * n - 5
    assert sorted(at for at, _, _ in played.rows.delivered) == list(range(1, n + 1))
    assert {(one.source, one.source_seq) for _, _, one in played.rows.delivered} == {(n, 2)}
    assert max(round_ - START for _, round_, _ in played.rows.delivered) <= DIAMETER[n]
    assert all(one.hops == one.latency_rounds == round_ - START for _, round_, one in played.rows.delivered)
    assert [one.fate for one in copies].count("duplicate") == len(copies) - (n - 1)


def test_copies_that_meet_over_slow_channels_are_as_many() -> None:
    for seed in range(20):
        played = network(16, seed=seed, timeout_interval=1000, max_delay=9)
        played.call(5, "publish", START, topic=TOPIC)
        played.play(START + 200)
        assert len([one for one in sent(played) if one.kind == "PublishNew"]) == PUBLISH_NEW[16]


def test_a_publication_that_meets_nobody_is_delivered_by_tries() -> None:
    played = network(4, start="empty", timeout_interval=8, max_delay=1)
    played.call(2, "publish", 0, topic=TOPIC)
    played.play(200)
    assert not [one for one in sent(played) if one.kind == "PublishNew"]
    assert sorted(at for at, _, _ in played.rows.delivered) == [1, 2, 3, 4]
    leaves = [leaf for node in range(1, 5) for leaf in played.node(node).trie_node.values()]
    assert sorted(leaf.via for leaf in leaves) == ["publish", "trie", "trie", "trie"]
