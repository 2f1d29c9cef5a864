"""Workload files as columns: CSV, TSV and Parquet; compressed text as it comes."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import tarfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pipelines.errors import DataFileError
from pipelines.inputs.workload.padres import padres_table

Format: TypeAlias = Literal["csv", "tsv", "parquet", "padres"]

_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
_COMPRESSED = (".gz", ".xz")
_FORMATS: dict[str, Format] = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz")
_PUBLISHED_TITLES = {  # of well-known files that go round without their first line
    "user_artists.dat": ("userID", "artistID", "weight"),
    "user_friends.dat": ("userID", "friendID"),
}


@dataclass(frozen=True)
class Source:
    """A file in one state, to be read once however many runs use it.

    Attributes:
        path: The file.
        stamp: Time of its last change in ns, and its size.
        format: How it is read.
        reverse: Whether its rows are taken from the last to the first.
        limit: How many rows are taken, after `reverse`; None: all.
    """

    path: Path
    stamp: tuple[int, int]
    format: Format
    reverse: bool = False
    limit: int | None = None


def source_of(path: Path, given: Format | None, reverse: bool, limit: int | None) -> Source:
    """Returns the file in its present state; without a given format its name, else its first line, tells it.

    Raises:
        DataFileError: The format cannot be told.
    """
    state = path.stat()
    return Source(path, (state.st_mtime_ns, state.st_size), given or _format_of(path), reverse, limit)


@lru_cache(maxsize=4)
def load(source: Source) -> pa.Table:
    """Returns the rows of a file as columns: texts (null where empty) from CSV and TSV, as they are from Parquet.

    Raises:
        DataFileError: The file is empty, damaged, or not of its format.
    """
    try:
        table = _read(source)
    except (*_DAMAGED, tarfile.TarError, csv.Error, pa.ArrowException) as error:
        raise DataFileError(
            f"{source.path} cannot be read as {source.format}: {error}; check the file and its format"
        ) from error
    if not table.num_rows:
        raise DataFileError(f"{source.path} has no rows; give a file with one row or more")
    names = table.column_names
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataFileError(f"{source.path} has two columns called {name!r}; rename one")
    if source.reverse and source.format != "padres":
        table = table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))
    return table.slice(0, source.limit).combine_chunks()


def _read(source: Source) -> pa.Table:
    if source.format == "padres":
        return padres_table(_members(source.path), source.reverse)
    if source.path.name.endswith(_ARCHIVES):
        raise DataFileError("an archive is read as padres only; unpack it, and give one file")
    if source.format == "parquet":
        return pq.ParquetFile(source.path).read()
    with open_data(source.path) as stream:
        return _read_text(source, stream.read())


def open_data(path: Path) -> IO[bytes]:
    """Opens a file, as it is or as what is compressed in it (.gz, .xz)."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")


def _members(path: Path) -> dict[str, str]:
    """Returns the text of each file of an archive, in order of their names, or of the one file."""
    if not path.name.endswith(_ARCHIVES):
        with open_data(path) as stream:
            return {path.name: _decoded(stream.read())}
    with tarfile.open(path) as archive:
        files = sorted((member for member in archive.getmembers() if member.isfile()), key=lambda member: member.name)
        streams = {member.name: archive.extractfile(member) for member in files}
        return {name: _decoded(stream.read()) for name, stream in streams.items() if stream is not None}


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"byte {error.start} is not UTF-8; convert it, e.g. with iconv -f ISO-8859-1 -t UTF-8"
        ) from None


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
    formats: dict[bytes, Format] = {b"[": "padres", b"\t": "tsv", b",": "csv"}
    for mark, found in formats.items():
        if first.startswith(mark) if mark == b"[" else mark in first:
            return found
    raise DataFileError(
        f"neither the name of {path} nor its first line tells its format; give format: csv, tsv or parquet"
    )


def _read_text(source: Source, raw: bytes) -> pa.Table:
    text = _decoded(raw).lstrip("\r\n")
    if not text.strip():
        return pa.table({})
    delimiter = "," if source.format == "csv" else "\t"
    first = next(csv.reader(io.StringIO(text), delimiter=delimiter, quoting=_quoting(source)))
    titles = _titles(source.path, [title.strip() for title in first])
    bad: list[int] = []

    def refuse(row: pa_csv.InvalidRow) -> str:
        bad.append(row.number - (titles.skip if row.number else 0))
        return "skip"

    table = pa_csv.read_csv(
        io.BytesIO(text.encode()),
        read_options=pa_csv.ReadOptions(column_names=titles.names, skip_rows=titles.skip, use_threads=False),
        parse_options=pa_csv.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if source.format == "csv" else False,
            newlines_in_values=source.format == "csv",
            invalid_row_handler=refuse,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(titles.names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )
    if bad:
        rows = ", ".join(map(str, bad[:5])) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        raise DataFileError(f"row {rows}: not {len(titles.names)} cells as in the first line")
    return table


def _quoting(source: Source) -> Literal[0, 3]:
    return csv.QUOTE_MINIMAL if source.format == "csv" else csv.QUOTE_NONE


@dataclass(frozen=True)
class _Titles:
    names: list[str]
    skip: int


def _titles(path: Path, first: list[str]) -> _Titles:
    """Reads the line of titles; a first line of nothing but numbers is a row, with columns called 1, 2, 3, ..."""
    if all(_is_number(cell) for cell in first):
        known = _PUBLISHED_TITLES.get(
            path.name.removesuffix(path.suffix) if path.suffix in _COMPRESSED else path.name, ()
        )
        return _Titles(list(known) if len(known) == len(first) else [str(i + 1) for i in range(len(first))], 0)
    for i, title in enumerate(first):
        if not title:
            raise DataFileError(f"column {i + 1} has no title in the first line; give it one")
    return _Titles(first, 1)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
