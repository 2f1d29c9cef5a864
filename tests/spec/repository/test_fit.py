"""The paper's times: what rounds of the protocol say of Table 1, with one latency fitted to topology A."""

from __future__ import annotations

import pytest
from support.repository.layouts import PUBLISHED, QUIET, Layout, a, b, c

A_MS, B_MS, C_MS = 8.88, 10.60, 10.48
STORE_MS, RETRIEVE_MS = 1.408, 0.669
RESPONSE_MS, RECOVERY_MS, MISSED = 59.28, 11172, 1000


def links(layout: Layout, subscriber: str) -> int:
    """Returns the links on the way to a delivery: rounds, at latency 1 and without work."""
    return layout.published().deliveries(subscriber)[0][0] - PUBLISHED


@pytest.fixture(scope="module")
def latency_ms() -> float:
    return (A_MS - STORE_MS) / links(a(3), "s0")


def test_latency_of_a_link(latency_ms: float) -> None:
    assert latency_ms == pytest.approx(1.868)


@pytest.mark.parametrize(("subscriber", "over_b", "over_c"), [("s1", 0.014, 0.026), ("s2", 0.19, 0.20)])
def test_topologies_b_and_c(latency_ms: float, subscriber: str, over_b: float, over_c: float) -> None:
    of_b, of_c = (links(layout, subscriber) * latency_ms + STORE_MS for layout in (b(3, 2), c(3)))
    assert of_b / B_MS - 1 == pytest.approx(over_b, abs=0.006)
    assert of_c / C_MS - 1 == pytest.approx(over_c, abs=0.006)


def test_best_effort(latency_ms: float) -> None:
    assert links(a(3, baseline=True), "s0") * latency_ms == pytest.approx(3.74, abs=0.01)


def recovery_rounds(n_missed: int, at: int) -> int:
    """Returns the rounds that a repository takes to recover when it asks for one message at a time."""
    layout = Layout(2, {"r1": 1, "r2": at}, {"p": 1}, **{**QUIET, "fetch_batch": 1})
    layout.crash("r2", 100, 400)
    layout.publish("p", *range(150, 150 + n_missed), matches=())
    layout.network.play(900)
    assert len(layout.slots("r2")) == n_missed
    at_node = [(round_, status) for node, round_, status in layout.network.rows.statuses if node == layout.ids["r2"]]
    begun, over = (max(r for r, status in at_node if status == one) for one in ("RECOVERING", "OPERATIONAL"))
    return over - begun


@pytest.mark.parametrize(("at", "hops", "seconds"), [(1, 2, 9.6), (2, 3, 13.3)])
def test_recovery_asks_for_one_message_at_a_time(latency_ms: float, at: int, hops: int, seconds: float) -> None:
    """1000 missed messages: the measured 11.2 s lie between repositories at one broker and at two."""
    a_message = (recovery_rounds(40, at) - recovery_rounds(20, at)) / 20
    assert a_message == 2 * hops
    found_ms = RESPONSE_MS + MISSED * (a_message * latency_ms + RETRIEVE_MS + STORE_MS)
    assert found_ms / 1000 == pytest.approx(seconds, abs=0.06)
    assert (found_ms < RECOVERY_MS) == (at == 1)
