"""Reads tables in text files: skips comments, detects delimiters and decimal commas, and parses rows with Arrow.

Functions that several readers share decode files, and select columns by their names.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import lzma
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from typing import IO, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from pipelines.contract.settings import nfc
from pipelines.errors import DataFileError, listed, nearest

P = ParamSpec("P")
R = TypeVar("R")
Read: TypeAlias = Callable[Concatenate[Path, P], R]
BLANKS = " "
"""The value of `TextRows.delimiter` for cells that are separated by one or more spaces or tabs."""
_DELIMITERS = (";", "\t", ",", "|")
_NAMES = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars", BLANKS: "spaces"}
SRC = ("src", "source", "from", "fromnodeid", "from_node_id", "source_id", "u", "node1", "node_1", "start", "tail")
DST = ("dst", "target", "dest", "destination", "to", "tonodeid", "to_node_id", "target_id", "v", "node2", "node_2",
        "end", "head")  # fmt: skip
"""Usual names, in lower case, of the column of a link's second end. `SRC` has the names for the first end."""
_SAMPLE = 50
_SHOWN = 5
_WITH_COMMA = r"^[-+]?[0-9]+(,[0-9]+)?$"


@dataclass(frozen=True)
class TextRows:
    """The lines of a delimited table, before the caller decides whether the first line is a header.

    Attributes:
        lines: The lines of the file, except the comments and blank lines that `split` removes.
        numbers: The line number in the file, from 1, of each entry of `lines`.
        delimiter: The separator of the cells, or `BLANKS`.
        sample: The cells of each of the first 50 entries of `lines`, stripped of white space.
        is_quoted: Whether double quotes can enclose a cell.
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
        """The name of the delimiter in messages, for example ``semicolons``."""
        return _NAMES.get(self.delimiter, repr(self.delimiter))

    def column_names(self, *, has_header: bool) -> list[str]:
        """Returns the cells of the first line; without a header, the numbers of the columns, from 1."""
        return self.first if has_header else [str(number + 1) for number in range(len(self.first))]

    def table(self, column_names: Sequence[str], *, skip: int) -> FileTable:
        """Parses the lines after the first `skip` lines. The table has one column of strings for each column name.

        Decimal commas become decimal points. A column has decimal commas if all its cells are whole numbers or numbers
        with a comma, and at least one cell has a comma. A file whose delimiter is the comma has no decimal commas.
        """
        bad: list[tuple[int, int]] = []

        def refuse(row: pa_csv.InvalidRow) -> str:
            bad.append((row.number, row.actual_columns))
            return "skip"

        lines = self.lines[skip:]
        if self.delimiter == BLANKS:
            lines = ["\t".join(line.split()) for line in lines]
        if not lines:
            return FileTable(pa.table({name: pa.array([], pa.string()) for name in column_names}))
        content = "\n".join(lines)
        encoded = content.encode()
        if self.is_quoted and self.delimiter != BLANKS and content.count('"') % 2:
            self._check_quotes(content, skip)
        table = pa_csv.read_csv(
            io.BytesIO(encoded),
            read_options=pa_csv.ReadOptions(
                column_names=list(column_names), use_threads=False, block_size=block_bytes(encoded)
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter="\t" if self.delimiter == BLANKS else self.delimiter,
                quote_char='"' if self.is_quoted else False, newlines_in_values=self.is_quoted,
                ignore_empty_lines=len(column_names) > 1, invalid_row_handler=refuse,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(column_names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )  # fmt: skip
        numbers = tuple(self.numbers[skip:]) if len(lines) == table.num_rows + len(bad) else ()
        if bad:
            places = (f"line {numbers[number - 1]}" if numbers and number else f"row {number}" for number, _ in bad)
            shown = [f"{place}: {n_cells} cells" for place, (_, n_cells) in zip(places, bad, strict=True)]
            width = f"the first line has {len(column_names)}; give each row as many"
            raise DataFileError(f"{listed(shown, _SHOWN)}, and {width}")
        return FileTable(*_with_decimal_points(table, self.delimiter), numbers)

    def _check_quotes(self, content: str, skip: int) -> None:
        # Arrow reads a cell without a closing quote up to the end of the file, so the rows in it would be lost.
        cell = rf'(?:\A|[\n{re.escape(self.delimiter)}])(")[^"]*+(?:""[^"]*+)*+("?)'
        opened = next((found.start(1) for found in re.finditer(cell, content) if not found[2]), None)
        if opened is not None:
            line = self.numbers[skip + content.count("\n", 0, opened)]
            raise DataFileError(f"line {line}: a cell begins with a quote and has no closing quote; add the quote")


@dataclass(frozen=True)
class FileTable:
    """The rows of a table in a file.

    Attributes:
        rows: Columns by name. Columns of text files contain strings; null for an empty cell.
        decimal_commas: The names of the columns whose decimal commas were replaced by decimal points.
        numbers: The line number of each row; empty if the file is not text, or if a cell contains line breaks.
    """

    rows: pa.Table
    decimal_commas: Sequence[str] = ()
    numbers: Sequence[int] = ()

    def place(self, row: int) -> str:
        """Returns the position of row `row` for messages: its line number, or its row number if the line is unknown."""
        return f"line {self.numbers[row]}" if self.numbers else f"row {row + 1}"


def open_data(path: Path) -> IO[bytes]:
    """Opens a file for reading; ``.gz`` and ``.xz`` files are decompressed."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")


