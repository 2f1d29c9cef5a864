"""Draws in SQL against the same hash computed by a plain program."""

from __future__ import annotations

import math

import pytest
from oracles.epidemic import draws as plain

from pipelines.contract.rows import drawn_uniform
from pipelines.engines.session import Session


@pytest.fixture(scope="module")
def drawn(sail: Session) -> list[tuple[int, int, float, float]]:
    one = drawn_uniform("test.one", "id", "cast(7 as bigint)")
    frame = sail.spark.range(2000).selectExpr("id % 20 as seed", "id")
    drawn = frame.selectExpr("seed", "id", f"{one} as one", f"{drawn_uniform('test.two', 'id')} as two")
    return [tuple(row) for row in drawn.collect()]


def test_sql_and_the_plain_program_draw_the_same(drawn: list[tuple[int, int, float, float]]) -> None:
    for seed, key, one, two in drawn:
        assert one == plain.uniform(seed, "test.one", key, 7)
        assert two == plain.uniform(seed, "test.two", key)


def test_draws_are_uniform_and_purposes_independent(drawn: list[tuple[int, int, float, float]]) -> None:
    n = len(drawn)
    one, two = [row[2] for row in drawn], [row[3] for row in drawn]
    assert all(0.0 <= value < 1.0 for value in (*one, *two))
    deviation = 4.0 / math.sqrt(12.0 * n)
    assert abs(sum(one) / n - 0.5) < deviation
    assert abs(sum(two) / n - 0.5) < deviation
    covariance = sum((a - 0.5) * (b - 0.5) for a, b in zip(one, two, strict=True)) / n
    assert abs(covariance) < 4.0 / 12.0 / math.sqrt(n)
