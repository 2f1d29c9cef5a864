"""Short names of a grid's values, for tables and messages."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.experiment.prepared import labelled

TREE = {"generate": {"kind": "random_tree", "nodes": 100, "max_degree": 4}, "clients": {"at": "leaves"}}
LINE = {"generate": {"kind": "line", "nodes": 12}, "clients": {"at": "leaves"}}


def labels(*values: Any) -> list[Any]:
    return [given["x"] for given in labelled([{"x": value} for value in values])]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1, 2.5, "a", None, [1]], [1, 2.5, "a", None, [1]]),
        ([{"name": "delta", "delta": 2}, {"name": "delta", "delta": 0}], ["delta 2", "delta 0"]),
        ([{"name": "delta", "delta": 2}, {"name": "ginger"}], ["delta delta 2", "ginger"]),
        ([TREE, LINE], ["random_tree nodes 100 max_degree 4", "line nodes 12"]),
        ([{"nodes": 3, "kind": "line"}, {"kind": "star", "nodes": 3}], ["line", "star"]),
        ([{"on": True}, {"on": False}, "off"], ["on true", "on false", "off"]),
    ],
)
def test_objects_are_told_by_what_differs(values: list[Any], wanted: list[Any]) -> None:
    assert labels(*values) == wanted


def test_no_two_values_have_one_label() -> None:
    values = [{"name": "a", "then": "b"}, {"name": "a b"}, {"name": "c"}]
    found = labels(*values)
    assert len(set(found)) == 3
    assert labels({"a": 1}, {"a": 1, "b": 2}) == ['{"a": 1}', '{"a": 1, "b": 2}']


def test_a_path_that_a_combination_lacks_it_lacks() -> None:
    assert labelled([{"x": 1}, {"x": 2, "y": {"a": 1}}, {"y": {"a": 2}}]) == [
        {"x": 1}, {"x": 2, "y": "a 1"}, {"y": "a 2"},
    ]  # fmt: skip