def cached_until_changed(maxsize: int) -> Callable[[Read[P, R]], Read[P, R]]:
    """Returns a decorator that caches up to `maxsize` results of a function that reads a file.

    The function takes the path of the file and hashable arguments. A result is cached until the modification time or
    the size of the file changes.
    """

    def decorate(read: Read[P, R]) -> Read[P, R]:
        @lru_cache(maxsize=maxsize)
        def cached(path: Path, _state: object, args: Any, kwargs: Any) -> R:  # noqa: ANN401 - arguments of `read`
            return read(path, *args, **dict(kwargs))

        @wraps(read)
        def current(path: Path, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                state = path.stat()
            except OSError:
                return read(path, *args, **kwargs)  # `read` raises the error
            return cached(path, (state.st_mtime_ns, state.st_size), args, tuple(kwargs.items()))

        return current

    return decorate


def split(
    text: str, *, delimiter: str | None = None, is_quoted: bool = True, comments: str = "#%", only_before: bool = False
) -> TextRows:
    """Splits the content of a file into lines. If `delimiter` is `None`, the function detects the delimiter.

    A delimiter qualifies if it splits each of the first 50 lines into the same number of cells, at least two. If
    several delimiters qualify, the function selects the delimiter with the most cells. It selects blanks only if no
    other delimiter qualifies. If no delimiter qualifies, it selects the delimiter with the most cells in the first
    line.

    Lines that begin with a character of `comments` are comments. Comments and blank lines are removed. If `only_before`
    is set, they are removed only before the first row, because a later line can belong to a quoted cell.
    """
    if "\n" not in text:
        text = text.replace("\r", "\n")  # Excel's format "CSV (Macintosh)"
    numbered = list(enumerate(text.split("\n"), start=1))
    while numbered and not numbered[-1][1].strip():
        numbered.pop()
    is_row = [bool(bare := line.strip()) and bare[0] not in comments for _, line in numbered]
    if only_before:
        first = is_row.index(True) if any(is_row) else len(is_row)
        numbered = numbered[first:]
    else:
        numbered = [one for one, is_kept in zip(numbered, is_row, strict=True) if is_kept]
    lines, numbers = [line.rstrip("\r") for _, line in numbered], [number for number, _ in numbered]
    found = delimiter or _delimiter(lines[:_SAMPLE])
    return TextRows(lines, numbers, found, _cells(lines[:_SAMPLE], found, is_quoted=is_quoted), is_quoted)


def _with_decimal_points(rows: pa.Table, delimiter: str) -> tuple[pa.Table, list[str]]:
    changed = []
    for place, name in enumerate(rows.column_names if delimiter != "," else ()):
        column = pc.utf8_trim_whitespace(rows.column(place))
        if not pc.all(pc.match_substring_regex(column, _WITH_COMMA)).as_py():
            continue
        if pc.any(pc.match_substring(column, ",")).as_py():
            rows = rows.set_column(place, name, pc.replace_substring(column, ",", "."))
            changed.append(name)
    return rows, changed


def texts_of(column: pa.ChunkedArray) -> pa.Array:
    """Returns `column` as strings without surrounding spaces. Null and empty cells are null."""
    text = pc.utf8_trim_whitespace(pc.cast(column.combine_chunks(), pa.string()))
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def names_of(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column of names or topics as `texts_of` does, in Unicode's composed form (NFC)."""
    return pc.utf8_normalize(texts_of(column), form="NFC")


def block_bytes(content: bytes) -> int:
    """Returns a block size for Arrow that covers ``content``. Arrow rejects rows that do not fit into two blocks."""
    return min(max(len(content) + 1, 1 << 20), (1 << 31) - 1)


def is_number(cell: str) -> bool:
    """Returns whether Arrow can convert `cell` to a double; Arrow also parses the columns of numbers."""
    try:
        pa.scalar(cell).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def decode(content: bytes, *, is_composed: bool = True) -> str:
    """Decodes UTF-8, with or without a byte order mark; if `is_composed`, to Unicode's composed form (NFC)."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        encoding = "UTF-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "ISO-8859-1"
        message = f"line {line}: not UTF-8 text (byte 0x{byte:02x}); convert it, e.g. with iconv -f {encoding} -t UTF-8"
        raise DataFileError(message) from error
    if "\0" in text:
        raise DataFileError(f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}: not a text file (a zero byte)")
    return nfc(text) if is_composed else text


def delay(text: object, place: str) -> float:
    """Returns the delay in the cell `text`."""
    cell = str(text).strip()
    if not is_number(cell):
        raise DataFileError(f"{place}: the delay is {text!r}; a delay is a number, 0 or more")
    value = float(cell)
    if not math.isfinite(value) or value < 0:
        raise DataFileError(f"{place}: the delay is {text}; a delay is finite, 0 or more")
    return value


def is_link(first: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Returns whether the first line of an edge list is certainly a link; otherwise it may be a header.

    The line is a link if its first two cells are numbers, or if one of them is an end of a link in another line.
    """
    others = {cell for row in rows for cell in row[:2]}
    return all(is_number(cell) for cell in first[:2]) or not others.isdisjoint(first[:2])


def column_indexes(
    column_names: Sequence[str], wanted: Sequence[tuple[str, str | None, Sequence[str]]], *, has_header: bool
) -> list[int]:
    """Returns the index of each wanted column.

    A wanted column is the scenario key that names it, the name that the scenario gives or None, and its usual names in
    lower case. Without a name, the first usual name in `column_names` selects the column; in a file without a header,
    whose columns are called 1, 2, 3 ..., the n-th wanted column is the n-th column.
    """
    found = []
    for number, (field, title, known) in enumerate(wanted):
        named = [str(number + 1)] if title is None else [title]
        if title is None and has_header:
            named = [other for name in known for other in column_names if other.lower() == name]
        if not named or named[0] not in column_names:
            shown = ", ".join(map(repr, column_names[:20]))
            lacking, cure = f"that is known as {field};", f"name one of its columns: {shown}"
            if title is not None:
                lacking, cure = f"{title!r};{nearest(title, column_names)}", f"its columns are {shown}"
            raise DataFileError(f"the file has no column {lacking} {cure}", field)
        if (count := column_names.count(named[0])) > 1:
            raise DataFileError(f"the file has {count} columns called {named[0]!r}; rename all but one", field)
        found.append(column_names.index(named[0]))
    return found


def are_numbers(named: Collection[str], first: Collection[str]) -> bool:
    """Returns whether ``named`` contains column numbers and not column titles, so that the file has no header.

    There are two such cases: all names are numbers from 1 to the number of columns; or all names are decimal numbers,
    and none of them is a cell of the first line, ``first``. If ``named`` is empty, the result is False.
    """
    within = {str(number + 1) for number in range(len(first))}
    are_decimal = all(name.isdecimal() for name in named)
    return bool(named) and ({*named} <= within or (are_decimal and {*named}.isdisjoint(first)))


def _delimiter(lines: Sequence[str]) -> str:
    marks = (*_DELIMITERS, BLANKS)
    widths = {mark: [len(row) for row in _cells(lines, mark, is_quoted=mark != BLANKS)] for mark in marks}
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
