"""Prints the output of commands: lines of prose, and rows as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Self, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.errors import QueryError

_DEFAULT_WIDTH = 80
_NO_BREAK = "\x1f"
"""Placeholder for a space at which `print_lines` must not break a line."""
MAX_SHOWN = 1000
"""The maximum number of rows that a command prints to a terminal."""
_WIDE = 10_000
_MIN_WIDTH = 24
"""The minimum width of a column whose strings are folded, in characters."""
_MIN_KEY_WIDTH = 48
"""The minimum width of a key column whose strings are folded, in characters."""
_GAP = 3
"""The number of spaces between two columns."""


def print_lines(*lines: str, indent: int = 0, out: TextIO | None = None) -> None:
    """Prints lines of prose to a stream (default: stdout); on a terminal, long lines are wrapped between words.

    A continuation line has the leading spaces of its line, and ``indent`` more.
    """
    stream = out if out is not None else sys.stdout
    width = columns(stream)
    for line in lines:
        margin = " " * (len(line) - len(line.lstrip()) + indent)
        options: Any = {"subsequent_indent": margin, "break_long_words": False, "break_on_hyphens": False}
        broken = [line] if width is None else textwrap.wrap(line, width, **options)
        stream.write("\n".join(broken or [""]).replace(_NO_BREAK, " ") + "\n")


def unbroken(command: str) -> str:
    """Replaces the spaces in ``command`` by `_NO_BREAK`, so that `print_lines` prints the command in one line."""
    return command.replace(" ", _NO_BREAK)


def columns(stream: TextIO) -> int | None:
    """Returns the width of a terminal in characters; None if the stream is not a terminal."""
    return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH if stream.isatty() else None


def write_rows(rows: pa.Table, form: str, out: TextIO, n_keys: int = 0) -> None:
    """Writes rows to a stream in a format; ``n_keys`` is the number of leading key columns, see `print_table`.

    The formats are ``table``; ``vertical``: one line per value; ``json``: a list of objects, one per line; ``csv``: a
    header line, where null is an empty field and the empty string is ``""``; ``parquet``: a Parquet file. In ``json``,
    column names are distinct.
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
        of = pa.types
        are_numbers = [of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind) for kind in rows.schema.types]
        print_table(rows.column_names, values(rows), are_numbers, out, n_keys)


