"""Readers of overlays in text or tables: edge lists (also in Parquet), Rocketfuel ``.graph``, and pssim."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.contract.run_inputs import Floats
from pipelines.contract.settings import nfc
from pipelines.errors import DataFileError, first_line, nearest
from pipelines.inputs.overlay.weighted import WeightedGraph, in_ms, merge_parallel, unique_names
from pipelines.inputs.text_rows import FileTable, TextRows, is_number, split
from pipelines.scenario.overlay import FileOverlay

Lines = Iterator[tuple[int, str]]
_NO_LATENCY = "file.latency names no column, so every link takes 1 round"
SRC = ("src", "source", "from", "fromnodeid", "from_node_id", "source_id", "u", "node1", "node_1", "start", "tail")
DST = ("dst", "target", "dest", "destination", "to", "tonodeid", "to_node_id", "target_id", "v", "node2", "node_2",
        "end", "head")  # fmt: skip
"""Usual names, in lower case, of the column of a link's second end. `SRC` has the names for the first end."""
_USUAL_NAMES = frozenset((*SRC, *DST))
_DEFAULT = ("src", "dst")


def parse_rocketfuel(content: bytes, columns: FileOverlay) -> WeightedGraph:
    """Reads a Rocketfuel ``.graph`` file. Nodes are named by their labels.

    The file has ``NODES n``, a header, n lines ``label x y``, ``EDGES m``, a header, and m lines ``label src dest
    weight bw delay``. The two directions of a link become one link with the smaller delay.

    Raises:
        DataFileError: A line is invalid. The message has the line number.
    """
    lines = _lines(content)
    n_nodes = _headed(lines, "NODES")
    _next(lines, "the header of NODES")
    labels = [fields[0] for _, fields in _rows(lines, "label x y", "NODES", n_nodes)]
    n_edges = _headed(lines, "EDGES")
    _next(lines, "the header of EDGES")
    edges = _rows(lines, "label src dest weight bw delay", "EDGES", n_edges)
    ends = [(_index(line, fields[1], n_nodes), _index(line, fields[2], n_nodes)) for line, fields in edges]
    _no_more(lines, f"{n_edges} edges")
    names = unique_names(labels, map(str, range(n_nodes)))
    return merge_parallel(names, ends, _delays(edges, columns), is_directed=True)


def parse_pssim(content: bytes, columns: FileOverlay) -> WeightedGraph:
    """Reads a topology of the pssim simulator. Nodes are named by their ids.

    The file has ``No of nodes:n``, ``No of edges:m``, ``Nodes:``, n lines ``id degree capacity``, ``Edges:``, and m
    lines ``id from to delay``.

    Raises:
        DataFileError: A line is invalid. The message has the line number.
    """
    lines = _lines(content)
    n_nodes, n_edges = _headed(lines, "No of nodes:"), _headed(lines, "No of edges:")
    _headed(lines, "Nodes:", has_count=False)
    index: dict[str, int] = {}
    for line, fields in _rows(lines, "id degree capacity", "Nodes:", n_nodes):
        if fields[0] in index:
            raise DataFileError(f"line {line}: node {fields[0]!r} is listed twice; ids are unique")
        index[fields[0]] = len(index)
    _headed(lines, "Edges:", has_count=False)
    edges = _rows(lines, "id from to delay", "Edges:", n_edges)
    for line, end in ((line, end) for line, fields in edges for end in fields[1:3]):
        if end not in index:
            raise DataFileError(f"line {line}: no node {end!r}; an edge's ends are ids of the section Nodes:")
    _no_more(lines, f"{n_edges} edges")
    ends = [(index[fields[1]], index[fields[2]]) for _, fields in edges]
    return merge_parallel(tuple(index), ends, _delays(edges, columns), is_directed=True)


def _delays(edges: Sequence[tuple[int, list[str]]], columns: FileOverlay) -> Floats:
    """Returns the delay of each edge in ms; it is the last field of the edge's line."""
    delays = [delay(fields[-1], f"line {line}") for line, fields in edges]
    return in_ms(np.array(delays, dtype=np.float64), columns.latency_unit)


