"""Reads workload files: delimited text, JSON lines, Parquet and PADRES quotes. Files can be compressed.

PADRES writes a quote as ``[class,'STOCK'],[symbol,'AAPL'],[open,63.30],...,[date,'21-Dec-04']``.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from pipelines.errors import DataFileError
from pipelines.inputs.text_rows import (
    TextRows,
    are_numbers,
    block_bytes,
    cached_until_changed,
    decode,
    is_number,
    open_data,
    split,
)
from pipelines.inputs.workload.calls import parsed_numbers

_PAIR = re.compile(r"\[([^,\[\]']+),(?:'([^']*)'|([^\[\]']*))\]")
_LINE = re.compile(rf"{_PAIR.pattern}(?:,{_PAIR.pattern})*")
Format: TypeAlias = Literal["csv", "tsv", "jsonl", "parquet", "padres"]
_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
_COMPRESSED = (".gz", ".xz")
_FORMATS: dict[str, Format] = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}  # fmt: skip
_OBJECT = re.compile(r"\S")
_ROW = re.compile(r"\brow (\d+)")
"""A row in an error message of Arrow, which numbers rows from 0."""
_MAX_DEPTH = 200
_INDEX = "\0index"
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz")
_PUBLISHED_HEADERS = {  # the column names of well-known files that are also distributed without a header
    "user_artists.dat": ("userID", "artistID", "weight"),
    "user_friends.dat": ("userID", "friendID"),
}


def padres_table(members: Mapping[str, str], reverse: bool) -> pa.Table:
    """Returns a row for each quote and a column for each attribute. A cell is null if the quote lacks the attribute.

    Quoted values are strings, all other values are numbers. `members` maps the name of each file to its content, in
    which the newest quote is first. If there are several files and quotes have dates, rows are sorted by date, newest
    first, then by symbol. Otherwise rows keep the order of the files. If `reverse` is set, the oldest quote is first.
    """
    rows, texts = dict[str, dict[str, str | None]](), set[str]()
    for place, pairs in _lines(members):
        row: dict[str, str | None] = {}
        for name, quoted, bare in pairs:
            if name in row:
                raise DataFileError(f"{place}: attribute {name!r} is given twice")
            row[name] = quoted if quoted is not None else bare
            if quoted is not None:
                texts.add(name)
        rows[place] = row
    places = list(rows)
    names = dict.fromkeys(name for row in rows.values() for name in row)
    columns = {name: [row.get(name) for row in rows.values()] for name in names}
    order = _order(columns, places, len(members), reverse)
    arrays = {name: _typed(cells, name not in texts, name, places) for name, cells in columns.items()}
    return pa.table(arrays).take(pa.array(order))


def _lines(members: Mapping[str, str]) -> Iterator[tuple[str, list[tuple[str, str | None, str | None]]]]:
    for member, text in members.items():
        for number, line in enumerate(text.splitlines(), start=1):
            stripped = line.strip()
            if not stripped:
                continue
            place = f"{member}, line {number}"
            if not _LINE.fullmatch(stripped):
                raise DataFileError(f"{place}: {stripped[:60]!r} is not a list of [attribute,value] joined by commas")
            yield place, [(m[1], m[2], m[3]) for m in _PAIR.finditer(stripped)]


def _order(columns: Mapping[str, list[str | None]], places: list[str], members: int, reverse: bool) -> np.ndarray:
    if members > 1 and "date" in columns:
        dates = pd.Series(columns["date"], dtype=object)
        short, long = (pd.to_datetime(dates, format=form, errors="coerce") for form in ("%d-%b-%y", "%d-%b-%Y"))
        days = short.fillna(long)
        if (is_wrong := days.isna()).any():
            row = int(is_wrong.to_numpy().argmax())
            raise DataFileError(f"{places[row]}: {columns['date'][row]!r} is not a date such as '21-Dec-04'")
        days = days.to_numpy().astype(np.int64)
        symbols = np.array([text or "" for text in columns.get("symbol", [""] * len(places))])
        file_order = np.arange(len(places))
        return np.lexsort((-file_order if reverse else file_order, symbols, days if reverse else -days))
    order = np.arange(len(places))
    return order[::-1] if reverse else order


def _typed(cells: list[str | None], is_numeric: bool, name: str, places: list[str]) -> pa.Array:
    column = pa.array(cells, pa.string())
    if not is_numeric:
        return column
    numbers, wrong = parsed_numbers(column)
    if wrong is not None:
        message = f"{name!r} is the whole number {wrong}, which is not exact beside decimals, or beyond 64 bits"
        raise DataFileError(f"{places[cells.index(wrong)]}: {message}; allowed: whole numbers of 64 bits")
    if numbers is not None:
        return numbers
    place = next(p for p, cell in zip(places, cells, strict=True) if cell is not None and not is_number(cell))
    raise DataFileError(f"{place}: the value of {name!r} is neither a number nor a string in single quotes")


@dataclass(frozen=True, eq=False)
class Loaded:
    """The content of a file.

    Attributes:
        table: The columns. Columns of text files are strings, null for empty cells. Columns of JSON lines and Parquet
            have the types of their values.
        notes: At most one sentence, on detected properties such as the delimiter and the header.
    """

    table: pa.Table
    notes: tuple[str, ...] = ()


@cached_until_changed(maxsize=4)
def load(
    path: Path, given: Format | None = None, *, reverse: bool = False, limit: int | None = None,
    named: tuple[str, ...] = (),
) -> Loaded:  # fmt: skip
    """Returns the rows of a file, and notes on its detected properties.

    If `given` is `None`, the file's name or first line determines the format. If `reverse` is set, the last row comes
    first; then the first `limit` rows remain. `named` are the columns that the scenario names. If all of them are
    numbers of columns, the file has no header.
    """
    format_ = given or _format_of(path)
    try:
        loaded = _read(path, format_, named, reverse=reverse)
    except (*_DAMAGED, tarfile.TarError, pa.ArrowException, RecursionError) as error:
        cause = getattr(error, "strerror", None) or _ROW.sub(lambda row: f"row {int(row[1]) + 1}", str(error))
        raise DataFileError(f"{path} cannot be read as {format_}: {cause}; check the file and its format") from error
    table = loaded.table
    if not table.num_rows:
        raise DataFileError(f"{path} has no rows; give a file with one row or more")
    names = table.column_names
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataFileError(f"{path} has two columns called {name!r}; rename one")
    if reverse and format_ != "padres":
        table = table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))
    return Loaded(table.slice(0, limit).combine_chunks(), loaded.notes)


def _read(path: Path, format_: Format, named: tuple[str, ...], *, reverse: bool) -> Loaded:
    if format_ == "padres":
        return Loaded(padres_table(_members(path), reverse))
    if path.name.endswith(_ARCHIVES):
        raise DataFileError("an archive is read as padres only; unpack it, and give one file")
    if format_ == "parquet":
        return Loaded(pq.ParquetFile(path).read())
    with open_data(path) as stream:
        raw = stream.read()
    return Loaded(_read_json(raw)) if format_ == "jsonl" else _read_text(path.name, raw, named, is_csv=format_ == "csv")


def _read_json(raw: bytes) -> pa.Table:
    text = decode(raw, is_composed=False)
    if not text.strip():
        return pa.table({})
    if text.lstrip().startswith("["):
        raise DataFileError("the file is a JSON array; write one object per line, e.g. with jq -c '.[]'")
    if any(line.count("[") + line.count("{") > _MAX_DEPTH for line in text.splitlines()):
        with suppress(ValueError):  # Arrow reports what is no JSON
            list(_json_objects(text))  # raises RecursionError; Arrow ends the process if values are nested too deep
    table = pa_json.read_json(io.BytesIO(raw), pa_json.ReadOptions(block_size=block_bytes(raw)))
    # Arrow converts strings that look like times, and rounds whole numbers to doubles if they are large or beside
    # decimals. A second pass reads the converted columns as strings.
    converted = [name for name, column in zip(table.column_names, table.columns, strict=True) if _is_converted(column)]
    rows = list(_json_objects(text)) if converted else []
    for name in converted:
        cells = [None if (cell := row.get(name)) is None else str(cell) for row in rows]
        table = table.set_column(table.column_names.index(name), name, pa.array(cells, pa.string()))
    return table


def _is_converted(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(column.type):
        return bool(pa.types.is_temporal(column.type))
    return bool(pc.any(pc.greater_equal(pc.abs(column), float(2**53))).as_py())


def _json_objects(text: str) -> Iterator[dict[str, object]]:
    decoder, end = json.JSONDecoder(parse_int=str, parse_float=str), 0
    while start := _OBJECT.search(text, end):
        row, end = decoder.raw_decode(text, start.start())
        yield row


def _members(path: Path) -> dict[str, str]:
    if not path.name.endswith(_ARCHIVES):
        with open_data(path) as stream:
            return {path.name: decode(stream.read(), is_composed=False)}
    with tarfile.open(path) as archive:
        found = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
        members = {name: stream.read() for name, stream in found if stream is not None}
    return {name: decode(members[name], is_composed=False) for name in sorted(members)}


def _format_of(path: Path) -> Format:
    name = path.name
    if name.endswith(_ARCHIVES):
        return "padres"
    suffix = Path(name.removesuffix(path.suffix)).suffix if path.suffix in _COMPRESSED else path.suffix
    if suffix.lower() in _FORMATS:
        return _FORMATS[suffix.lower()]
    try:
        with open_data(path) as stream:
            first = stream.readline(65_536)
    except _DAMAGED as error:
        raise DataFileError(f"{path} cannot be read: {error}") from error
    if first.lstrip().startswith(b"{"):
        return "jsonl"
    formats: dict[bytes, Format] = {b"[": "padres", b"\t": "tsv", b",": "csv", b";": "csv", b"|": "csv"}
    for mark, found in formats.items():
        if first.startswith(mark) if mark == b"[" else mark in first:
            return found
    message = f"neither the name of {path} nor its first line tells its format"
    raise DataFileError(f"{message}; give format: csv, tsv, jsonl or parquet")


def _read_text(name: str, raw: bytes, named: tuple[str, ...], *, is_csv: bool) -> Loaded:
    text = decode(raw, is_composed=False)
    if not text.strip():
        return Loaded(pa.table({}))
    lines = split(text, delimiter=None if is_csv else "\t", is_quoted=is_csv, comments="#", only_before=True)
    column_names, skip = _column_names(name, lines, named)
    table, notes = lines.table(column_names, skip=skip), list[str]()
    rows = table.rows
    if _INDEX in column_names:
        rows = rows.drop_columns([_INDEX])
        notes.append("a first column without a name, as pandas writes its index, which is left out")
    if is_csv and lines.delimiter != ",":
        notes.append(f"{lines.delimiter_name} between its cells")
    if not skip:
        notes.append(f"no header, so its columns are {', '.join(column_names)}")
    if table.decimal_commas:
        notes.append(f"decimal commas in {', '.join(table.decimal_commas)}")
    return Loaded(rows, (f"{name} has {'; '.join(notes)}",) if notes else ())


def _column_names(name: str, lines: TextRows, named: tuple[str, ...]) -> tuple[list[str], int]:
    # Returns the column names and the number of header lines, 0 or 1. A first line of numbers is a row, not a header.
    first = lines.first
    if are_numbers(named, first) or all(is_number(cell) for cell in first):
        known = _PUBLISHED_HEADERS.get(name.removesuffix(".gz").removesuffix(".xz"), ())
        return list(known) if len(known) == len(first) else lines.column_names(has_header=False), 0
    if len(first) > 1 and not first[0]:
        first[0] = _INDEX
    for i, title in enumerate(first):
        if not title:
            raise DataFileError(f"column {i + 1} has no name in the header; give it one")
    return first, 1
