"""The rows of a query as table, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pipelines.cli.rows import plain, write_rows
from pipelines.errors import QueryError

ROWS = pa.table({
    "n": pa.array([1, None, -3], pa.int64()),
    "text": ['say "a, b"', "", None],
    "x": [0.5, float("nan"), float("-inf")],
    "list": [[1, 2], None, []],
    "is": [True, None, False],
})  # fmt: skip


def written(rows: pa.Table, form: str) -> str:
    out = io.StringIO()
    write_rows(rows, form, out)
    return out.getvalue()


def test_json_is_a_list_of_objects_one_a_line() -> None:
    text = written(ROWS, "json")
    assert json.loads(text) == [
        {"n": 1, "text": 'say "a, b"', "x": 0.5, "list": [1, 2], "is": True},
        {"n": None, "text": "", "x": "NaN", "list": None, "is": None},
        {"n": -3, "text": None, "x": "-Infinity", "list": [], "is": False},
    ]
    assert len(text.splitlines()) == 5


def test_json_of_no_rows_is_an_empty_list() -> None:
    assert json.loads(written(ROWS.slice(0, 0), "json")) == []


def test_json_cannot_have_a_name_twice() -> None:
    with pytest.raises(QueryError, match="a names several columns; give each"):
        written(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), "json")


def test_csv_quotes_what_needs_it_and_tells_null_from_the_empty_text() -> None:
    text = written(ROWS, "csv")
    assert text.splitlines() == [
        "n,text,x,list,is",
        '1,"say ""a, b""",0.5,"[1, 2]",true',
        ',"",NaN,,',
        "-3,,-Infinity,[],false",
    ]
    assert next(iter(csv.DictReader(io.StringIO(text))))["text"] == 'say "a, b"'


def test_a_line_of_a_table_is_never_broken_where_nobody_sees_it() -> None:
    text = written(pa.table({"[b]name": ["x" * 300], "n": [7]}), "table")
    head, _, row = text.splitlines()
    assert head.split() == ["[b]name", "n"]
    assert row.split() == ["x" * 300, "7"]


def test_a_table_shows_null() -> None:
    assert written(ROWS, "table").splitlines()[3].split() == ["null", "NaN", "null", "null"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("1.50"), 1.5),
        (Decimal("3"), 3),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, tzinfo=UTC), "2020-01-02T03:00:00+00:00"),
        (timedelta(hours=1), "1:00:00"),
        (b"\x0f", "0f"),
        ({"a": Decimal("0.1")}, {"a": 0.1}),
        ([("k", 1)], [["k", 1]]),
    ],
)
def test_values_of_sql_become_values_of_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value))
