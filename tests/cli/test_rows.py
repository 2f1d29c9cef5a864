"""The rows of a query as table, JSON and CSV, and lines of prose, at a terminal and elsewhere."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.terminal import at_terminal

from pipelines.cli.printing import plain, print_lines, print_table, unbroken, values, write_rows
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


def table_at(width: int, rows: pa.Table) -> str:
    """A table at a terminal of so many columns."""
    return at_terminal(width, lambda out: write_rows(rows, "table", out))


WIDE = pa.table({
    "run_id": [1234567, 1234568],
    "subscriber_name": ["Frankfurt am Main", "Wien"],
    "publication_round": [100000, 200000],
    "latency_rounds_median": [12.3456789, 7.0],
    "topic": ["news", "news"],
    "verdict": ["valid, beyond the bound", "valid"],
})  # fmt: skip
VALUES = ("1234567", "100000", "12.3457", "Frankfurt am Main", "publication_round", "latency_rounds_median", "topic")


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_loses_no_column_and_breaks_no_number(width: int) -> None:
    shown = table_at(width, WIDE)
    assert max(map(len, shown.splitlines())) <= width
    assert all(value in shown for value in VALUES)
    assert ("── row 2 ─" in shown) == (width == 80)


def test_what_is_the_same_in_all_rows_makes_room() -> None:
    shown = table_at(100, WIDE)
    assert shown.splitlines()[-1] == "in all rows: topic news"
    assert len(shown.splitlines()) == 5
    below = table_at(80, WIDE).splitlines()
    assert (below[-1], len(below)) == ("in all rows: topic news", 13)
    empty = pa.table({"empty": ["", ""], "text": ["some words " * 3, "others"], "n": [1, 2]})
    assert table_at(30, empty).splitlines()[-1].split() == ["others", "2"]
    assert "in all rows" not in table_at(20, pa.table({"text": ["a b " * 9] * 2, "number": [10**12] * 2}))


@pytest.mark.parametrize("width", [60, 80, 0])  # 0: the terminal does not say
def test_a_wide_table_with_a_key_becomes_several(width: int) -> None:
    rows = list(values(WIDE))
    shown = at_terminal(width, lambda out: print_table(WIDE.column_names, rows, [True] * 6, out, n_keys=1))
    assert max(map(len, shown.splitlines())) <= (width or 80)
    assert all(value in shown for value in VALUES)
    first, *others, last = shown.split("\n\n")
    assert all(part.splitlines()[0].split()[0] == "run_id" for part in (first, *others, last))
    assert all(part.splitlines()[2].split()[0] == "1234567" for part in (first, *others, last))
    assert last.splitlines()[-1] == "in all rows: topic news"


def test_folded_texts_are_whole_at_every_width() -> None:
    words = [f"word{number}" for number in range(40)]
    rows = [("runs/quickstart/20261124T054752Z", 2, " ".join(words[:9]), " ".join(words[9:]))]
    for width in range(60, 180, 3):
        shown = at_terminal(
            width, lambda out: print_table(("store", "n", "parameters", "settings"), rows, [0, 1, 0, 0], out, n_keys=1)
        )
        assert max(map(len, shown.splitlines())) <= width
        assert {*words, rows[0][0], "parameters"} <= set(shown.split())


def test_prose_is_broken_between_words_at_a_terminal_only() -> None:
    line = f"  5 are lost, as too many nodes were down at once: {unbroken('roundtable why runs/new')}"
    wrapped = at_terminal(40, lambda out: print_lines(line, "", indent=2, out=out)).splitlines()
    assert wrapped == ["  5 are lost, as too many nodes were", "    down at once:", "    roundtable why runs/new", ""]
    plainly = io.StringIO()
    print_lines(line, out=plainly)
    assert plainly.getvalue() == "  5 are lost, as too many nodes were down at once: roundtable why runs/new\n"


def test_what_fits_a_terminal_is_a_table() -> None:
    assert table_at(120, WIDE.select(["run_id", "topic"])).splitlines()[0].split() == ["run_id", "topic"]
    [*_, row, folded] = table_at(80, pa.table({"n": [1], "text": ["word " * 30]})).splitlines()
    assert row.startswith("1   word word")
    assert folded.strip().startswith("word")


def test_vertical_is_a_line_a_value() -> None:
    text = written(ROWS.slice(0, 1).select(["n", "text", "is"]), "vertical")
    assert text.splitlines()[1:] == ["n     1", 'text  say "a, b"', "is    true"]


def test_parquet_holds_the_rows(tmp_path: Path) -> None:
    with (tmp_path / "rows.parquet").open("w") as out:
        write_rows(ROWS, "parquet", out)
    assert pq.read_table(tmp_path / "rows.parquet").select(["n", "list"]).equals(ROWS.select(["n", "list"]))


def test_a_table_rounds_numbers_and_json_does_not() -> None:
    rows = pa.table({"x": [1 / 3]})
    assert written(rows, "table").split()[-1] == "0.333333"
    assert json.loads(written(rows, "json")) == [{"x": 1 / 3}]