def decode(content: bytes) -> str:
    """Decodes UTF-8, with or without a byte order mark, to Unicode's composed form (NFC).

    Raises:
        DataFileError: `content` is not UTF-8, or contains a zero byte. The message has the line number.
    """
    try:
        text = nfc(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataFileError(f"line {line}: not UTF-8 text (byte 0x{content[error.start]:02x})") from error
    if "\0" in text:
        raise DataFileError(f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}: not a text file (a zero byte)")
    return text


def delay(text: object, place: str) -> float:
    """Returns the delay in the cell `text`.

    Raises:
        DataFileError: The cell is not a finite number of 0 or more. The message starts with `place`.
    """
    cell = str(text).strip()
    if not is_number(cell):
        raise DataFileError(f"{place}: the delay is {text!r}; a delay is a number, 0 or more")
    value = float(cell)
    if not math.isfinite(value) or value < 0:
        raise DataFileError(f"{place}: the delay is {text}; a delay is finite, 0 or more")
    return value


def _lines(content: bytes) -> Lines:
    return ((i, line.strip()) for i, line in enumerate(decode(content).splitlines(), start=1) if line.strip())


def _next(lines: Lines, wanted: str) -> tuple[int, str]:
    try:
        return next(lines)
    except StopIteration:
        raise DataFileError(f"the file ends where {wanted} should come: it is cut short") from None


def _headed(lines: Lines, title: str, *, has_count: bool = True) -> int:
    shown = repr(f"{title} n" if has_count else title)
    line, text = _next(lines, shown)
    if not text.startswith(title):
        raise DataFileError(f"line {line}: {text[:60]!r} stands where {shown} should; is the number before it right?")
    count = text.removeprefix(title).strip()
    if has_count and not (count.isascii() and count.isdigit()):
        raise DataFileError(f"line {line}: {title!r} is followed by {count!r}; a whole number must follow")
    return int(count) if has_count else 0


def _rows(lines: Lines, layout: str, title: str, total: int) -> list[tuple[int, list[str]]]:
    rows = []
    for number in range(1, total + 1):
        line, text = _next(lines, f"entry {number} of {total} of the section {title}")
        fields = text.split()
        if len(fields) != len(layout.split()):
            message = f"line {line}: {text[:60]!r} is not entry {number} of {total} of the section {title}"
            raise DataFileError(f"{message}; an entry is '{layout}'")
        rows.append((line, fields))
    return rows


def _index(line: int, text: str, n_nodes: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= n_nodes:
        raise DataFileError(f"line {line}: no node {text!r}; nodes are numbered 0 to {n_nodes - 1}")
    return int(text)


def _no_more(lines: Lines, expected: str) -> None:
    for line, text in lines:
        raise DataFileError(f"line {line}: {text[:60]!r} comes after the {expected} that the file announces")


def parse_text(content: bytes, delimiter: str | None, columns: FileOverlay) -> WeightedGraph:
    """Parses an edge list in text. Nodes have ids in the order of their first appearance.

    If `delimiter` is `None`, the delimiter is detected. Whether the first line is a header is also detected; without a
    header, the columns are called 1, 2, 3 and so on. If ``columns.latency`` is `None`, each link has a latency of one
    round.

    Raises:
        DataFileError: A line is invalid. The message has the line number.
    """
    lines = split(decode(content), delimiter=delimiter)
    if len(lines.first) < 2 and not {columns.src, columns.dst} & {*lines.first}:
        raise DataFileError(f"line 1: {' '.join(lines.first)[:60]!r} has one cell; a link has two ends or more cells")
    if _is_matrix(lines):
        message = "as many cells a line as there are lines: this may be a matrix of latencies; name it with"
        raise DataFileError(f"{message} overlay.latency: {{matrix: ...}}, and give the links by another overlay")
    has_header = _has_header(lines, columns)
    column_names = lines.first if has_header else [str(number + 1) for number in range(len(lines.first))]
    picked = _picked(column_names, columns, has_header=has_header)
    try:
        table = lines.table([str(number) for number in range(len(column_names))], skip=1 if has_header else 0)
    except pa.ArrowException as error:
        raise DataFileError(f"line {lines.numbers[0]} and after it: {error}") from error
    notes = []
    is_found = delimiter is None and lines.delimiter != ","
    is_guessed = (columns.src or columns.dst) is None and tuple(column_names[place] for place in picked[:2]) != _DEFAULT
    may_be_header = not has_header and not {columns.src, columns.dst, columns.latency}.isdisjoint(lines.first)
    if is_found or is_guessed or may_be_header or table.decimal_commas:
        ends = " and ".join(repr(column_names[place]) for place in picked[:2])
        named = f"a header, ends in columns {ends}" if has_header else f"no header, so ends in columns {ends}"
        named += "; the first line is a link" if may_be_header else ""
        commas = ", ".join(column_names[int(place)] for place in table.decimal_commas)
        points = f", decimal commas in {commas}" if commas else ""
        notes.append(f"the edge list has {lines.delimiter_name} between cells and {named}{points}")
    return _graph(table, column_names, picked, columns, notes)


def parse_parquet(content: bytes, columns: FileOverlay) -> WeightedGraph:
    """Reads an edge list in Parquet, with `columns` as in `parse_text`.

    Raises:
        DataFileError: A row is invalid. The message has the row number, from 1.
    """
    try:
        file = pq.ParquetFile(BytesIO(content))
        column_names = [nfc(name) for name in file.schema_arrow.names]
        picked = _picked(column_names, columns, has_header=True)
        table = file.read(columns=[file.schema_arrow.names[place] for place in picked])
        rows = pa.table({str(place): pc.cast(table.column(file.schema_arrow.names[place]), pa.string())
                         for place in picked})  # fmt: skip
    except DataFileError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataFileError(f"not a Parquet file that can be read: {first_line(error)}") from error
    return _graph(FileTable(rows), column_names, picked, columns, [])


def _is_matrix(lines: TextRows) -> bool:
    # A latency matrix is square and has an empty corner, or zeros on its diagonal.
    width = len(lines.first)
    if width < 3 or len(lines.lines) != width:
        return False
    diagonal = [row[place] for place, row in enumerate(lines.sample) if place < len(row)]
    return not lines.first[0] or all(is_number(cell) and float(cell) == 0 for cell in diagonal)


def is_link(first: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Returns whether the first line of an edge list is certainly a link; otherwise it may be a header.

    The line is a link if its first two cells are numbers. It is also a link if one of these cells is an end of a link
    in another line.

    Args:
        first: The cells of the first line.
        rows: The cells of the other lines.
    """
    others = {cell for row in rows for cell in row[:2]}
    return all(is_number(cell) for cell in first[:2]) or not others.isdisjoint(first[:2])


def _has_header(lines: TextRows, columns: FileOverlay) -> bool:
    first, given = lines.first, [name for name in (columns.src, columns.dst, columns.latency) if name is not None]
    if are_numbers(given, first):
        return False
    if given or any(title.lower() in _USUAL_NAMES for title in first):
        return True
    if is_link(first, lines.sample[1:]):
        return False
    shown = ", ".join(map(repr, first[:10]))
    raise DataFileError(
        f"the first line, {shown}, may be a header or a link; name the columns of the two ends with src and dst, "
        "or write src: '1' and dst: '2' for a file without a header", "src",
    )  # fmt: skip


def column_indexes(
    column_names: Sequence[str], wanted: Sequence[tuple[str, str | None, Sequence[str]]], *, has_header: bool
) -> list[int]:
    """Returns the index of each wanted column.

    Args:
        column_names: The names of the columns; 1, 2, 3 ... for a file without a header.
        wanted: For each column, the scenario key that names it, the name that the scenario gives or None, and the
            usual names in lower case. If the name is ``None``, the first usual name in `column_names` selects the
            column; in a file without a header, the n-th wanted column is the n-th column.
        has_header: Whether the file has a header.

    Raises:
        DataFileError: The file lacks a column, or several columns have its name.
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


def _picked(column_names: Sequence[str], columns: FileOverlay, *, has_header: bool) -> list[int]:
    """Returns the indexes of the columns of the two ends, and of the latency if `columns` names it."""
    latency = [] if columns.latency is None else [("latency", columns.latency, ())]
    wanted = [("src", columns.src, SRC), ("dst", columns.dst, DST), *latency]
    return column_indexes(column_names, wanted, has_header=has_header)


def _graph(
    table: FileTable, column_names: Sequence[str], picked: Sequence[int], columns: FileOverlay, notes: list[str]
) -> WeightedGraph:
    rows = table.rows.select([str(place) for place in picked])
    if not rows.num_rows:
        raise DataFileError("the file has no link; an edge list has at least one row below the header")
    ends = [pc.utf8_normalize(pc.utf8_trim_whitespace(rows.column(i).combine_chunks()), form="NFC") for i in (0, 1)]
    for i, column in enumerate(ends):
        empty = pc.indices_nonzero(pc.fill_null(pc.equal(column, ""), True))
        if len(empty):
            where = table.place(empty[0].as_py())
            raise DataFileError(f"{where}: the column {column_names[picked[i]]!r} is empty; a link has two ends")
    if all(pc.all(pc.match_substring_regex(column, r"^[0-9]+\.0$")).as_py() for column in ends):
        ends = [pc.utf8_slice_codeunits(column, 0, stop=-2) for column in ends]
        notes.append("the ends are numbers with .0, as pandas writes them, and are taken as whole numbers")
    both = pa.concat_arrays(ends)
    interleaved = both.take(pa.array(np.arange(len(both)).reshape(2, -1).T.ravel())).dictionary_encode()
    names, links = interleaved.dictionary.to_pylist(), interleaved.indices.to_numpy().astype(np.int64).reshape(-1, 2)
    if columns.latency is None:
        return merge_parallel(tuple(names), links, latency_note=_NO_LATENCY, notes=notes, is_directed=True)
    cells = rows.column(2).to_pylist()
    ms = np.array([delay("" if cell is None else cell, table.place(row)) for row, cell in enumerate(cells)])
    return merge_parallel(tuple(names), links, in_ms(ms, columns.latency_unit), notes=notes, is_directed=True)


def are_numbers(named: Collection[str], first: Collection[str]) -> bool:
    """Returns whether ``named`` contains column numbers and not column titles, so that the file has no header.

    There are two such cases: all names are numbers from 1 to the number of columns; or all names are decimal numbers,
    and none of them is a cell of the first line, ``first``. If ``named`` is empty, the result is False.
    """
    within = {str(number + 1) for number in range(len(first))}
    are_decimal = all(name.isdecimal() for name in named)
    return bool(named) and ({*named} <= within or (are_decimal and {*named}.isdisjoint(first)))