def values(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yields the rows as tuples of JSON-compatible values."""
    columns = ([plain(value) for value in column.to_pylist()] for column in rows.columns)
    return zip(*columns, strict=True)


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of SQL
    """Returns a SQL value as a JSON-compatible value."""
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
    """Returns a value as a string: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def print_table(
    names: Sequence[str], rows: Iterable[Sequence[Any]], are_numbers: Sequence[bool], out: TextIO | None = None,
    n_keys: int = 0,
) -> None:  # fmt: skip
    """Prints a table; numbers are rounded to six significant digits.

    If the table is too wide for the terminal, columns with one value in all rows are removed, and printed below the
    table. If the table is still too wide, it is split into tables that repeat the key columns. If no such split fits,
    each value is printed in its own line. A stream that is not a terminal has a width of `_WIDE`.

    The first ``n_keys`` columns identify a row. ``are_numbers`` contains for each column whether it is numeric.
    """
    stream = out if out is not None else sys.stdout
    grid = _Grid(names, [[_cell(value) for value in row] for row in rows], are_numbers, n_keys)
    width = columns(stream) or _WIDE
    if grid.fits(width):
        grid.print(stream, width)
        return
    same = grid.constant_columns()
    kept = grid.of([index for index in range(len(names)) if index not in same])
    parts = kept.parts(width)
    if parts:
        for number, part in enumerate(parts):
            stream.write("\n" if number else "")
            part.print(stream, width)
    else:
        print_vertical(kept.names, kept.cells, stream)
    texts = [(names[index], grid.cells[0][index].plain) for index in same]
    told = [f"{unbroken(f'{name} ')}{text}" for name, text in texts if text]
    if told:
        print_lines(f"in all rows: {', '.join(told)}", out=stream)


def print_vertical(names: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    """Writes `rows` to `out`: for each row a heading, then one line per column with its name and value."""
    width = max(map(len, names), default=0)
    for number, row in enumerate(rows, 1):
        out.write(f"── row {number} ".ljust(width + 20, "─") + "\n")
        out.writelines(f"{name:{width}}  {_cell(value).plain}\n" for name, value in zip(names, row, strict=True))


def _cell(value: Any) -> Text:  # noqa: ANN401 - any plain value, or a cell
    if isinstance(value, Text):
        return value
    text = f"{value:.6g}" if isinstance(value, float) else shown(value)
    return Text(text, style="dim" if value is None else "")


@dataclass(frozen=True)
class _Grid:
    """A table and its layout. The fields are the arguments of `print_table`."""

    names: Sequence[str]
    cells: Sequence[Sequence[Text]]
    are_numbers: Sequence[bool]
    n_keys: int

    def of(self, indexes: Sequence[int]) -> Self:
        """Returns the table with only the columns at ``indexes``."""
        cells = [[row[index] for index in indexes] for row in self.cells]
        n_keys = sum(index < self.n_keys for index in indexes)
        return type(self)([self.names[i] for i in indexes], cells, [self.are_numbers[i] for i in indexes], n_keys)

    def constant_columns(self) -> list[int]:
        # If all columns are constant, or the table has fewer than two rows, the result is empty.
        numbered = enumerate(zip(*self.cells, strict=True))
        alike = [index for index, column in numbered if len({cell.plain for cell in column}) == 1]
        same = [index for index in alike if index >= self.n_keys] if len(self.cells) > 1 else []
        return same if len(same) < len(self.names) else []

    def parts(self, width: int) -> list[Self]:
        """Splits the columns into tables with the key columns that fit the width; empty if one column does not fit."""
        if self.names and self.fits(width):
            return [self]
        keys = [*range(self.n_keys)]
        parts: list[list[int]] = []
        for index in range(self.n_keys, len(self.names)):
            if parts and self.of([*parts[-1], index]).fits(width):
                parts[-1].append(index)
            elif keys and self.of([*keys, index]).fits(width):
                parts.append([*keys, index])
            else:
                return []
        return [self.of(indexes) for indexes in parts]

    def fits(self, width: int) -> bool:
        """Returns whether the table fits the width. Strings may be folded, but not numbers and column names."""
        return sum(least for least, _ in self._ranges()) + _GAP * (len(self.names) - 1) <= width

    def print(self, stream: TextIO, width: int) -> None:
        """Prints the table, which must fit the width."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name, is_number, wide in zip(self.names, self.are_numbers, self._widths(width), strict=True):
            table.add_column(
                Text(name, no_wrap=True), justify="right" if is_number else "left", overflow="fold", width=wide
            )
        for row in self.cells:
            table.add_row(*row)
        console = Console(file=stream, width=width)
        with console.capture() as printed:
            console.print(table)
        stream.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())

    def _ranges(self) -> list[tuple[int, int]]:
        """Returns the minimum and the maximum width of each column. At the maximum width no string is folded."""
        found = []
        for index, (name, is_number) in enumerate(zip(self.names, self.are_numbers, strict=True)):
            longest = max((row[index].cell_len for row in self.cells), default=0)
            narrowest = _MIN_KEY_WIDTH if index < self.n_keys else _MIN_WIDTH
            least = longest if is_number else min(longest, narrowest)
            found.append((max(len(name), least), max(len(name), longest)))
        return found

    def _widths(self, width: int) -> list[int]:
        """Returns the width of each column: the minimum width, and a share of the remaining width of the table."""
        ranges = self._ranges()
        widths = [least for least, _ in ranges]
        left = width - sum(widths) - _GAP * (len(widths) - 1)
        by_growth = sorted(range(len(ranges)), key=lambda index: ranges[index][1] - ranges[index][0])
        for number, index in enumerate(by_growth):
            least, most = ranges[index]
            more = min(most - least, left // (len(by_growth) - number))
            widths[index] += more
            left -= more
        return widths


def _write_json(rows: pa.Table, out: TextIO) -> None:
    names = rows.column_names
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise QueryError(f"{' and '.join(twice)} names several columns; give each a name of its own with AS")
    lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in values(rows))
    out.write("[")
    for number, line in enumerate(lines):
        out.write(f"{',' if number else ''}\n{line}")
    out.write("\n]\n" if rows.num_rows else "]\n")


def _csv_value(value: Any) -> str:  # noqa: ANN401 - any plain value
    if value is None:
        return ""
    text = shown(value)
    return '"' + text.replace('"', '""') + '"' if not text or any(sign in text for sign in ',"\r\n') else text
