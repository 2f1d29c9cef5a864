"""The rows of a query as a table for people, as JSON or as CSV."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.errors import QueryError

MAX_SHOWN = 1000
_WIDE = 10_000
_NARROWEST = 24
"""Columns of the terminal below which a text is not folded."""


def write_rows(rows: pa.Table, form: str, out: TextIO) -> None:
    """Writes rows.

    Args:
        rows: The rows.
        form: ``table``; ``vertical``: a line a value; ``json``: a list of objects, one a line; ``csv``: a line of names
            first, null is nothing and the empty text is ``""``; ``parquet``: a file of bytes.
        out: Where to.

    Raises:
        QueryError: Two columns have one name, which an object cannot have.
    """
    if form == "json":
        _write_json(rows, out)
    elif form == "csv":
        lines = [rows.column_names, *values(rows)]
        out.writelines(",".join(map(_csv_value, line)) + "\n" for line in lines)
    elif form == "parquet":
        pq.write_table(rows, out.buffer)
    elif form == "vertical":
        print_vertical(rows.column_names, values(rows), out)
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
    names: Sequence[str], rows: Iterable[Sequence[Any]], are_numbers: Sequence[bool], out: TextIO | None = None,
) -> None:  # fmt: skip
    """Prints a table for people.

    On a terminal that is too narrow, columns with one value for all rows go below the table, then the rows come one
    below the other. Without a terminal a line is as long as it has to be. Numbers are rounded to six digits.
    """
    stream = out if out is not None else sys.stdout
    cells = [[_cell(value) for value in row] for row in rows]
    console = Console(file=stream, width=os.get_terminal_size(stream.fileno()).columns if stream.isatty() else _WIDE)
    table = _table(names, cells, are_numbers)
    if _fits(table, console):
        _print(table, console, stream)
        return
    same = [
        place
        for place, column in enumerate(zip(*cells, strict=True))
        if len(cells) > 1 and len({cell.plain for cell in column}) == 1
    ]
    kept = [place for place in range(len(names)) if place not in same]
    fewer = _table([names[p] for p in kept], [[row[p] for p in kept] for row in cells], [are_numbers[p] for p in kept])
    if kept and _fits(fewer, console):
        _print(fewer, console, stream)
        stream.write(f"in all rows: {', '.join(f'{names[p]} {cells[0][p].plain}' for p in same)}\n" if same else "")
    else:
        print_vertical(names, cells, stream)


def print_vertical(names: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    """Prints rows one below the other, a line a column."""
    width = max(map(len, names), default=0)
    for number, row in enumerate(rows, 1):
        out.write(f"── row {number} ".ljust(width + 20, "─") + "\n")
        out.writelines(f"{name:{width}}  {_cell(value).plain}\n" for name, value in zip(names, row, strict=True))


def _cell(value: Any) -> Text:  # noqa: ANN401 - any plain value, or a cell
    if isinstance(value, Text):
        return value
    text = f"{value:.6g}" if isinstance(value, float) else shown(value)
    return Text(text, style="dim" if value is None else "")


def _table(names: Sequence[str], cells: Sequence[Sequence[Text]], are_numbers: Sequence[bool]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, (name, is_number) in enumerate(zip(names, are_numbers, strict=True)):
        longest = max((row[place].cell_len for row in cells), default=0)
        table.add_column(
            Text(name, no_wrap=True), justify="right" if is_number else "left", overflow="fold", no_wrap=is_number,
            min_width=max(len(name), longest if is_number else min(longest, _NARROWEST)),
        )  # fmt: skip
    for row in cells:
        table.add_row(*row)
    return table


def _fits(table: Table, console: Console) -> bool:
    unbounded = console.options.update(max_width=_WIDE)
    return console.measure(table, options=unbounded).minimum <= console.width


def _print(table: Table, console: Console, stream: TextIO) -> None:
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
