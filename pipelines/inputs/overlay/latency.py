"""Link latencies that replace the latencies of an overlay's source.

The replacing latencies are fixed, drawn from the seed, or measured (read from a matrix or a list of pairs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.contract.run_inputs import Floats, Ints
from pipelines.errors import DataFileError, InputError, Problem, first_line, listed, nearest, plural
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.files import read_bytes
from pipelines.inputs.overlay.weighted import WeightedGraph
from pipelines.inputs.text_rows import (
    BLANKS,
    DST,
    SRC,
    FileTable,
    cached_until_changed,
    column_indexes,
    decode,
    is_number,
    split,
)
from pipelines.scenario.overlay import Latency
from pipelines.scenario.times import MS_OF

_ROUND_TRIPS = ("rtt", "rtt_ms", "rtt_us", "ping", "avg", "min", "max")
_VALUES = ("latency", "latency_ms", "delay", "delay_ms", "ms", "us", *_ROUND_TRIPS[:5], "mean", "median", "min", "max")
_PAIR = ("source", "destination", "value")
_UNKNOWN = ("", "nan", "na", "null", "none", "-", "inf", "infinity")
Titles: TypeAlias = tuple[str | None, str | None, str | None]
MAX_ROUNDS = 1_000_000
_MAX_SHOWN = 5


@dataclass(frozen=True, eq=False)
class MeasuredLatencies:
    """Latencies between ordered pairs of nodes, read from a file and in the unit of the file.

    Attributes:
        names: The names of the nodes; None if the file has no names.
        size: The number of nodes.
        by_pair: The latency of each pair that has one, the mean of its rows, keyed by ``from * size + to``.
        value_column: The name of the column of latencies; empty for a matrix.
        notes: Sentences on decimal commas and on pairs with several rows.
    """

    names: tuple[str, ...] | None
    size: int
    by_pair: pd.Series
    notes: tuple[str, ...]
    value_column: str = ""


@cached_until_changed(maxsize=8)
def read_matrix(path: Path) -> MeasuredLatencies:
    """Reads a latency matrix in delimited text, with names of rows and columns or without names."""
    try:
        return _matrix(path.name, decode(read_bytes(path)))
    except (DataFileError, pa.ArrowException) as error:
        raise DataFileError(f"{path.name}: {first_line(error)}", "matrix") from error


def _matrix(name: str, text: str) -> MeasuredLatencies:
    lines = split(text)
    if len(lines.first) == 1:
        lines = split(text, delimiter=BLANKS)
    first, n_columns = lines.first, len(lines.first)
    is_short = [len(row) for row in lines.sample[1:2]] == [n_columns + 1]
    is_named = is_short or not first or not first[0] or not all(map(_is_latency, first))
    table = lines.table([str(index) for index in range(n_columns + is_short)], skip=int(is_named))
    rows = table.rows
    if not rows.num_rows or not rows.num_columns > is_named:
        raise DataFileError("the file has no rows of numbers; a matrix has a line of latencies for each node")
    names = [] if not is_named else first if is_short else first[1:]
    # Lines that end with a delimiter have an empty last cell.
    if rows.columns[-1].null_count == rows.num_rows and (not names[-1] if is_named else rows.num_rows == n_columns - 1):
        rows, names = rows.remove_column(rows.num_columns - 1), names[:-1]
    values = np.column_stack([_numbers(table, column) for column in rows.columns[int(is_named) :]])
    if is_named:
        values = _ordered(table, pc.utf8_trim_whitespace(rows.column(0)).to_pylist(), names, values)
    elif len(values) != values.shape[1]:
        raise DataFileError(f"{len(values)} lines of {values.shape[1]} numbers; a matrix of latencies is square")
    decimal = [names[int(index) - 1] if is_named else str(int(index) + 1) for index in table.decimal_commas]
    by_pair = pd.Series(values.ravel()).dropna()
    return MeasuredLatencies(tuple(names) or None, len(values), by_pair, tuple(_decimal_note(name, decimal)))


def _decimal_note(name: str, column_names: Sequence[str]) -> Iterator[str]:
    if column_names:
        yield f"{name} has decimal commas in {listed(column_names, _MAX_SHOWN)}"


def _is_latency(cell: str) -> bool:
    return is_number(cell.replace(",", ".")) or cell.lower() in _UNKNOWN


def _ordered(table: FileTable, row_names: list[str | None], names: list[str], values: Floats) -> Floats:
    if len({*names}) < len(names):
        raise DataFileError("line 1: a column name occurs twice; column names are unique")
    seen: dict[str, int] = {}
    for row, name in enumerate(row_names):
        if name not in names:
            hint = nearest(str(name), names)
            raise DataFileError(f"{table.place(row)}: no column is called {name!r};{hint} rows and columns share names")
        if seen.setdefault(name, row) != row:
            raise DataFileError(f"{table.place(row)}: the row {name!r} already exists; row names are unique")
    missing = [name for name in names if name not in seen]
    if missing:
        raise DataFileError(f"no row is called {missing[0]!r}; rows and columns have the same names")
    return values[[seen[name] for name in names]]


def _numbers(table: FileTable, column: pa.ChunkedArray) -> Floats:
    texts = pc.fill_null(pc.utf8_trim_whitespace(pc.cast(column, pa.string())), "")
    is_unknown = pc.is_in(pc.utf8_lower(texts), value_set=pa.array(_UNKNOWN))
    known = pc.if_else(is_unknown, pa.scalar(None, pa.string()), texts)
    try:
        numbers: Floats = pc.fill_null(pc.cast(known, pa.float64()), np.nan).to_numpy()
    except pa.ArrowInvalid:
        row, cell = next((row, cell) for row, cell in enumerate(known.to_pylist()) if cell and not is_number(cell))
        raise DataFileError(f"{table.place(row)}: the delay is {cell!r}; a delay is a number, 0 or more") from None
    wrong = np.flatnonzero((numbers < 0) | np.isinf(numbers))
    if len(wrong):
        row = int(wrong[0])
        message = f"the delay is {numbers[row]:g}; a delay is 0 or more, and an empty cell where it is not known"
        raise DataFileError(f"{table.place(row)}: {message}")
    return numbers


@cached_until_changed(maxsize=8)
def read_pairs(path: Path, columns: Titles) -> MeasuredLatencies:
    """Reads a list of pairs of nodes and the latency of each pair, in delimited text or Parquet.

    `columns` contains the names of the columns of the two ends and of the latency. A column whose name is `None` is
    detected. Columns of a file without a header are called 1, 2, 3.
    """
    try:
        content = read_bytes(path)
        if content.startswith(b"PAR1"):
            table, has_header = FileTable(pq.read_table(BytesIO(content))), True
            column_names = list(table.rows.column_names)
        else:
            lines = split(decode(content))
            has_header = not all(map(_is_latency, lines.first[2:3]))
            column_names = lines.column_names(has_header=has_header)
            table = lines.table(column_names, skip=int(has_header))
        rows = table.rows
        wanted = list(zip(_PAIR, columns, (SRC, DST, _VALUES), strict=True))
        picked = column_indexes(column_names, wanted, has_header=has_header)
        values = _numbers(table, rows.column(picked[2]))
    except (OSError, pa.ArrowException) as error:
        field = getattr(error, "field", "")
        raise DataFileError(f"{path.name}: {first_line(error)}", field if field in _PAIR else "pairs") from error
    ends = [pc.utf8_trim_whitespace(pc.cast(rows.column(place), pa.string())).combine_chunks() for place in picked[:2]]
    both = pc.utf8_normalize(pa.concat_arrays(ends), form="NFC").dictionary_encode()
    names, index = both.dictionary.to_pylist(), pc.fill_null(both.indices, -1).to_numpy().astype(np.int64)
    src, dst = index.reshape(2, -1)
    kept = ~np.isnan(values) & (src >= 0) & (dst >= 0) & (src != dst)
    if not kept.any():
        raise DataFileError(f"{path.name}: no row has two ends and a latency; give one or more", "pairs")
    rows_of = pd.Series(values[kept]).groupby((src * len(names) + dst)[kept])
    notes = [*_decimal_note(path.name, table.decimal_commas)]
    if n_repeated := int(rows_of.size()[lambda n_rows: n_rows > 1].sum()):
        of_pairs = f"{n_repeated:,} rows of {path.name} are of pairs with several rows"
        notes.append(f"{of_pairs}; a pair has the mean of its rows")
    return MeasuredLatencies(tuple(names), len(names), rows_of.mean(), tuple(notes), column_names[picked[2]])


def to_rounds(ms: Floats, round_ms: float) -> Ints:
    """Returns the latencies `ms` in whole rounds of `round_ms`, rounded up, at least 1.

    An excess below a billionth of a round is a rounding error of the division and is ignored. For example, 1.1 ms are
    11 rounds of 0.1 ms.
    """
    with np.errstate(over="ignore"):
        rounds = np.maximum(np.ceil(np.round(ms / round_ms, 9)), 1.0)
    if len(rounds) and not rounds.max() <= MAX_ROUNDS:
        message = f"a latency of {ms.max():g} ms is more than {MAX_ROUNDS:,} rounds of {round_ms:g} ms"
        cure = "take a longer time.round_ms or shorter latencies"
        raise InputError(Problem(("time", "round_ms"), f"{message}; {cure}"))
    return rounds.astype(np.int64)


def drawn_ms(graph: WeightedGraph, latency: Latency, seed: int, round_ms: float) -> Floats:
    """Returns the latency of each link in ms: fixed, or drawn from the seed and the ends of the link.

    `graph` is the overlay before a spanning tree replaces it. The latency of a link thus does not depend on the tree.
    """
    if latency.uniform is not None:
        rounds = draws_numpy.integers(seed, "overlay.latency.uniform", *latency.uniform, graph.a, graph.b)
        return rounds.astype(np.float64) * round_ms
    if latency.lognormal_ms is not None:
        median, sigma = latency.lognormal_ms
        normal = draws_numpy.normal(seed, "overlay.latency.lognormal", graph.a, graph.b)
        with np.errstate(over="ignore"):
            spread: Floats = median * np.exp(sigma * normal)
        return spread
    return np.full(len(graph.a), latency.ms or (latency.rounds or 1) * round_ms)


def measured_graph(graph: WeightedGraph, latency: Latency, path: Path, seed: int) -> WeightedGraph:
    """Returns `graph` with one-way latencies of its links, from a matrix or a list of pairs in file `path`.

    By default, a node has the latencies of the measured node with its name. If ``draw_rows`` is set or the matrix has
    no names, each node has the latencies of a different measured node, which is drawn. A direction that was not
    measured has the latency of the opposite direction. Unless ``per_direction`` is set, both directions of a link then
    have the mean of their latencies.
    """
    field = "matrix" if latency.matrix is not None else "pairs"
    columns = (latency.source, latency.destination, latency.value)
    measured = read_matrix(path) if field == "matrix" else read_pairs(path, columns)
    notes = list(graph.notes)
    if latency.draw_rows or measured.names is None:
        if measured.size < (n_nodes := len(graph.names)):
            message = f"the matrix has {measured.size} rows and the overlay {n_nodes} nodes; take a larger matrix"
            raise DataFileError(f"{message} or a smaller overlay", "matrix")
        drawn = draws_numpy.bits(seed, "overlay.latency.matrix", np.arange(measured.size))
        row = np.argsort(drawn, kind="stable")[:n_nodes].astype(np.int64)
        if not latency.draw_rows:
            note = f"{path.name} has no names: the seed draws the row of each node"
            notes.append(f"{note} (latency.draw_rows: true suppresses this note)")
    else:
        row = _named_rows(graph.names, measured.names, field, is_strict=latency.missing == "error")
    is_round_trip = latency.round_trip
    if is_round_trip is None:
        is_round_trip = field == "matrix" or measured.value_column.lower() in _ROUND_TRIPS
    factor = MS_OF[latency.unit] / (2.0 if is_round_trip else 1.0)
    if field == "pairs":
        meaning = "round-trip times, twice the latency of a link" if is_round_trip else "latencies in one direction"
        hint = "" if latency.round_trip is not None else "; latency.round_trip overrides this"
        notes.append(f"column {measured.value_column} of {path.name} has {meaning}{hint}")
    notes += measured.notes
    known = measured.by_pair[measured.by_pair != 0] if latency.zero_is_unknown else measured.by_pair
    # The latency of a pair is NaN if the file lacks the pair or an end, whose row is -1.
    there, back = (
        known.reindex(np.where((row[u] >= 0) & (row[v] >= 0), row[u] * measured.size + row[v], -1)).to_numpy()
        for u, v in ((graph.a, graph.b), (graph.b, graph.a))
    )
    n_one = int((np.isnan(there) != np.isnan(back)).sum())
    if n_one and field == "matrix":
        notes.append(f"{plural(n_one, 'link')} of {len(there):,} with a latency in one direction, used for both")
    there, back = np.where(np.isnan(there), back, there), np.where(np.isnan(back), there, back)
    if (holes := np.isnan(there)).any():
        there[holes] = back[holes] = _filling(graph.links(holes), len(there), known, latency, seed)
        n_holes = plural(int(holes.sum()), "link")
        notes.append(f"{n_holes} of {len(there):,} without a latency in {path.name}: missing is {latency.missing}")
    apart = np.abs(there - back) * factor
    if latency.per_direction:
        back_ms = back * factor if apart.any() else None
        return replace(graph, ms=there * factor, back_ms=back_ms, latency_note="", notes=tuple(notes))
    if apart.any() and field == "pairs":
        n_apart = int((apart > 0).sum())
        notes.append(f"{n_apart:,} of {plural(len(apart), 'link')} differ by direction, by up to {apart.max():g} ms, "
                     "so both have the mean; latency.per_direction: true keeps both")  # fmt: skip
    return replace(graph, ms=(there + back) / 2.0 * factor, back_ms=None, latency_note="", notes=tuple(notes))


def _filling(graph: WeightedGraph, n_links: int, known: pd.Series, latency: Latency, seed: int) -> Floats:
    if latency.missing == "error" or not len(known):
        ends = zip(graph.a.tolist(), graph.b.tolist(), strict=True)
        links = [f"{graph.names[u]!r} - {graph.names[v]!r}" for u, v in ends]
        raise DataFileError(
            f"the file has no latency for {len(links)} of {n_links} links: {listed(links, _MAX_SHOWN)}; "
            "add them, or write missing: mean or missing: draw beside it",
            "matrix" if latency.matrix is not None else "pairs",
        )
    ordered = np.sort(known.to_numpy())
    if latency.missing == "mean":
        return np.full(len(graph.a), ordered.mean())
    drawn = draws_numpy.integers(seed, "overlay.latency.missing", 0, len(ordered) - 1, graph.a, graph.b)
    filling: Floats = ordered[drawn]
    return filling


def _named_rows(names: tuple[str, ...], column_names: tuple[str, ...], field: str, *, is_strict: bool) -> Ints:
    index = {title: i for i, title in enumerate(column_names)}
    missing = [name for name in names if name not in index]
    if len(missing) == len(names) or (missing and is_strict):
        folded = {title.casefold(): title for title in column_names}
        near = [f" did you mean {folded[n.casefold()]!r}?" if n.casefold() in folded else nearest(n, column_names)
                for n in missing[:_MAX_SHOWN]]  # fmt: skip
        told = [repr(name) + (f" ({hint.strip()})" if hint else "") for name, hint in zip(missing, near, strict=False)]
        shown = listed([*told, *missing[_MAX_SHOWN:]], _MAX_SHOWN)
        lacking = "matrix has no row" if field == "matrix" else "list has no pair"
        cure = "or write draw_rows: true beside matrix: the seed then draws a row for each node"
        if field == "pairs":
            cure = "or write missing: mean or missing: draw beside pairs"
        message = f"the {lacking} for {len(missing)} of {len(names)} nodes: {shown}"
        raise DataFileError(f"{message}; give the rows the names of the nodes, {cure}", field)
    return np.array([index.get(name, -1) for name in names], dtype=np.int64)
