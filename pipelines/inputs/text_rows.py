"""Tables in text files: delimiter, titles, comments and decimal commas are found in the file; Arrow reads the rows."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from pipelines.errors import DataFileError

BLANKS = " "
"""The delimiter of files whose cells are separated by any number of spaces and tabs."""
_DELIMITERS = (";", "\t", ",", "|")
_NAMES = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars", BLANKS: "spaces"}
_SAMPLE = 50
_SHOWN = 5
_WITH_COMMA = r"^[-+]?[0-9]+(,[0-9]+)?$"


@dataclass(frozen=True)
class TextRows:
    """The lines of a table, before its titles are known.

    Attributes:
        lines: The lines with rows, without comments and blank lines.
        numbers: The line number of each in the file.
        delimiter: What separates the cells; `BLANKS` for any blanks.
        sample: The cells of the first lines, trimmed.
        is_quoted: Whether cells may be in double quotes.
    """

    lines: Sequence[str]
    numbers: Sequence[int]
    delimiter: str
    sample: Sequence[Sequence[str]]
    is_quoted: bool = True

    @property
    def first(self) -> list[str]:
        """The cells of the first line."""
        return list(self.sample[0]) if self.sample else []

    @property
    def delimiter_name(self) -> str:
        """The delimiter as messages call it."""
        return _NAMES.get(self.delimiter, repr(self.delimiter))

    def table(self, titles: Sequence[str], *, skip: int) -> TextTable:
        """Returns the rows as columns of strings.

        Args:
            titles: A title for each column.
            skip: How many of the lines are no rows.

        Raises:
            DataFileError: Rows have another number of cells.
        """
        bad: list[tuple[int, int]] = []

        def refuse(row: pa_csv.InvalidRow) -> str:
            bad.append((row.number, row.actual_columns))
            return "skip"

        lines = self.lines[skip:]
        if self.delimiter == BLANKS:
            lines = ["\t".join(line.split()) for line in lines]
        if not lines:
            return TextTable(pa.table({title: pa.array([], pa.string()) for title in titles}), (), self)
        table = pa_csv.read_csv(
            io.BytesIO("\n".join(lines).encode()),
            read_options=pa_csv.ReadOptions(column_names=list(titles), use_threads=False),
            parse_options=pa_csv.ParseOptions(
                delimiter="\t" if self.delimiter == BLANKS else self.delimiter,
                quote_char='"' if self.is_quoted else False, newlines_in_values=self.is_quoted,
                ignore_empty_lines=len(titles) > 1, invalid_row_handler=refuse,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(titles, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )  # fmt: skip
        numbers = tuple(self.numbers[skip:]) if len(lines) == table.num_rows + len(bad) else ()
        if bad:
            raise DataFileError(_ragged(bad, numbers, len(titles)))
        return TextTable(table, numbers, self)


@dataclass(frozen=True)
class TextTable:
    """The rows of a table.

    Attributes:
        rows: Columns of strings by title, null where a cell is empty.
        numbers: The line of each row in the file; empty where a cell holds line breaks.
        source: The lines that it was read from.
    """

    rows: pa.Table
    numbers: Sequence[int]
    source: TextRows

    def place(self, row: int) -> str:
        """Returns the line of a row for messages; its number in tables without lines."""
        return f"line {self.numbers[row]}" if self.numbers else f"row {row + 1}"


def open_data(path: Path) -> IO[bytes]:
    """Opens a file, as it is or as what is compressed in it (.gz, .xz)."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")


def split(
    text: str, *, delimiter: str | None = None, is_quoted: bool = True, comments: str = "#%", only_before: bool = False
) -> TextRows:
    """Returns the lines of a table and the delimiter that splits all of the first ones into equally many cells.

    Args:
        text: The file.
        delimiter: What separates the cells; None finds it.
        is_quoted: Whether cells may be in double quotes.
        comments: Lines that begin with one of these characters are no rows.
        only_before: Whether comments and blank lines are before the rows only; later ones belong to cells.
    """
    numbered = list(enumerate(text.rstrip().split("\n"), start=1))
    is_row = [bool(bare := line.strip()) and bare[0] not in comments for _, line in numbered]
    if only_before:
        first = is_row.index(True) if any(is_row) else len(is_row)
        numbered = numbered[first:]
    else:
        numbered = [one for one, is_kept in zip(numbered, is_row, strict=True) if is_kept]
    lines, numbers = [line.rstrip("\r") for _, line in numbered], [number for number, _ in numbered]
    found = delimiter or _delimiter(lines[:_SAMPLE])
    return TextRows(lines, numbers, found, _cells(lines[:_SAMPLE], found, is_quoted=is_quoted), is_quoted)


def with_decimal_points(table: TextTable) -> tuple[pa.Table, list[str]]:
    """Returns the rows with decimal points where numbers have decimal commas, and the titles of those columns.

    A column has decimal commas where all of its cells are numbers with a comma or whole numbers, one of them has a
    comma, and the delimiter is not a comma.
    """
    rows, changed = table.rows, []
    if table.source.delimiter == ",":
        return rows, []
    for place, title in enumerate(rows.column_names):
        column = pc.utf8_trim_whitespace(rows[title])
        if not pc.all(pc.match_substring_regex(column, _WITH_COMMA)).as_py():
            continue
        if pc.any(pc.match_substring(column, ",")).as_py():
            rows = rows.set_column(place, title, pc.replace_substring(column, ",", "."))
            changed.append(title)
    return rows, changed


def _delimiter(lines: Sequence[str]) -> str:
    """Returns the delimiter with which the lines have the same number of cells, of several the one with most cells.

    Where none has, that with which the first line has most cells.
    """
    widths = {
        mark: [len(row) for row in _cells(lines, mark, is_quoted=mark != BLANKS)] for mark in (*_DELIMITERS, BLANKS)
    }
    even = [mark for mark in _DELIMITERS if widths[mark] and min(widths[mark]) == max(widths[mark]) > 1]
    if not even and widths[BLANKS] and min(widths[BLANKS]) == max(widths[BLANKS]) > 1:
        return BLANKS
    return max(even or _DELIMITERS, key=lambda mark: widths[mark][0] if widths[mark] else 0)


def _cells(lines: Sequence[str], delimiter: str, *, is_quoted: bool) -> list[list[str]]:
    if delimiter == BLANKS:
        return [line.split() for line in lines]
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    try:
        rows = list(csv.reader([line + "\n" for line in lines], delimiter=delimiter, quoting=quoting))
    except csv.Error:
        rows = [line.split(delimiter) for line in lines]
    return [[cell.strip() for cell in row] for row in rows]


def _ragged(bad: Sequence[tuple[int, int]], numbers: Sequence[int], width: int) -> str:
    """Returns the message for rows whose number of cells differs from that of the columns."""
    places = [
        (f"line {numbers[number - 1]}" if numbers and number else f"row {number}", n_cells)
        for number, n_cells in bad[:_SHOWN]
    ]
    shown = ", ".join(f"{place}: {n_cells} cells" for place, n_cells in places)
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    return f"{shown}{more}, and the first line has {width}; give each row as many"
