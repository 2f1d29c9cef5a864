"""Deliveries and pairs of publications that are out of order are counted run by run."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipelines.sql.computed import broken_orders

A, B, C = 1, 2, 3
PUBLICATION = pa.schema([
    ("run_id", pa.int64()), ("source", pa.int64()), ("source_seq", pa.int64()), ("issued_round", pa.int64()),
    ("topic", pa.string()), ("guarantee", pa.string()), ("keys", pa.list_(pa.string())),
])  # fmt: skip
DELIVERY = pa.schema([(name, pa.int64()) for name in ("run_id", "subscriber", "source", "source_seq", "round")])


class _Answer:
    def __init__(self, rows: list[tuple[Any, ...]], form: pa.Schema) -> None:
        self._table = pa.Table.from_pylist([dict(zip(form.names, row, strict=True)) for row in rows], form)

    def toArrow(self) -> pa.Table:  # noqa: N802 - as frames call it
        return self._table


def counted(published: list[tuple[Any, ...]], delivered: list[tuple[int, ...]]) -> list[tuple[int | None, ...]]:
    """Returns the counts of run 0 and of others: of source, causal and total order; of what is asked for."""

    def ask(text: str) -> Any:
        return _Answer(delivered, DELIVERY) if "from first_delivery" in text else _Answer(published, PUBLICATION)

    return [tuple(row.values())[1:] for row in broken_orders(ask).to_pylist()]


def test_a_later_publication_of_a_source_first() -> None:
    published = [(0, A, n, n, "t", None, None) for n in (1, 2, 3)]
    assert counted(published, [(0, C, A, 1, 9), (0, C, A, 2, 8), (0, C, A, 3, 7)]) == [(2, 2, 0, None, None)]
    assert counted(published, [(0, C, A, 1, 9), (0, C, A, 3, 9)]) == [(0, 0, 0, None, None)]
    assert counted(published, [(0, C, A, 2, 9), (1, C, A, 1, 10)]) == [(0, 0, 0, None, None)] * 2


def test_what_a_publisher_knew_comes_before_what_it_publishes() -> None:
    """B had A's publication in round 5, and publishes in round 6; in round 5 it would not have known it."""
    for issued, n in ((6, 1), (5, 0)):
        published = [(0, A, 1, 1, "t", "eventual", ["k"]), (0, B, 1, issued, "t", "causal", ["k"])]
        delivered = [(0, B, A, 1, 5), (0, C, A, 1, 9), (0, C, B, 1, 8)]
        assert counted(published, delivered) == [(0, n, 0, n, None)]


def test_two_subscribers_have_two_publications_in_different_orders() -> None:
    published = [(0, A, 1, 1, "t", "total", ["k", "x"]), (0, B, 1, 1, "t", "causal", ["k"])]
    swapped = [(0, B, A, 1, 5), (0, B, B, 1, 6), (0, C, A, 1, 6), (0, C, B, 1, 5)]
    assert counted(published, swapped) == [(0, 0, 1, 0, 1)]
    assert counted(published, [*swapped[:3], (0, C, B, 1, 6)]) == [(0, 0, 0, 0, 0)]


def test_an_order_is_asked_for_what_shares_a_topic_and_a_key_item() -> None:
    swapped = [(0, B, A, 1, 5), (0, B, B, 1, 6), (0, C, A, 1, 6), (0, C, B, 1, 5)]
    for topic, keys, asks, n in (("t", ["x"], "total", 0), ("u", ["k"], "total", 0), ("t", ["k"], "eventual", None)):
        published = [(0, A, 1, 1, "t", "eventual", ["k"]), (0, B, 1, 1, topic, asks, keys)]
        assert counted(published, swapped) == [(0, 0, 1, n, n)]
