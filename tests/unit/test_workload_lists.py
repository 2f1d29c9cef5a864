"""Listed subscriptions, publications and joins: what the engine gets, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pipelines.contract.run_inputs import ATTRIBUTE, JOIN, PUBLICATION, SUBSCRIPTION, Overlay, Workload
from pipelines.errors import InputError
from pipelines.inputs.workload.build import build_workload, describe
from pipelines.scenario.times import TimeSpec
from pipelines.scenario.workload import WorkloadSpec


def tree() -> Overlay:
    """A - B - C - D, B - E."""
    return Overlay(
        ("A", "B", "C", "D", "E"), np.array([0, 1, 1, 2]), np.array([1, 2, 4, 3]), np.ones(4, dtype=np.int64)
    )


def build(**parts: list[dict[str, Any]]) -> Workload:
    return build_workload(
        WorkloadSpec.model_validate(parts), overlay=tree(), seed=1, time=TimeSpec(rounds=100), beside=None
    )


def problems(**parts: list[dict[str, Any]]) -> dict[tuple[str | int, ...], str]:
    with pytest.raises(InputError) as caught:
        build(**parts)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_an_empty_workload_has_the_four_schemas() -> None:
    built = build()
    assert [t.schema for t in (built.subscription, built.publication, built.attribute, built.join)] == [
        SUBSCRIPTION,
        PUBLICATION,
        ATTRIBUTE,
        JOIN,
    ]
    assert built.subscription.num_rows == built.publication.num_rows == built.attribute.num_rows == 0


def test_subscriptions_carry_ids_and_canonical_predicates() -> None:
    listed = [
        {"at": "E", "topic": "news", "where": "price>10 AND symbol prefix A", "until": 9},
        {"at": "A", "round": 100, "topic": "5"},
    ]
    assert build(subscriptions=listed).subscription.to_pylist() == [
        {"node_id": 4, "round": 0, "end_round": 9, "predicate": "topic = 'news' and price > 10 and symbol prefix 'A'"},
        {"node_id": 0, "round": 100, "end_round": None, "predicate": "topic = '5'"},
    ]


def test_content_is_sorted_json_and_each_attribute_a_number_or_a_text() -> None:
    content = {"up": True, "symbol": 'A"é', "price": 12.5, "count": 3}
    ordered = {"at": "B", "content": {"price": "high"}, "guarantee": "total", "keys": ["b", "a"]}
    listed = [{"at": "A", "round": 1, "topic": "news", "content": content}, ordered]
    built = build(publications=listed)
    assert built.publication.to_pylist() == [
        {
            "node_id": 0,
            "round": 1,
            "topic": "news",
            "content": '{"count":3,"price":12.5,"symbol":"A\\"é","up":true}',
            "guarantee": None,
            "keys": None,
        },
        {
            "node_id": 1,
            "round": 0,
            "topic": None,
            "content": '{"price":"high"}',
            "guarantee": "total",
            "keys": ["b", "a"],
        },
    ]
    assert json.loads(built.publication["content"][0].as_py()) == content
    assert [tuple(row.values()) for row in built.attribute.to_pylist()] == [
        (0, "topic", None, None, "news"),
        (0, "count", 3.0, 3, None),
        (0, "price", 12.5, None, None),
        (0, "symbol", None, None, 'A"é'),
        (0, "up", None, None, "true"),
        (1, "price", None, None, "high"),
    ]


def test_whole_numbers_of_64_bits_are_exact() -> None:
    values = [1709287200000000001, 2**63 - 1, -(2**63) + 1, 1e18, 1e19, 0.5]
    built = build(publications=[{"at": "A", "content": {"id": value}} for value in values])
    assert built.attribute["whole"].to_pylist() == [*values[:3], 10**18, None, None]
    assert built.attribute["number"].to_pylist() == [
        1709287200000000000.0, 2.0**63 - 1024, -(2.0**63), 1e18, 1e19, 0.5,
    ]  # fmt: skip
    assert built.publication["content"][0].as_py() == '{"id":1709287200000000001}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="price"):
        build(publications=[{"at": "A", "content": {"price": value}}])


def test_all_problems_of_all_parts_are_told_at_once() -> None:
    found = problems(
        subscriptions=[{"at": "A", "topic": "x"}, {"at": "Bb", "topic": "x"}],
        publications=[{"at": "F", "topic": "x"}],
        joins=[{"node": "D", "to": "X", "round": 3}],
    )
    assert set(found) == {
        ("workload", "subscriptions", 1, "at"),
        ("workload", "publications", 0, "at"),
        ("workload", "joins", 0, "to"),
    }
    assert "did you mean 'B'?" in found["workload", "subscriptions", 1, "at"]


def test_a_subtree_joins_from_its_root_down() -> None:
    joins = [{"node": "C", "to": "B", "round": 3}, {"node": "D", "to": "C", "round": 5}]
    assert [tuple(row.values()) for row in build(joins=joins).join.to_pylist()] == [(2, 1, 3), (3, 2, 5)]


def test_a_join_point_must_be_a_neighbour() -> None:
    found = problems(joins=[{"node": "D", "to": "B", "round": 3}])
    assert "no link joins 'D' and 'B'; linked with 'D': C, or add the link" in found["workload", "joins", 0, "to"]


def test_a_joining_node_has_no_links_but_to_those_that_join_through_it() -> None:
    found = problems(joins=[{"node": "C", "to": "B", "round": 3}])
    assert "has links to D as well" in found["workload", "joins", 0, "node"]


def test_a_node_joins_after_its_join_point() -> None:
    found = problems(joins=[{"node": "C", "to": "B", "round": 5}, {"node": "D", "to": "C", "round": 5}])
    assert "give a round after 5" in found["workload", "joins", 1, "round"]
    circle = problems(joins=[{"node": "C", "to": "D", "round": 5}, {"node": "D", "to": "C", "round": 6}])
    assert set(circle) == {("workload", "joins", 0, "round")}


def test_sources_are_described_in_a_line_each() -> None:
    lines = describe()
    assert {"list", "file padres", "generate topics", "generate content", "generate quotes"} <= {n for n, _ in lines}
    assert all(text and "\n" not in text and len(text) < 120 for _, text in lines)
