"""Overlays as edge lists: one link a row, in CSV, TSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO, StringIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import nearest
from pipelines.inputs.overlay.columns import Columns
from pipelines.inputs.overlay.routers import decode, delay
from pipelines.inputs.overlay.weighted import ContentError, WeightedGraph, merge_parallel
from pipelines.spec.base import nfc

_MAX_SHOWN = 10
_NO_LATENCY = "file.latency names no column, so every link takes 1 round"
Row = tuple[str, tuple[Any, ...]]


def parse_text(content: bytes, delimiter: str, columns: Columns) -> WeightedGraph:
    """Reads an edge list with a line of column titles; nodes in the order in which they appear first.

    Without a column of latencies every link takes one round.

    Args:
        content: The file.
        delimiter: ``","`` or a tab.
        columns: The columns to take.

    Raises:
        ContentError: With the lines.
    """
    rows = csv.reader(StringIO(decode(content), newline=""), delimiter=delimiter, strict=True)
    try:
        header = [title.strip() for title in next(rows, [])]
        if not any(header):
            raise ContentError("line 1: the file has no column titles; an edge list begins with a line of them")
        return _graph(_text_rows(rows, len(header), _positions(header, columns)), columns)
    except csv.Error as error:
        raise ContentError(f"line {rows.line_num}: {error}") from error


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
        positions = _positions([nfc(name) for name in file.schema_arrow.names], columns)
        table = file.read(columns=[file.schema_arrow.names[i] for i in positions])
        values = [table.column(file.schema_arrow.names[i]).to_pylist() for i in positions]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ContentError(f"not a Parquet file that can be read: {str(error).splitlines()[0]}") from error
    return _graph(((f"row {i}", row) for i, row in enumerate(zip(*values, strict=True), start=1)), columns)


def link_faults(links: Iterable[tuple[str, str]]) -> Iterator[tuple[int, str, int | None]]:
    """Yields the links that an overlay cannot have: (position, what is wrong, position of the link that it repeats)."""
    seen: dict[tuple[str, str], int] = {}
    for i, (src, dst) in enumerate(links):
        key = (src, dst) if src <= dst else (dst, src)
        if src == dst:
            yield i, f"the link of {src!r} to itself", None
        elif key in seen:
            yield i, f"the link of {src!r} and {dst!r} is there already", seen[key]
        else:
            seen[key] = i


def _positions(header: Sequence[str], columns: Columns) -> list[int]:
    positions = []
    for field, title in (("src", columns.src), ("dst", columns.dst), ("latency", columns.latency)):
        if title is None:
            continue
        if title not in header:
            shown = ", ".join(repr(name) for name in header[:20])
            raise ContentError(
                f"the file has no column {title!r};{nearest(title, header)} its columns are {shown}", field
            )
        positions.append(header.index(title))
    return positions


def _text_rows(rows: Any, width: int, positions: Sequence[int]) -> Iterator[Row]:  # noqa: ANN401 (csv's reader has no public type)
    for row in rows:
        if not row:
            continue
        if len(row) != width:
            raise ContentError(f"line {rows.line_num}: {len(row)} fields; the column titles are {width}")
        yield f"line {rows.line_num}", tuple(row[i].strip() for i in positions)


def _graph(rows: Iterable[Row], columns: Columns) -> WeightedGraph:
    """Builds the graph; refuses self-loops and repeated links."""
    index: dict[str, int] = {}
    places, links, delays = [], [], []
    for place, values in rows:
        src, dst = ("" if value is None else nfc(str(value)) for value in values[:2])
        if not src or not dst:
            raise ContentError(
                f"{place}: the column {(columns.dst if src else columns.src)!r} is empty; a link has two ends"
            )
        places.append(place)
        links.append((src, dst))
        if columns.latency is not None:
            delays.append(delay(values[2], place))
    if not links:
        raise ContentError("the file has no link; an edge list has at least one row below the column titles")
    _refuse(places, links)
    ends = [(index.setdefault(src, len(index)), index.setdefault(dst, len(index))) for src, dst in links]
    if columns.latency is None:
        return merge_parallel(tuple(index), ends, latency_note=_NO_LATENCY)
    return merge_parallel(tuple(index), ends, columns.in_ms(np.array(delays, dtype=np.float64)))


def _refuse(places: Sequence[str], links: Sequence[tuple[str, str]]) -> None:
    faults = [
        f"{places[i]}: {what}" + ("" if first is None else f" ({places[first]})")
        for i, what, first in link_faults(links)
    ]
    if faults:
        more = f"; and {len(faults) - _MAX_SHOWN} more" if len(faults) > _MAX_SHOWN else ""
        raise ContentError("; ".join(faults[:_MAX_SHOWN]) + more + "; each link is given once, between two nodes")
