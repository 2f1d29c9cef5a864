"""Generated workloads: shares, determinism, no repetition, rates, lifetimes, and subscriptions that match something."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from pipelines.contract.predicate import parse_predicates, predicate_rows
from pipelines.contract.run_inputs import ATTRIBUTE, PUBLICATION, SUBSCRIPTION, Overlay, Workload
from pipelines.errors import InputError
from pipelines.inputs.workload.build import build_workload
from pipelines.inputs.workload.generators import (
    distinct_ranks,
    distinct_rows,
    publication_slots,
    quote_symbol,
    zipf,
)
from pipelines.scenario.times import TimeSpec
from pipelines.scenario.workload import WorkloadSpec

KINDS = ("topics", "content", "quotes")


def line(count: int) -> Overlay:
    ends = np.arange(count - 1, dtype=np.int64)
    return Overlay(tuple(f"N{i + 1}" for i in range(count)), ends, ends + 1, np.ones(count - 1, dtype=np.int64))


def ring(count: int) -> Overlay:
    chain = line(count)
    a, b = np.append(chain.a, 0), np.append(chain.b, count - 1)
    return Overlay(chain.names, a, b, np.ones(count, dtype=np.int64))


def build(overlay: Overlay, seed: int = 1, horizon: int = 1000, **parts: dict[str, Any]) -> Workload:
    spec = WorkloadSpec.model_validate({part: {"generate": generator} for part, generator in parts.items()})
    return build_workload(spec, overlay=overlay, seed=seed, time=TimeSpec(rounds=horizon), beside=None)


def problems(overlay: Overlay, **parts: dict[str, Any]) -> dict[tuple[str | int, ...], str]:
    with pytest.raises(InputError) as caught:
        build(overlay, **parts)
    return {problem.path: problem.message for problem in caught.value.problems}


COMPARE = {
    "=": lambda value, wanted: value == wanted,
    "!=": lambda value, wanted: value != wanted,
    "<": lambda value, wanted: value < wanted,
    "<=": lambda value, wanted: value <= wanted,
    ">": lambda value, wanted: value > wanted,
    ">=": lambda value, wanted: value >= wanted,
    "prefix": lambda value, wanted: value.startswith(wanted),
    "suffix": lambda value, wanted: value.endswith(wanted),
    "contains": lambda value, wanted: wanted in value,
}


def matches(built: Workload) -> dict[int, set[int]]:
    """Which publications each subscription matches, by a plain loop over attributes and comparisons."""
    values: dict[int, dict[str, float | str]] = defaultdict(dict)
    for row in built.attribute.to_pylist():
        values[row["publication"]][row["attribute"]] = row["text"] if row["number"] is None else row["number"]
    wanted: dict[int, list[tuple[str, str, float | str]]] = defaultdict(list)
    for row in predicate_rows(built.subscription).to_pylist():
        value = row["text"] if row["number"] is None else row["number"]
        wanted[row["subscription"]].append((row["attribute"], row["op"], value))
    return {
        subscription: {
            publication
            for publication, held in values.items()
            if all(
                name in held
                and isinstance(held[name], str) == isinstance(value, str)
                and COMPARE[op](held[name], value)
                for name, op, value in comparisons
            )
        }
        for subscription, comparisons in wanted.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_tables_and_another_seed_others(kind: str) -> None:
    parts = {"subscriptions": {"kind": kind, "per_node": 3, "nodes": 10}, "publications": {"kind": kind, "nodes": 10}}
    first, again, other = (build(line(20), seed=seed, **parts) for seed in (1, 1, 2))
    assert first.subscription.equals(again.subscription)
    assert first.publication.equals(again.publication)
    assert first.attribute.equals(again.attribute)
    assert not first.subscription.equals(other.subscription)
    assert not first.publication.equals(other.publication)
    assert first.subscription.schema == SUBSCRIPTION
    assert (first.publication.schema, first.attribute.schema) == (PUBLICATION, ATTRIBUTE)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_belong_to_nodes_so_that_more_nodes_or_rounds_change_nothing_else(kind: str) -> None:
    few = {
        "subscriptions": {"kind": kind, "nodes": ["N2"], "per_node": 2},
        "publications": {"kind": kind, "nodes": ["N2"]},
    }
    more = {
        "subscriptions": {"kind": kind, "nodes": ["N1", "N2"], "per_node": 2},
        "publications": {"kind": kind, "nodes": ["N1", "N2"], "rounds": [1, 20]},
    }
    one, two = build(line(3), **few), build(line(3), **more)
    assert [r for r in two.subscription.to_pylist() if r["node_id"] == 1] == one.subscription.to_pylist()
    if kind != "quotes":  # a symbol's price goes on from whoever published it before
        rows = [r for r in two.publication.to_pylist() if r["node_id"] == 1 and r["round"] <= 10]
        assert rows == one.publication.to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_contents_are_sorted_compact_json_that_agrees_with_the_attributes(kind: str) -> None:
    built = build(line(5), publications={"kind": kind, "nodes": "all", "rate": 3})
    held: dict[int, dict[str, float | str]] = defaultdict(dict)
    for row in built.attribute.to_pylist():
        assert (row["number"] is None) != (row["text"] is None)
        held[row["publication"]][row["attribute"]] = row["text"] if row["number"] is None else row["number"]
    assert built.publication.num_rows == 150
    for i, row in enumerate(built.publication.to_pylist()):
        content = json.loads(row["content"])
        assert json.dumps(content, sort_keys=True, separators=(",", ":")) == row["content"]
        assert held[i] == content | {"topic": row["topic"]}


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_popularity_is_zipf(exponent: float) -> None:
    publications = {"kind": "topics", "topics": 5, "zipf": exponent, "nodes": "all", "rate": 20, "rounds": [1, 100]}
    topics = Counter(build(line(20), publications=publications).publication["topic"].to_pylist())
    weights = np.arange(1.0, 6.0) ** -exponent
    shares = np.array([topics[f"topic{rank}"] for rank in range(1, 6)]) / 40_000
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.01)


def test_ranks_below_the_first_are_left_out_and_the_others_keep_their_shares() -> None:
    ranks = zipf((np.arange(60_000) + 0.5) / 60_000, 5, 1.0, first=2)
    weights = 1 / np.array([3.0, 4.0, 5.0])
    np.testing.assert_allclose(np.bincount(ranks, minlength=5)[2:] / 60_000, weights / weights.sum(), atol=0.001)
    assert ranks.min() == 2


@pytest.mark.parametrize("size", [5, 40])
def test_distinct_ranks_follow_draws_one_after_the_other_without_repetition(size: int) -> None:
    """Both ways of drawing give the chance of the pair (0, 1) in this order: p0 * p1 / (1 - p0)."""
    nodes = np.arange(40_000, dtype=np.int64)
    drawn = distinct_ranks(nodes, 2, size, 1.0, 7, "test")
    assert (drawn[:, 0] != drawn[:, 1]).all()
    weights = 1.0 / np.arange(1, size + 1)
    share = weights / weights.sum()
    assert ((drawn[:, 0] == 0) & (drawn[:, 1] == 1)).mean() == pytest.approx(
        share[0] * share[1] / (1 - share[0]), abs=0.01
    )
    assert (drawn[:, 1] == 0).mean() == pytest.approx(sum(p * share[0] / (1 - p) for p in share[1:]), abs=0.01)


@pytest.mark.parametrize(
    ("per_node", "topics", "exponent"), [(10, 10, 10.0), (20, 2000, 10.0), (300, 5000, 1.0), (1, 9, 1.0)]
)
def test_subscriptions_do_not_repeat_at_a_node(per_node: int, topics: int, exponent: float) -> None:
    generator = {"kind": "topics", "per_node": per_node, "topics": topics, "zipf": exponent}
    rows = build(line(8), subscriptions=generator).subscription.to_pylist()
    assert len(rows) == 8 * per_node == len({(row["node_id"], row["predicate"]) for row in rows})


def test_intervals_of_the_whole_range_do_not_repeat_a_class_at_a_node() -> None:
    generator = {"kind": "content", "selectivity": 1.0, "classes": 6, "per_node": 6}
    rows = build(line(4), subscriptions=generator).subscription.to_pylist()
    assert len({(row["node_id"], row["predicate"]) for row in rows}) == 24
    assert rows[0]["predicate"].endswith("a >= 0 and a <= 1000 and b >= 0 and b <= 1000")
    found = problems(line(4), subscriptions=generator | {"per_node": 7})
    assert "no 7 different subscriptions" in found["workload", "subscriptions", "generate", "per_node"]


def test_rows_that_repeat_are_drawn_again_until_there_are_none_left() -> None:
    owner = np.repeat(np.arange(50, dtype=np.int64), 3)

    def from_four(rows: np.ndarray, attempt: int) -> list[np.ndarray]:
        return [((rows * 7 + attempt * (rows % 5 + 1)) % 4).astype(np.float64)]

    (drawn,) = distinct_rows(owner, 3, from_four)
    assert len(set(zip(owner.tolist(), drawn.tolist(), strict=True))) == 150
    with pytest.raises(InputError, match="a node finds no 3 different subscriptions"):
        distinct_rows(owner, 3, lambda rows, _: [np.zeros(len(rows))])


def test_intervals_have_the_selectivity_and_lie_within_the_range() -> None:
    generator = {
        "kind": "content",
        "per_node": 20,
        "selectivity": 0.25,
        "attributes": {"x y": {"low": -2.0, "high": 2.0}, "fixed": {"low": 3, "high": 3}},
    }
    subscription = build(line(10), subscriptions=generator).subscription
    for text in subscription["predicate"].to_pylist():
        topic, *bounds = parse_predicates(None, text)
        fixed, x = bounds[:2], bounds[2:]
        assert str(topic.value).startswith("class")
        assert [(p.attribute, p.op) for p in x] == [("x y", ">="), ("x y", "<=")]
        low, high = (float(p.value) for p in x)
        assert -2.0 <= low < high <= 2.0
        assert high - low == pytest.approx(1.0, abs=1e-5)
        assert [p.value for p in fixed] == [3.0, 3.0]


def test_content_subscriptions_match_their_share_of_a_class() -> None:
    common = {"kind": "content", "classes": 1}
    built = build(
        line(10),
        subscriptions=common | {"per_node": 10, "selectivity": 0.5},
        publications=common | {"nodes": "all", "rate": 10},
    )
    sizes = [len(found) for found in matches(built).values()]
    assert np.mean(sizes) / built.publication.num_rows == pytest.approx(0.25, abs=0.04)


def test_about_a_quarter_of_a_symbols_quotes_match_a_subscription() -> None:
    common = {"kind": "quotes", "symbols": 4, "zipf": 0.0}
    shares = []
    for seed in range(15):
        built = build(
            line(6), seed, subscriptions=common | {"per_node": 2}, publications=common | {"nodes": 2, "rate": 8}
        )
        per_symbol = Counter(json.loads(text)["symbol"] for text in built.publication["content"].to_pylist())
        texts = built.subscription["predicate"].to_pylist()
        for subscription, found in matches(built).items():
            wanted = parse_predicates(None, texts[subscription])[1].value
            shares.append(len(found) / per_symbol[str(wanted)])
    assert np.mean(shares) == pytest.approx(0.25, abs=0.06)
    assert np.mean(np.array(shares) > 0) > 0.6


def test_prices_walk_from_quote_to_quote_of_a_symbol() -> None:
    generator = {"kind": "quotes", "symbols": 3, "nodes": "all", "rate": 5, "rounds": [1, 50], "volatility": 0.02}
    built = build(line(4), publications=generator)
    walks: dict[str, list[float]] = defaultdict(list)
    for text in built.publication["content"].to_pylist():
        content = json.loads(text)
        walks[content["symbol"]].append(content["price"])
        assert content["price"] == round(content["price"], 2) >= 0.01
        assert isinstance(content["volume"], int)
        assert 100 <= content["volume"] <= 1_000_000
    assert set(walks) == {"AAA", "AAB", "AAC"}
    steps = np.concatenate([np.diff(np.log(walk)) for walk in walks.values()])
    assert steps.std() == pytest.approx(0.02, rel=0.1)
    assert abs(steps.mean()) < 0.003


def test_a_wild_walk_stays_a_finite_price() -> None:
    generator = {"kind": "quotes", "symbols": 1, "rate": 100, "rounds": [1, 100], "volatility": 1.0}
    prices = [json.loads(t)["price"] for t in build(line(2), publications=generator).publication["content"].to_pylist()]
    assert len(prices) == 10_000
    assert 0.01 <= min(prices) < max(prices) <= 1_000_000


def test_symbols_are_named_by_rank() -> None:
    assert [quote_symbol(rank) for rank in (0, 1, 26, 26**3 - 1, 26**3)] == ["AAA", "AAB", "ABA", "ZZZ", "BAAA"]
    assert len({quote_symbol(rank) for rank in range(20_000)}) == 20_000


@pytest.mark.parametrize("rate", [0.3, 1.0, 2.5])
def test_each_source_publishes_at_the_rate(rate: float) -> None:
    node, round_, index = publication_slots(np.arange(50, dtype=np.int64), (11, 210), rate, 3)
    assert len(node) == pytest.approx(50 * 200 * rate, abs=4 * 50)  # four standard deviations of the chances
    per_slot = Counter(zip(node.tolist(), round_.tolist(), strict=True))
    assert set(per_slot.values()) <= {int(rate), int(rate) + 1}
    assert (round_.min(), round_.max()) == (11, 210)
    assert sorted(zip(round_.tolist(), node.tolist(), index.tolist(), strict=True)) == list(
        zip(round_.tolist(), node.tolist(), index.tolist(), strict=True)
    )
    assert index.max() == (int(rate) if rate != int(rate) else int(rate) - 1)


def test_subscribe_calls_and_lifetimes_are_drawn_in_their_intervals() -> None:
    generator = {"kind": "topics", "per_node": 10, "rounds": [5, 14], "lifetime": [20, 29]}
    rows = build(line(100), subscriptions=generator).subscription.to_pylist()
    rounds = Counter(row["round"] for row in rows)
    lifetimes = Counter(row["end_round"] - row["round"] for row in rows)
    assert (set(rounds), set(lifetimes)) == (set(range(5, 15)), set(range(20, 30)))
    assert max(rounds.values()) < 160
    assert max(lifetimes.values()) < 160
    stays = build(line(3), subscriptions={"kind": "topics"}).subscription
    assert stays["end_round"].to_pylist() == [None] * 3


def test_nodes_are_named_drawn_all_or_leaves() -> None:
    def nodes(chosen: list[str] | int | str, overlay: Overlay, seed: int = 1) -> list[int]:
        built = build(overlay, seed, subscriptions={"kind": "topics", "nodes": chosen})
        return built.subscription["node_id"].to_pylist()

    assert nodes(["N3", "N1"], line(4)) == [2, 0]
    assert nodes("all", line(4)) == [0, 1, 2, 3]
    assert nodes("leaves", line(4)) == [0, 3]
    assert len(set(nodes(30, line(40)))) == 30
    counts = Counter(node for seed in range(400) for node in nodes(2, line(5), seed))
    assert all(count == pytest.approx(160, rel=0.25) for count in counts.values())


def test_choices_that_cannot_be_met_are_told_at_their_places() -> None:
    found = problems(
        ring(4),
        subscriptions={"kind": "topics", "nodes": "leaves"},
        publications={"kind": "topics", "nodes": ["N1", "N2x"], "rounds": [1, 10]},
    )
    assert "has no leaves" in found["workload", "subscriptions", "generate", "nodes"]
    assert "did you mean 'N2'?" in found["workload", "publications", "generate", "nodes", 1]
    found = problems(
        line(4),
        subscriptions={"kind": "topics", "nodes": 5},
        publications={"kind": "topics", "nodes": ["N1", "N1"]},
    )
    assert "give at most 4, or all" in found["workload", "subscriptions", "generate", "nodes"]
    assert "'N1' is there already, as number 1 of the list" in found["workload", "publications", "generate", "nodes", 1]


def test_floods_are_refused_before_they_are_made() -> None:
    found = problems(
        line(2000),
        subscriptions={"kind": "topics", "per_node": 100_000, "topics": 100_000},
        publications={"kind": "topics", "rate": 1e9},
    )
    assert "at most 20,000,000" in found["workload", "subscriptions", "generate", "per_node"]
    assert "at most 20,000,000 publications" in found["workload", "publications", "generate", "rate"]
    flood = {"kind": "bank", "nodes": "all", "round": 1, "operations": 900, "interval": 1}
    found = problems(line(25_000), publications=flood)
    assert "allowed: 20,000,000 in all" in found["workload", "publications", "generate", "operations"]


def test_nothing_is_made_where_nothing_is_asked_for() -> None:
    built = build(
        line(3), subscriptions={"kind": "content", "per_node": 0}, publications={"kind": "quotes", "rate": 1e-9}
    )
    assert built.subscription.num_rows == built.publication.num_rows == built.attribute.num_rows == 0
    assert predicate_rows(built.subscription).num_rows == 0


def test_a_million_quotes_take_seconds_and_a_small_run_milliseconds() -> None:
    quotes = {"kind": "quotes", "nodes": 50, "rate": 20, "rounds": [1, 1000]}
    began = time.process_time()
    assert build(line(50), publications=quotes).publication.num_rows == 1_000_000
    large = time.process_time() - began
    small = {
        "subscriptions": {"kind": "quotes", "nodes": 5, "per_node": 2},
        "publications": {"kind": "quotes", "nodes": 5},
    }
    began = time.process_time()
    for seed in range(100):
        build(line(50), seed, **small)
    assert large < 10
    assert (time.process_time() - began) / 100 < 0.01
