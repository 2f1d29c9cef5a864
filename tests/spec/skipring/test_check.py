"""What the protocol refuses: publishers without a subscription, late subscriptions of the start (rules K17 and K20)."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import RoundtableError
from pipelines.experiment.build import build_inputs
from pipelines.testing import run_configs, scenario


def built(publication: dict[str, Any], subscriptions: list[dict[str, Any]], **settings: Any) -> None:
    """Builds a run of two nodes and one publication."""
    built_all([{"topic": "news", **publication}], subscriptions, **settings)


def built_all(publications: list[dict[str, Any]], subscriptions: list[dict[str, Any]], **settings: Any) -> None:
    """Builds a run of two nodes."""
    parts = scenario(
        protocol={"name": "skipring", **settings},
        overlay={"nodes": {"count": 2}},
        workload={"subscriptions": subscriptions, "publications": publications},
    )
    build_inputs(run_configs([parts]), None)


NEWS = {"at": "N1", "topic": "news"}


def test_a_subscriber_publishes() -> None:
    built({"at": "N1", "round": 5}, [{**NEWS, "round": 5, "until": 6}])


@pytest.mark.parametrize(
    ("publication", "subscription"),
    [
        ({"at": "N2", "round": 5}, NEWS),
        ({"at": "N1", "round": 5}, {**NEWS, "round": 6}),
        ({"at": "N1", "round": 5}, {**NEWS, "until": 5}),
        ({"at": "N1", "round": 5}, {**NEWS, "topic": "sports"}),
    ],
)
def test_who_has_not_subscribed_publishes_nothing(publication: dict[str, Any], subscription: dict[str, Any]) -> None:
    with pytest.raises(RoundtableError, match="publishes in round 5 to 'news', and has not subscribed to it"):
        built(publication, [subscription])


def test_the_subscriptions_of_the_start_are_in_round_0() -> None:
    late = {"at": "N2", "topic": "news", "round": 7}
    built({"at": "N1", "round": 5}, [NEWS, late], start="legitimate", start_until=6)
    for until in (None, 7):
        with pytest.raises(
            RoundtableError, match=r"part of the start .* issued in round 7; allowed: round 0, or a round"
        ):
            built({"at": "N1", "round": 5}, [NEWS, late], start="legitimate", start_until=until)


def test_keys_that_lose_publications_are_refused() -> None:
    """With 40 publications, keys of 8 bits lost six of them."""
    built({"at": "N1", "round": 5}, [NEWS], key_bits=8)
    many = [{"at": "N1", "round": 10 + number, "topic": "news"} for number in range(40)]
    with pytest.raises(RoundtableError, match=r"8 bits, and 40 publications on 1 topics.*allowed: 30 or more"):
        built_all(many, [NEWS], key_bits=8)
    with pytest.raises(RoundtableError, match="allowed: 30 or more"):
        built_all(many, [NEWS], key_bits=29)
    built_all(many, [NEWS], key_bits=30)
    with pytest.raises(RoundtableError, match="8 bits, and 80 publications on 2 topics"):
        built_all([], [NEWS, {**NEWS, "topic": "sports"}], key_bits=8, start="legitimate", start_publications=40)
