"""Messages and requests per interval in the legitimate state (sections 2.2, 3.2.1 and 4.2)."""

from __future__ import annotations

from collections import Counter
from math import pi

import pytest
from support.skipring import TOPIC, converge, network, sent

from udfs.skipring.labels import label_of
from udfs.skipring.subscriber import request_probability

INTERVAL = 10
N_INTERVALS = 60
REQUESTS = {
    2: 1, 3: 1.0625, 4: 1.125, 8: 1.1806, 16: 1.2118, 64: 1.2457, 100: 1.2514, 1000: 1.2746, 1024: 1.2749,
}  # fmt: skip


@pytest.mark.parametrize("n", REQUESTS)
def test_expected_requests_by_action_ii(n: int) -> None:
    assert sum(request_probability(label_of(index)) for index in range(n)) == pytest.approx(REQUESTS[n], abs=5e-5)


def test_the_limit_of_expected_requests() -> None:
    levels = (2 ** (bits - 1) * request_probability(label_of(2 ** (bits - 1))) for bits in range(2, 60))
    assert 1 + sum(levels) == pytest.approx(1 / 2 + pi**2 / 12, abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 13, 16])
def test_messages_of_each_interval(n: int) -> None:
    played = network(n, timeout_interval=INTERVAL, seed=n, start_publications=5)
    played.play(INTERVAL * N_INTERVALS - 1)
    found = [Counter(), *(Counter() for _ in range(N_INTERVALS - 1))]
    for one in sent(played):
        found[one.sent_round // INTERVAL][one.kind] += 1
    expected = {"Introduce": 2 * n if n > 1 else 0, "IntroduceShortcut": 2 * (n - 2) if n > 2 else 0}
    expected |= {"CheckTrie": n if n > 1 else 0}
    assert {kind: {of[kind] for of in found} for kind in expected} == {kind: {n} for kind, n in expected.items()}
    assert {one.kind for one in sent(played)} <= {*expected, "SetData", "GetConfiguration"}


def test_configurations_are_one_in_turn_and_one_for_each_request() -> None:
    played = network(8, timeout_interval=INTERVAL, seed=5)
    played.play(INTERVAL * N_INTERVALS - 1)
    requests = [one for one in played.rows.handled if one.kind == "GetConfiguration"]
    reasons = Counter(one.message.reason for one in sent(played) if one.kind == "SetData")
    assert reasons == {"round_robin": N_INTERVALS, "request": len(requests)}


def test_measured_requests() -> None:
    n_intervals = 2000
    played = network(4, timeout_interval=2, max_delay=1, seed=3)
    played.play(2 * n_intervals - 1)
    reasons = Counter(one.message.reason for one in sent(played) if one.kind == "GetConfiguration")
    assert set(reasons) == {"label", "minimum"}
    assert reasons["label"] / n_intervals == pytest.approx(REQUESTS[4], rel=0.08)
    assert reasons["minimum"] / n_intervals == pytest.approx(0.5, rel=0.08)


def test_closure_of_the_legitimate_state() -> None:
    played = network(21, n_others=1, start_publications=3)
    found = converge(played, 400, after=400)
    assert (found.explicit_round, found.clean_round, found.broken_round) == (0, 0, None)
    assert played.rows.delivered == []
    assert TOPIC not in played.node(22).subscription
