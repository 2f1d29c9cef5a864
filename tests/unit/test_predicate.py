"""The text of subscriptions: what it means, that it reads back as itself, and where it is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pipelines.contract.predicate import OPERATORS, Predicate, canonical, parse_predicates
from pipelines.contract.settings import nfc
from pipelines.errors import PredicateError


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("price > 10", [("price", ">", 10)]),
        ("price>10", [("price", ">", 10)]),
        ("price >= -1.5e-3", [("price", ">=", -0.0015)]),
        ("price < +.5", [("price", "<", 0.5)]),
        ("price <= 3.", [("price", "<=", 3)]),
        ("symbol = AAPL", [("symbol", "=", "AAPL")]),
        ("symbol != 'it''s'", [("symbol", "!=", "it's")]),
        (r"symbol = 'it\'s'", [("symbol", "=", "it's")]),
        (r'symbol = "a \"b\" ""c"" \\ \n"', [("symbol", "=", 'a "b" "c" \\ \\n')]),
        ("symbol = ''", [("symbol", "=", "")]),
        ("symbol = '10'", [("symbol", "=", "10")]),
        ("symbol prefix 10", [("symbol", "prefix", "10")]),
        ("symbol suffix .5 and symbol contains 1e3", [("symbol", "suffix", ".5"), ("symbol", "contains", "1e3")]),
        ("topic = 42", [("topic", "=", "42")]),
        ("topic prefix sport/", [("topic", "prefix", "sport/")]),
        ("price > 1 AND price < 2 aNd price != 1.5", [("price", ">", 1), ("price", "<", 2), ("price", "!=", 1.5)]),
        ("path = a.b_c-d:e/f@g", [("path", "=", "a.b_c-d:e/f@g")]),
        ("'my price' > 1 and 'and' = 'and'", [("my price", ">", 1), ("and", "=", "and")]),
        ("name = 'a and b'", [("name", "=", "a and b")]),
        ("größe = süß", [("größe", "=", "süß")]),
        ("  price\n>\t1  ", [("price", ">", 1)]),
        ("x = 1a", [("x", "=", "1a")]),
        ("x = 1709287200000000001", [("x", "=", 1709287200000000001)]),
        ("x = 1709287200000000001.0", [("x", "=", 1709287200000000001)]),
        ("x < 1e18 and x > 1e19", [("x", "<", 10**18), ("x", ">", 1e19)]),
        ("x >= -9223372036854775808", [("x", ">=", -(2**63))]),
    ],
)
def test_a_text_reads_as_its_conjunction(where: str, expected: list[tuple[str, str, float | str]]) -> None:
    read = parse_predicates(None, where)
    assert [(p.attribute, p.op, p.value) for p in read] == expected
    assert [type(p.value) for p in read] == [type(value) for _, _, value in expected]


def test_a_topic_is_an_equality_that_comes_first() -> None:
    assert canonical(parse_predicates("news", "price > 10.0")) == "topic = 'news' and price > 10"
    assert canonical(parse_predicates("it's", None)) == "topic = 'it''s'"
    assert parse_predicates("news", " ") == parse_predicates("news", None)


@pytest.mark.parametrize(
    ("where", "column", "words"),
    [
        ("price >", 8, "the end of the text"),
        ("price", 6, "= != < <= > >= prefix suffix contains"),
        ("price > 10 and", 15, "after 'and'"),
        ("price > 10 price < 20", 12, "and, or the end"),
        ("name = two words", 12, "needs quotes"),
        ("price => 10", 7, "did you mean '>='?"),
        ("price == 10", 7, "did you mean '='?"),
        ("price <> 10", 7, "did you mean '!='?"),
        ("symbol prefx A", 8, "did you mean 'prefix'?"),
        ("symbol CONTAINS A", 8, "did you mean 'contains'?"),
        ("symbol = 'open", 10, "never closed"),
        ("> 10", 1, "attribute's name belongs"),
        ("10 < price", 1, "attribute's name belongs"),
        ("and price > 1", 1, "attribute's name belongs"),
        ("'' = 1", 1, "attribute's name belongs"),
        ("price > and", 9, "'and'"),
        ("price > 1e999", 9, "too large"),
        ("price > 18446744073709551617", 9, "too large; allowed: whole numbers of 64 bits"),
        ("(price > 1)", 1, "outside quotes"),
        ("price > 1 && x = 2", 11, "outside quotes"),
        ("a = 1 or b = 2", 7, "'or'"),
        ("x 'prefix' a", 3, "operator"),
    ],
)
def test_an_error_gives_its_column_and_a_cure(where: str, column: int, words: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse_predicates(None, where)
    assert caught.value.column == column
    assert words in str(caught.value)


@pytest.mark.parametrize(("topic", "where"), [(None, None), (None, ""), (None, "  "), ("", None), ("", "a = 1")])
def test_an_empty_conjunction_is_refused(topic: str | None, where: str | None) -> None:
    with pytest.raises(PredicateError, match="topic"):
        parse_predicates(topic, where)


_TEXTS = st.text(max_size=20).map(nfc)
"""Texts in the composed form, to which the parser normalises topics."""
_PREDICATES = st.one_of(
    st.builds(
        Predicate,
        attribute=st.text(min_size=1, max_size=10).filter(lambda name: name != "topic"),
        op=st.sampled_from(OPERATORS[:6]),
        value=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1) | _TEXTS,
    ),
    st.builds(
        Predicate, attribute=st.just("topic") | st.text(min_size=1), op=st.sampled_from(OPERATORS[:9]), value=_TEXTS
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PREDICATES, min_size=1, max_size=5))
def test_the_canonical_text_reads_back(predicates: list[Predicate]) -> None:
    assert parse_predicates(None, canonical(predicates)) == tuple(predicates)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab1.'\"\\ =<>!andprefix()", max_size=30))
def test_any_text_reads_or_is_refused_at_a_column(where: str) -> None:
    column: int | None = 1
    try:
        read = parse_predicates("t", where)
    except PredicateError as error:
        column = error.column
    else:
        assert parse_predicates(None, canonical(read)) == read
    assert column is not None
    assert 1 <= column <= len(where) + 1
