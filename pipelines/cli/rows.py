"""The rows of a query as a table for people, as JSON or as CSV."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TextIO

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.errors import QueryError

FORMATS = ("table", "json", "csv")
MAX_SHOWN = 1000
_WIDE = 10_000


def write_rows(rows: pa.Table, form: str, out: TextIO) -> None:
    """Writes rows.

    Args:
        rows: The rows.
        form: ``table``; ``json``: a list of objects, one a line; ``csv``: a line of names first, null is nothing and
            the empty text is ``""``.
        out: Where to.

    Raises:
        QueryError: Two columns have one name, which an object cannot have.
    """
    if form == "json":
        _write_json(rows, out)
    elif form == "csv":
        lines = [rows.column_names, *values(rows)]
        out.writelines(",".join(map(_csv_value, line)) + "\n" for line in lines)
    else:
        print_table(rows.column_names, values(rows), _are_numbers(rows), out)


def values(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yields the rows as plain values: numbers, texts, truth values, None, and lists and dicts of them."""
    columns = ([plain(value) for value in column.to_pylist()] for column in rows.columns)
    return zip(*columns, strict=True)


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of SQL
    """Returns a value that JSON can hold."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case date() | datetime() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def shown(value: Any) -> str:  # noqa: ANN401 - any plain value
    """Returns a plain value as text; null is the word."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def print_table(
    names: Sequence[str], rows: Iterable[Sequence[Any]], are_numbers: Sequence[bool], out: TextIO | None = None
) -> None:
    """Prints a table for people; a line is as long as it has to be where the output is no terminal."""
    stream = out if out is not None else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else _WIDE)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, is_number in zip(names, are_numbers, strict=True):
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(value), style="dim" if value is None else "") for value in row))
    with console.capture() as printed:
        console.print(table)
    stream.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())


def _write_json(rows: pa.Table, out: TextIO) -> None:
    names = rows.column_names
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise QueryError(f"{' and '.join(twice)} names several columns; give each a name of its own with AS")
    lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in values(rows))
    out.write("[")
    for place, line in enumerate(lines):
        out.write(f"{',' if place else ''}\n{line}")
    out.write("\n]\n" if rows.num_rows else "]\n")


def _csv_value(value: Any) -> str:  # noqa: ANN401 - any plain value
    if value is None:
        return ""
    text = shown(value)
    return '"' + text.replace('"', '""') + '"' if not text or any(sign in text for sign in ',"\r\n') else text


def _are_numbers(rows: pa.Table) -> list[bool]:
    kinds = pa.types
    return [
        kinds.is_integer(field.type) or kinds.is_floating(field.type) or kinds.is_decimal(field.type)
        for field in rows.schema
    ]
