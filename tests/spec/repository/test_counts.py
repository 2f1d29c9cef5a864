"""Messages per publication without loss, and the round of delivery: sections 3, 4 and the topologies of section 5."""

from __future__ import annotations

import pytest
from support.repository.layouts import PUBLISHED, Layout, a, b, c


def counts(*numbers: int) -> dict[str, int]:
    """Returns counts by kind: message, Order, R2P-ACK, Persistent, S2R-ACK, Sync."""
    kinds = ("Message", "P2R-Order", "R2P-ACK", "R2S*-Persistent", "S2R-ACK", "R2S-Sync")
    return dict(zip(kinds, numbers, strict=True))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("s", [1, 4, 19])
def test_end_to_end(s: int, n: int) -> None:
    assert c(s, n).published().end_to_end() == counts(s + n, n, 1, s, s * n, s)


@pytest.mark.parametrize("s", [1, 2, 19])
def test_links_of_topology_a(s: int) -> None:
    found = a(s).published().on_links()
    assert found == counts(s + 2, 2, 2, s + 1, 2 * s, 2 * s)
    assert found.total() == 6 * s + 7


@pytest.mark.parametrize(("at", "total"), [(1, 161), (2, 153), (3, 169)])
def test_links_of_topology_b(at: int, total: int) -> None:
    assert b(19, at).published().on_links().total() == total


@pytest.mark.parametrize("s", [3, 6, 19])
def test_links_of_topology_c(s: int) -> None:
    found = c(s).published().on_links()
    assert found == counts(s + 6, 6, 2, s + 3, 6 * s, 2 * s)
    assert found.total() + 15 == 10 * s + 32


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_round_of_gossip(n: int) -> None:
    layout = c(3, n, gossip_rounds=50)
    layout.published()
    layout.network.play(PUBLISHED + 60)
    rows = [one for one in layout.network.rows.handled if one.kind == "Gossip-ACK"]
    begun = max(one.sent_round for one in layout.sent("Gossip-ACK", PUBLISHED + 50))
    of_round = [one for one in rows if begun <= one.sent_round < begun + 10]
    assert len([one for one in of_round if one.dst in one.message.to]) == n * (n - 1)
    if n == 3:
        assert len(of_round) == 15


@pytest.mark.parametrize(("layout", "rows"), [(a, 20), (lambda s, **k: b(s, 2, **k), 22), (c, 22)], ids="ABC")
def test_best_effort(layout: object, rows: int) -> None:
    found = layout(19, baseline=True).published()  # type: ignore[operator]
    assert found.on_links() == {"Message": rows}
    assert {len(found.deliveries(f"s{one}")) for one in range(19)} == {1}


def test_best_effort_sends_messages_only() -> None:
    """Nodes that recover, and calls about repositories and registrations, send nothing in the baseline."""
    layout = c(3, baseline=True, topics={"t": {"owner": "p", "publishers": ["p"], "subscribers": ["s0", "s1", "s2"]}})
    for name in ("p", "s0", "r1"):
        layout.crash(name, 20, 30)
    peer = layout.ids
    layout.call("s1", "steer", 40, peer=peer["r2"])
    for kind, client in (("register", "s1"), ("deregister", "s2")):
        layout.call("p", kind, 50, peer=peer[client], role="subscriber")
    layout.call("r1", "join", 60)
    layout.call("r2", "leave", 60)
    layout.call("r1", "remove", 70, peer=peer["r3"])
    found = layout.published()
    rows = found.network.rows
    assert {one.kind for one in (*rows.handled, *found.network.in_flight)} == {"Message"}
    assert {len(found.deliveries(f"s{one}")) for one in range(3)} == {1}
    confirmed = {(node, round_) for node, _, round_, event in rows.calls if event == "confirmed"}
    assert confirmed >= {(peer["s1"], 40), (peer["p"], 50), (peer["r1"], 60), (peer["r2"], 60), (peer["r1"], 70)}


def rounds_after(layout: Layout) -> dict[int, int]:
    """Returns how many rounds a delivery takes, by broker of the subscriber."""
    return {one % 3 + 1: layout.deliveries(f"s{one}")[0][0] - PUBLISHED for one in range(3)}


def test_rounds_until_delivery() -> None:
    assert set(rounds_after(a(3).published()).values()) == {4}
    assert rounds_after(b(3, 2).published()) == {1: 6, 2: 5, 3: 6}
    assert rounds_after(c(3).published()) == {1: 4, 2: 5, 3: 6}


def test_storing_delays_the_delivery() -> None:
    assert rounds_after(c(3, store_rounds=7).published()) == {1: 11, 2: 12, 3: 13}
