"""Link latencies that replace those of an overlay's source: fixed, drawn, or measured, from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipelines.contract.run_inputs import Ints
from pipelines.errors import nearest, plural
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.measured import read_matrix, read_pairs
from pipelines.inputs.overlay.weighted import ContentError, Floats, WeightedGraph
from pipelines.scenario.overlay import Latency

MAX_ROUNDS = 1_000_000
_MAX_SHOWN = 5
_MS_OF = {"us": 0.001, "ms": 1.0, "s": 1000.0}


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
        raise ContentError(
            "no latency is given; give exactly one of rounds, ms, uniform, lognormal_ms, matrix, pairs", ""
        )
    median, sigma = latency.lognormal_ms
    with np.errstate(over="ignore"):
        spread: Floats = median * np.exp(
            sigma * draws_numpy.normal(seed, "overlay.latency.lognormal", graph.a, graph.b)
        )
    return spread


@dataclass(frozen=True, eq=False)
class LinkLatencies:
    """One-way latencies of links from a file.

    Attributes:
        ms: From ``a`` to ``b``; shape (links,).
        back_ms: From ``b`` to ``a``; shape (links,). None: the same.
        notes: How they follow from the file, a sentence each.
    """

    ms: Floats
    back_ms: Floats | None
    notes: tuple[str, ...]


def measured_ms(graph: WeightedGraph, latency: Latency, path: Path, seed: int) -> LinkLatencies:
    """Returns one-way latencies of links from a matrix or a list of pairs.

    A node takes the row of its name. With ``draw_rows``, or where a matrix has no names, the seed assigns the rows to
    the nodes without replacement. A link takes the mean of its two directions, or each with ``per_direction``; where
    one direction is not known, it takes the other.

    Args:
        graph: The overlay.
        latency: The setting that names the file.
        path: The file.
        seed: The run's.

    Raises:
        ContentError: The file cannot be read, has fewer rows than the overlay nodes, or lacks a link's latency.
    """
    field = "matrix" if latency.matrix is not None else "pairs"
    columns = (latency.source, latency.destination, latency.value)
    measured = read_matrix(path) if field == "matrix" else read_pairs(path, columns)
    notes = []
    if latency.draw_rows or measured.names is None:
        row = _drawn_rows(len(graph.names), measured.size, seed)
        if not latency.draw_rows:
            notes.append(
                f"{path.name} has no names: the seed draws the row of each node (latency.draw_rows: true says so)"
            )
    else:
        row = _named_rows(graph.names, measured.names, field, is_strict=latency.missing == "error")
    is_round_trip = measured.is_round_trip if latency.round_trip is None else latency.round_trip
    factor = _MS_OF[latency.unit] / (2.0 if is_round_trip else 1.0)
    if field == "pairs":
        half = "half of it, as of a round trip" if is_round_trip else "all of it, as of one way"
        hint = "" if latency.round_trip is not None else "; latency.round_trip says otherwise"
        notes.append(f"a link takes of column {measured.value_title} of {path.name} {half}{hint}")
    if measured.n_repeated:
        notes.append(f"{measured.n_repeated:,} rows of {path.name} are of pairs with several, which take their mean")
    there, back = (_known(measured.of(row[u], row[v]), latency) for u, v in ((graph.a, graph.b), (graph.b, graph.a)))
    n_one = int((np.isnan(there) != np.isnan(back)).sum())
    if n_one and field == "matrix":
        notes.append(f"{plural(n_one, 'link')} of {len(there):,} known in one direction, which counts for both")
    there, back = np.where(np.isnan(there), back, there), np.where(np.isnan(back), there, back)
    if (holes := np.isnan(there)).any():
        there, back = _filled(there, back, holes, _known(measured.values, latency), graph, latency, seed, field)
        notes.append(
            f"{plural(int(holes.sum()), 'link')} of {len(there):,} not known in {path.name}: {latency.missing}"
        )
    apart = np.abs(there - back) * factor
    if latency.per_direction:
        return LinkLatencies(there * factor, back * factor if apart.any() else None, tuple(notes))
    if apart.any() and field == "pairs":
        n_apart = int((apart > 0).sum())
        notes.append(f"{n_apart:,} of {plural(len(apart), 'link')} differ by direction, by up to {apart.max():g} ms, "
                     "and take the mean; latency.per_direction: true keeps both")  # fmt: skip
    return LinkLatencies((there + back) / 2.0 * factor, None, tuple(notes))


def _known(values: Floats, latency: Latency) -> Floats:
    return np.where(values == 0, np.nan, values) if latency.zero_is_unknown else values


def _filled(
    there: Floats, back: Floats, holes: npt.NDArray[np.bool_], values: Floats, graph: WeightedGraph, latency: Latency,
    seed: int, field: str,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Returns latencies with a value for each hole, as ``latency.missing`` says.

    Raises:
        ContentError: It says error, or no latency is known.
    """
    a, b = graph.a[holes], graph.b[holes]
    known = np.sort(values[~np.isnan(values)])
    if latency.missing == "error" or not len(known):
        ends = [f"{graph.names[u]!r} - {graph.names[v]!r}" for u, v in zip(a.tolist(), b.tolist(), strict=True)]
        more = f" and {len(ends) - _MAX_SHOWN} more" if len(ends) > _MAX_SHOWN else ""
        raise ContentError(
            f"the file has no latency for {len(ends)} of {len(there)} links: {', '.join(ends[:_MAX_SHOWN])}{more}; "
            "add them, or write missing: mean or missing: draw beside it", field,
        )  # fmt: skip
    filling = np.full(len(a), known.mean())
    if latency.missing == "draw":
        filling = known[draws_numpy.integers(seed, "overlay.latency.missing", 0, len(known) - 1, a, b)]
    there, back = there.copy(), back.copy()
    there[holes] = back[holes] = filling
    return there, back


def _named_rows(names: tuple[str, ...], titles: tuple[str, ...], field: str, *, is_strict: bool) -> Ints:
    """Returns the row of each node; -1 where the file has none of its name.

    Raises:
        ContentError: No node has one, or if strict, some node has none.
    """
    index = {title: i for i, title in enumerate(titles)}
    missing = [name for name in names if name not in index]
    if len(missing) == len(names) or (missing and is_strict):
        folded = {title.casefold(): title for title in titles}
        shown = ", ".join(_with_near(name, titles, folded) for name in missing[:_MAX_SHOWN])
        more = f" and {len(missing) - _MAX_SHOWN} more" if len(missing) > _MAX_SHOWN else ""
        lacking = "matrix has no row" if field == "matrix" else "list has no pair"
        cure = "or write draw_rows: true beside matrix: the seed then draws a row for each node"
        if field == "pairs":
            cure = "or write missing: mean or missing: draw beside pairs"
        raise ContentError(
            f"the {lacking} for {len(missing)} of {len(names)} nodes: {shown}{more}; give the rows the names of the "
            f"nodes, {cure}",
            field,
        )
    return np.array([index.get(name, -1) for name in names], dtype=np.int64)


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
