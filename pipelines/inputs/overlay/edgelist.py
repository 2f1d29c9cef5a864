"""Overlays as edge lists: one link a row, in text with any delimiter, or in Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.contract.settings import nfc
from pipelines.errors import DataFileError, nearest
from pipelines.inputs.overlay.columns import Columns
from pipelines.inputs.overlay.routers import decode, delay
from pipelines.inputs.overlay.weighted import ContentError, WeightedGraph, merge_parallel
from pipelines.inputs.text_rows import TextRows, split, with_decimal_points

_NO_LATENCY = "file.latency names no column, so every link takes 1 round"
SRC = ("src", "source", "from", "fromnodeid", "from_node_id", "source_id", "u", "node1", "node_1", "start", "tail")
DST = ("dst", "target", "dest", "destination", "to", "tonodeid", "to_node_id", "target_id", "v", "node2", "node_2",
        "end", "head")  # fmt: skip
"""Titles of columns of the two ends of a link, in lower case."""
_TITLES = frozenset((*SRC, *DST))
_DEFAULT = ("src", "dst")


def parse_text(content: bytes, delimiter: str | None, columns: Columns) -> WeightedGraph:
    """Reads an edge list; nodes in the order in which they appear first.

    Delimiter and titles are found in the file; without titles the columns are called 1, 2, 3. Without a column of
    latencies every link takes one round.

    Args:
        content: The file.
        delimiter: What separates the cells; None: found in the file.
        columns: The columns to take.

    Raises:
        ContentError: With the lines.
    """
    lines = split(decode(content), delimiter=delimiter)
    if len(lines.first) < 2 and not {columns.src, columns.dst} & {*lines.first}:
        raise ContentError(f"line 1: {' '.join(lines.first)[:60]!r} has one cell; a link has two ends or more cells")
    if _is_matrix(lines):
        message = "as many cells a line as there are lines: this may be a matrix of latencies; name it with"
        raise ContentError(f"{message} overlay.latency: {{matrix: ...}}, and give the links by another overlay")
    has_titles = _has_titles(lines, columns)
    titles = lines.first if has_titles else [str(number + 1) for number in range(len(lines.first))]
    picked = _picked(titles, columns, has_titles=has_titles)
    try:
        table = lines.table([str(number) for number in range(len(titles))], skip=1 if has_titles else 0)
    except (DataFileError, pa.ArrowException) as error:
        raise ContentError(f"line {lines.numbers[0]} and after it: {error}" if isinstance(error, pa.ArrowException)
                           else str(error)) from error  # fmt: skip
    rows, commas = with_decimal_points(table)
    notes = []
    is_found = delimiter is None and lines.delimiter != ","
    is_guessed = (columns.src or columns.dst) is None and tuple(titles[place] for place in picked[:2]) != _DEFAULT
    if is_found or is_guessed or commas:
        ends = " and ".join(repr(titles[place]) for place in picked[:2])
        named = f"titles, ends in columns {ends}" if has_titles else f"no titles, so ends in columns {ends}"
        points = f", decimal commas in {', '.join(titles[int(place)] for place in commas)}" if commas else ""
        notes.append(f"the edge list has {lines.delimiter_name} between cells and {named}{points}")
    return _graph(rows.select([str(place) for place in picked]), table.place, titles, picked, columns, notes)


def parse_parquet(content: bytes, columns: Columns) -> WeightedGraph:
    """Reads an edge list in Parquet, as `parse_text`.

    Args:
        content: The file.
        columns: The columns to take.

    Raises:
        ContentError: With the rows, counted from 1.
    """
    try:
        file = pq.ParquetFile(BytesIO(content))
        titles = [nfc(name) for name in file.schema_arrow.names]
        picked = _picked(titles, columns, has_titles=True)
        table = file.read(columns=[file.schema_arrow.names[place] for place in picked])
        rows = pa.table({str(place): pc.cast(table.column(file.schema_arrow.names[place]), pa.string())
                         for place in picked})  # fmt: skip
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ContentError(f"not a Parquet file that can be read: {str(error).splitlines()[0]}") from error
    return _graph(rows, lambda row: f"row {row + 1}", titles, picked, columns, [])


def _is_matrix(lines: TextRows) -> bool:
    """Returns whether a file is square with an empty corner, or with zeros on its diagonal."""
    width = len(lines.first)
    if width < 3 or len(lines.lines) != width:
        return False
    diagonal = [row[place] for place, row in enumerate(lines.sample) if place < len(row)]
    return not lines.first[0] or all(is_number(cell) and float(cell) == 0 for cell in diagonal)


def _has_titles(lines: TextRows, columns: Columns) -> bool:
    """Returns whether the first line holds titles.

    Raises:
        ContentError: It may hold either.
    """
    first, given = lines.first, [name for name in (columns.src, columns.dst, columns.latency) if name is not None]
    if given and all(name.isdigit() and int(name) <= len(first) for name in given) and not {*given} & {*first}:
        return False
    if given or any(title.lower() in _TITLES for title in first):
        return True
    others = {cell for row in lines.sample[1:] for cell in row[:2]}
    if all(is_number(cell) for cell in first[:2]) or {*first[:2]} & others:
        return False
    shown = ", ".join(map(repr, first[:10]))
    raise ContentError(
        f"the first line, {shown}, may be titles or a link; name the columns of the two ends with src and dst, "
        "or write src: '1' and dst: '2' for a file without titles", "src",
    )  # fmt: skip


def _picked(titles: Sequence[str], columns: Columns, *, has_titles: bool) -> list[int]:
    """Returns the indexes of the columns of the two ends and of the latency, if one is named."""
    found: list[int] = []
    for field, title, known in (("src", columns.src, SRC), ("dst", columns.dst, DST)):
        if title is None:
            by_title = (place for name in known for place, other in enumerate(titles) if other.lower() == name)
            title = titles[next(by_title, len(found) if not has_titles else -1)] if has_titles else titles[len(found)]
            if has_titles and title.lower() not in known:
                title = _DEFAULT[len(found)]
        found.append(_place(titles, title, field))
    return found if columns.latency is None else [*found, _place(titles, columns.latency, "latency")]


def _place(titles: Sequence[str], title: str, field: str) -> int:
    if title in titles:
        return titles.index(title)
    shown = ", ".join(repr(name) for name in titles[:20])
    raise ContentError(f"the file has no column {title!r};{nearest(title, titles)} its columns are {shown}", field)


def _graph(
    rows: pa.Table,
    place: Callable[[int], str],
    titles: Sequence[str],
    picked: Sequence[int],
    columns: Columns,
    notes: list[str],
) -> WeightedGraph:
    """Builds the graph of columns of strings: two ends, and the latency if one is named."""
    if not rows.num_rows:
        raise ContentError("the file has no link; an edge list has at least one row below the column titles")
    ends = [pc.utf8_normalize(pc.utf8_trim_whitespace(rows.column(i).combine_chunks()), form="NFC") for i in (0, 1)]
    for i, column in enumerate(ends):
        empty = pc.indices_nonzero(pc.fill_null(pc.equal(column, ""), True))
        if len(empty):
            where = place(empty[0].as_py())
            raise ContentError(f"{where}: the column {titles[picked[i]]!r} is empty; a link has two ends")
    if all(pc.all(pc.match_substring_regex(column, r"^[0-9]+\.0$")).as_py() for column in ends):
        ends = [pc.utf8_slice_codeunits(column, 0, stop=-2) for column in ends]
        notes.append("the ends are numbers with .0, as pandas writes them, and are taken as whole numbers")
    both = pa.concat_arrays(ends)
    interleaved = both.take(pa.array(np.arange(len(both)).reshape(2, -1).T.ravel())).dictionary_encode()
    names, links = interleaved.dictionary.to_pylist(), interleaved.indices.to_numpy().astype(np.int64).reshape(-1, 2)
    if columns.latency is None:
        return merge_parallel(tuple(names), links, latency_note=_NO_LATENCY, notes=notes, is_directed=True)
    cells = rows.column(2).to_pylist()
    ms = np.array([delay("" if cell is None else cell, place(row)) for row, cell in enumerate(cells)])
    return merge_parallel(tuple(names), links, columns.in_ms(ms), notes=notes, is_directed=True)


def is_number(cell: str) -> bool:
    """Returns whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
