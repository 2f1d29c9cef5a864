"""Link latencies that replace those of an overlay's source: fixed, drawn, or from a matrix of measured round trips."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np

from pipelines.errors import nearest
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.files import read_bytes
from pipelines.inputs.overlay.graph import Ints
from pipelines.inputs.overlay.routers import decode, delay
from pipelines.inputs.overlay.weighted import ContentError, Floats, WeightedGraph
from pipelines.spec.overlay import Latency

MAX_ROUNDS = 1_000_000
_MAX_SHOWN = 5
Matrix = tuple[tuple[str, ...] | None, Floats]


def to_rounds(ms: Floats, round_ms: float) -> Ints:
    """Returns latencies in whole rounds: rounded up, at least 1.

    What exceeds a whole number by less than a billionth is rounding noise of the division, and is
    cut off: 1.1 ms are 11 rounds of 0.1 ms.

    Args:
        ms: Latencies, 0 or more.
        round_ms: Milliseconds of a round.

    Raises:
        ContentError: A latency takes more than a million rounds.
    """
    with np.errstate(over="ignore"):
        rounds = np.maximum(np.ceil(np.round(ms / round_ms, 9)), 1.0)
    if len(rounds) and not rounds.max() <= MAX_ROUNDS:
        raise ContentError(
            f"a latency of {ms.max():g} ms is more than {MAX_ROUNDS:,} rounds of {round_ms:g} ms; "
            "take a longer time.round_ms or shorter latencies"
        )
    return rounds.astype(np.int64)


def drawn_ms(graph: WeightedGraph, latency: Latency, seed: int, round_ms: float) -> Floats:
    """Returns a latency for each link that is fixed, or hashed from the seed and the link's ends.

    Args:
        graph: The overlay before it is cut to a tree, so that a link has the same latency in every tree.
        latency: One of ``rounds``, ``ms``, ``uniform``, ``lognormal_ms``.
        seed: The run's.
        round_ms: Milliseconds of a round.
    """
    if latency.rounds is not None:
        return np.full(len(graph.a), latency.rounds * round_ms)
    if latency.ms is not None:
        return np.full(len(graph.a), float(latency.ms))
    if latency.uniform is not None:
        low, high = latency.uniform
        rounds = draws_numpy.integers(seed, "overlay.latency.uniform", low, high, graph.a, graph.b)
        return rounds.astype(np.float64) * round_ms
    if latency.lognormal_ms is None:
        raise ContentError("no latency is given; give exactly one of rounds, ms, uniform, lognormal_ms, matrix", "")
    median, sigma = latency.lognormal_ms
    with np.errstate(over="ignore"):
        spread: Floats = median * np.exp(
            sigma * draws_numpy.normal(seed, "overlay.latency.lognormal", graph.a, graph.b)
        )
    return spread


def matrix_ms(graph: WeightedGraph, latency: Latency, path: Path, seed: int) -> tuple[Floats, str]:
    """Returns one-way latencies, half the mean of a link's two round-trip times, and a note on drawn rows.

    A node takes the row of its name. With ``draw_rows``, or where the matrix has no titles, the seed assigns the rows
    to the nodes without replacement.

    Args:
        graph: The overlay.
        latency: The setting that names the matrix.
        path: The matrix file.
        seed: The run's.

    Raises:
        ContentError: The file cannot be read, has fewer rows than the overlay nodes, or lacks a node's name.
    """
    try:
        stamp = path.stat()
    except OSError as error:
        raise ContentError(f"{path} cannot be read: {error.strerror}", "matrix") from error
    titles, rtt = _matrix(path, stamp.st_mtime_ns, stamp.st_size)
    is_drawn = latency.draw_rows or titles is None
    row = _drawn_rows(len(graph.names), len(rtt), seed) if is_drawn else _named_rows(graph.names, titles or ())
    a, b = row[graph.a], row[graph.b]
    one_way: Floats = (rtt[a, b] + rtt[b, a]) / 4.0
    note = f"{path.name} has no names: the seed draws the row of each node (latency.draw_rows: true says so)"
    return one_way, "" if latency.draw_rows or titles is not None else note


def _named_rows(names: tuple[str, ...], titles: tuple[str, ...]) -> Ints:
    index = {title: i for i, title in enumerate(titles)}
    missing = [name for name in names if name not in index]
    if missing:
        folded = {title.casefold(): title for title in titles}
        shown = ", ".join(_with_near(name, titles, folded) for name in missing[:_MAX_SHOWN])
        more = f" and {len(missing) - _MAX_SHOWN} more" if len(missing) > _MAX_SHOWN else ""
        raise ContentError(
            f"the matrix has no row for {len(missing)} of {len(names)} nodes: {shown}{more}; give the rows the names "
            "of the nodes, or write draw_rows: true beside matrix: the seed then draws a row for each node",
            "matrix",
        )
    return np.array([index[name] for name in names], dtype=np.int64)


def _with_near(name: str, titles: tuple[str, ...], folded: Mapping[str, str]) -> str:
    """Returns a missing name with the title that is probably meant; case is ignored first."""
    same = folded.get(name.casefold())
    hint = f" did you mean {same!r}?" if same is not None else nearest(name, titles)
    return repr(name) + (f" ({hint.strip()})" if hint else "")


def _drawn_rows(n_nodes: int, size: int, seed: int) -> Ints:
    if size < n_nodes:
        raise ContentError(
            f"the matrix has {size} rows and the overlay {n_nodes} nodes; take a larger matrix or a smaller overlay",
            "matrix",
        )
    order = np.argsort(draws_numpy.bits(seed, "overlay.latency.matrix", np.arange(size)), kind="stable")
    return order[:n_nodes].astype(np.int64)


@lru_cache(maxsize=8)
def _matrix(path: Path, _mtime: int, _size: int) -> Matrix:
    name = path.name.removesuffix(".gz")
    try:
        content = read_bytes(path)
        return _titled(content) if name.lower().endswith(".csv") else (None, _plain(content))
    except ContentError as error:
        raise ContentError(f"{path.name}: {error}", "matrix") from error


def _plain(content: bytes) -> Floats:
    """Reads numbers separated by space."""
    decode(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            values = np.loadtxt(BytesIO(content), ndmin=2)
    except ValueError as error:
        raise ContentError(f"not a matrix of numbers: {str(error).split(';')[0]}") from error
    if values.size == 0:
        raise ContentError("the file holds no numbers; a matrix has a line of round-trip times in ms for each node")
    if values.shape[0] != values.shape[1]:
        raise ContentError(
            f"{values.shape[0]} lines of {values.shape[1]} numbers; a matrix of round-trip times is square"
        )
    wrong = np.argwhere(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        i, j = wrong[0].tolist()
        raise ContentError(f"row {i + 1}, column {j + 1}: {values[i, j]:g}; a round-trip time is finite, 0 ms or more")
    return values


def _titled(content: bytes) -> Matrix:
    """Reads a CSV with titles for columns and rows; the corner may be there or not."""
    rows = csv.reader(StringIO(decode(content), newline=""), strict=True)
    try:
        header = [title.strip() for title in next(rows, [])]
        lines = [(rows.line_num, [cell.strip() for cell in row]) for row in rows if row]
    except csv.Error as error:
        raise ContentError(f"line {rows.line_num}: {error}") from error
    if not lines:
        raise ContentError("the file holds no rows; a matrix has a line of titles, then one line for each node")
    titles = header[1:] if len(header) == len(lines[0][1]) else header
    column = {title: i for i, title in enumerate(titles)}
    if len(column) < len(titles):
        raise ContentError("line 1: a title is there twice; titles are unique")
    rtt = np.full((len(titles), len(titles)), np.nan)
    for line, (title, *cells) in lines:
        if title not in column:
            raise ContentError(
                f"line {line}: no column is called {title!r};{nearest(title, titles)} rows and columns share titles"
            )
        if len(cells) != len(titles):
            raise ContentError(f"line {line}: {len(cells)} numbers for {len(titles)} columns")
        if not np.isnan(rtt[column[title]]).all():
            raise ContentError(f"line {line}: the row {title!r} is there already; titles are unique")
        rtt[column[title]] = [delay(cell, f"line {line}") for cell in cells]
    missing = [title for title in titles if np.isnan(rtt[column[title]]).any()]
    if missing:
        raise ContentError(f"no row is called {missing[0]!r}; rows and columns have the same titles")
    return tuple(titles), rtt
