"""Subscriptions as rows of comparisons."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, strategies as st

from pipelines.contract.predicate import OPERATORS, PREDICATE, Predicate, canonical, predicate_rows

TEXT_ONLY = ("prefix", "suffix", "contains")
NAMES = st.one_of(st.sampled_from(["price", "a.b", "and", "topic", "it's"]), st.text(min_size=1, max_size=5))
TEXTS = st.one_of(st.sampled_from(["A' and b = 'c", "a and b = 3", "\\", "''", "5"]), st.text(max_size=6))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    name, op = draw(NAMES), draw(st.sampled_from([op for op in OPERATORS if op != "filter"]))
    return Predicate(name, op, draw(TEXTS if op in TEXT_ONLY or name == "topic" else TEXTS | NUMBERS))


def rows(texts: list[str]) -> list[tuple[int, str, str, float | None, int | None, str | None]]:
    table = predicate_rows(pa.table({"predicate": pa.array(texts, pa.string())}))
    assert table.schema == PREDICATE
    return [tuple(row.values()) for row in table.to_pylist()]


def test_each_comparison_is_a_row_in_its_place() -> None:
    texts = ["topic = 'news' and price > 10.5", "topic = 'x'", "topic = 'news' and price > 10.5"]
    pair = [("topic", "=", None, None, "news"), ("price", ">", 10.5, None, None)]
    other = (1, "topic", "=", None, None, "x")
    assert rows(texts) == [(0, *pair[0]), (0, *pair[1]), other, (2, *pair[0]), (2, *pair[1])]


def test_whole_numbers_of_64_bits_are_exact_beside_their_doubles() -> None:
    texts = ["a = 1709287200000000001", "'b c' > 9223372036854775807", "a < -9223372036854775808", "a != 1e+19"]
    assert [row[3:5] for row in rows(texts)] == [
        (1709287200000000000.0, 1709287200000000001),
        (2.0**63 - 1024, 2**63 - 1),
        (-(2.0**63), -(2**63)),
        (1e19, None),
    ]


def test_texts_with_quotes_and_words_of_the_language_stay_whole() -> None:
    texts = ["topic = 'it''s' and a contains ' and b = '", "'my attribute' <= -1e-07"]
    assert rows(texts) == [
        (0, "topic", "=", None, None, "it's"),
        (0, "a", "contains", None, None, " and b = "),
        (1, "my attribute", "<=", -1e-07, None, None),
    ]


def whole(value: float | str) -> int | None:
    is_whole = not isinstance(value, str) and value % 1 == 0 and -(2**63) <= value < 2**63
    return int(value) if is_whole else None


@given(st.lists(st.lists(predicates(), min_size=1, max_size=3), max_size=4))
def test_every_canonical_text_reads_back(subscriptions: list[list[Predicate]]) -> None:
    wanted = [
        (
            i,
            p.attribute,
            p.op,
            None if isinstance(p.value, str) else p.value,
            whole(p.value),
            p.value if isinstance(p.value, str) else None,
        )
        for i, conjunction in enumerate(subscriptions)
        for p in conjunction
    ]
    assert rows([canonical(conjunction) for conjunction in subscriptions]) == wanted
