"""Plots two columns of a view over all runs, with means and confidence intervals, or a measure of one run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from pipelines.errors import QueryError, nearest
from pipelines.report.measures import measures
from pipelines.report.pictures import WIDTH, Picture, picture, specification, with_unit
from pipelines.report.replay import last_round
from pipelines.report.summary import run_rows
from pipelines.sql.differences import check_run
from pipelines.sql.errors import readable_errors
from pipelines.sql.query import StoreReader

SOURCES = ("result", "latency_quantile", "round_summary")
"""The default relations of a plot. The first relation that has all columns of the plot is used."""
MOST_MARKS = 20_000
MOST_COLOURS = 40
_FEW_TICKS = 12
_FEW_MARKS = 200
_SMALL_MARK = 16
_RATIOS = ("delivery_ratio", "wanted_ratio", "quantile")
_NORMAL = 1.959964
_STUDENT = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445}
_FISHER = (2.372271, 2.822499, 2.555852, 1.589536)
_ROWS = "select {columns} from (select r.*{more} from {relation} r{joined}) plotted where {where}"


@dataclass(frozen=True)
class Plot:
    """The columns and rows of a plot of numeric column ``y`` over column ``x``; ``colour`` None stands for one colour.

    ``where`` is a SQL condition on the columns of ``relation``, a table or view, and on the parameters of runs. The
    default relation is the first of `SOURCES` that has the columns.
    """

    x: str
    y: str
    colour: str | None = None
    where: str | None = None
    relation: str | None = None

    @property
    def columns(self) -> list[str]:
        """The distinct columns of the plot."""
        return list(dict.fromkeys(name for name in (self.x, self.y, self.colour) if name is not None))


def plot_rows(reader: StoreReader, plot: Plot) -> list[dict[str, Any]]:
    """Returns the marks of a plot.

    Returns:
        One row for each pair of ``x`` and ``colour``: ``n``, the number of values of ``y``; ``mean``, their mean;
        ``low`` and ``high``, the ends of the 95 % confidence interval of the mean (computed by `interval`); ``lowest``
        and ``highest``, the extreme values.

    Raises:
        QueryError: The relation, a column or the condition is invalid, or the number of marks is 0 or too large.
    """
    query = _query(reader, plot)
    try:
        with readable_errors():
            found = reader.sql(query).toArrow().to_pylist()
    except QueryError as error:
        raise QueryError(f"{error}; the condition is {plot.where!r}") from error
    values: dict[tuple[Any, Any], list[float]] = defaultdict(list)
    for row in found:
        if row[plot.y] is None:
            continue
        if isinstance(row[plot.y], (str, bytes, list, dict)):
            raise QueryError(f"column {plot.y!r} holds no numbers, but {row[plot.y]!r}; name a column of numbers as y")
        key = row[plot.x], None if plot.colour is None else row[plot.colour]
        for name, value in zip((plot.x, plot.colour), key, strict=True):
            if isinstance(value, (list, dict)):
                raise QueryError(f"column {name!r} holds lists, e.g. {value!r}; name a column of single values instead")
        values[key].append(float(row[plot.y]))
    if not values:
        raise QueryError(f"there is nothing to plot: {len(found):,} rows, none with a value of {plot.y!r}")
    if len(values) > MOST_MARKS:
        raise QueryError(f"the plot has {len(values):,} marks; allowed: up to {MOST_MARKS:,}; narrow it by a condition")
    rows = []
    for (x, colour), of_mark in sorted(values.items(), key=lambda item: tuple(map(_order, item[0]))):
        low, high = interval(of_mark, is_ratio=plot.y in _RATIOS)
        row = {"x": x, "colour": colour, "n": len(of_mark), "mean": fmean(of_mark), "low": low, "high": high}
        rows.append(row | {"lowest": min(of_mark), "highest": max(of_mark)})
    return rows


def draw_plot(reader: StoreReader, plot: Plot) -> Picture:
    """Renders the rows that `plot_rows` returns for ``plot``.

    Returns:
        The picture. Its data has one row per mark: the values of the columns ``plot.x`` and ``plot.colour``, the mean
        of column ``plot.y``, and the statistics ``n``, ``ci_low``, ``ci_high``, ``lowest`` and ``highest``. A statistic
        is omitted if a column of the plot has its name.

    Raises:
        QueryError: As for `plot_rows`; or column ``plot.colour`` has more than `MOST_COLOURS` values.
    """
    rows = plot_rows(reader, plot)
    groups = [""]
    if plot.colour is not None:
        groups = [_said(value) for value in sorted({row["colour"] for row in rows}, key=_order)]
    if len(groups) > MOST_COLOURS:
        found = f"column {plot.colour!r} has {len(groups):,} values"
        raise QueryError(f"{found}; a plot has up to {MOST_COLOURS} colours; narrow it by a condition")
    marks = [
        {
            "x": row["x"], "mean": row["mean"], "colour": _said(row["colour"]) if plot.colour else "", "rest": "",
            "low": row["mean"] if row["low"] is None else row["low"],
            "high": row["mean"] if row["high"] is None else row["high"], "text": "",
        }
        for row in rows
    ]  # fmt: skip
    return Picture(
        picture(_plot_specification(plot, marks, groups), {"rows": marks}).svg, [_data(plot, r) for r in rows]
    )


def _data(plot: Plot, row: dict[str, Any]) -> dict[str, Any]:
    named = {plot.x: row["x"]} | ({} if plot.colour is None else {plot.colour: row["colour"]})
    told = {"n": row["n"], plot.y: row["mean"], "ci_low": row["low"], "ci_high": row["high"]}
    return named | told | {"lowest": row["lowest"], "highest": row["highest"], plot.y: row["mean"]} | named


def interval(values: Sequence[float], *, is_ratio: bool) -> tuple[float | None, float | None]:
    """Returns the two ends of the 95 % confidence interval of a mean, computed as in view ``result_summary``.

    For fewer than two values, both ends are None. ``is_ratio`` selects the interval of values from 0 to 1; other
    values are any numbers that are not negative.
    """
    n, mean = len(values), fmean(values)
    if n < 2:
        return None, None
    is_spread = max(values) > min(values)
    freedom = n - 1
    student = _STUDENT.get(freedom) or _NORMAL + sum(factor / freedom**power for power, factor in enumerate(_FISHER, 1))
    if is_ratio:
        z = student if is_spread else _NORMAL
        size = mean * (1 - mean) * n / stdev(values) ** 2 if is_spread else n
        centre = (mean + z * z / (2 * size)) / (1 + z * z / size)
        reach = z / (1 + z * z / size) * math.sqrt(max(mean * (1 - mean), 0.0) / size + z * z / (4 * size * size))
        return max(centre - reach, 0.0), min(centre + reach, 1.0)
    if not is_spread or mean <= 0:
        return mean, mean
    half = stdev(values) / math.sqrt(n) * student
    return mean * math.exp(-half / mean), mean * math.exp(half / mean)


def _query(reader: StoreReader, plot: Plot) -> str:
    given = reader.table("parameter").columns
    columns = {name: reader.table(name).columns for name in ([plot.relation] if plot.relation is not None else SOURCES)}
    run = ["seed", "protocol", "verdict", "within_bound"]
    has = {name: {*own, *(given if "run_id" in own else ()), *(run if "run_id" in own else ())}
           for name, own in columns.items()}  # fmt: skip
    relation = next((name for name, own in has.items() if own.issuperset(plot.columns)), None)
    if relation is None:
        known = set().union(*has.values())
        wrong = next((name for name in plot.columns if name not in known), None)
        where = " or ".join(columns)
        if wrong is None:
            raise QueryError(f"neither {where} has all of {', '.join(plot.columns)}; name the relation that has")
        raise QueryError(
            f"column {wrong!r} does not exist in {where};{nearest(wrong, known)} name another column or relation"
        )
    own = columns[relation]
    joined = more = ""
    if "run_id" in own:
        of_run = [name for name in run if name not in own]
        of_given = [name for name in given if name not in (*own, *of_run)]
        more = "".join(f", q.`{name}`" for name in of_run) + "".join(f", p.`{name}`" for name in of_given)
        joined = " join run q on q.run_id = r.run_id join parameter p on p.run_id = r.run_id"
    names = ", ".join(f"`{name}`" for name in plot.columns)
    return _ROWS.format(columns=names, more=more, relation=relation, joined=joined, where=f"({plot.where or 'true'})")


def _plot_specification(plot: Plot, marks: Sequence[dict[str, Any]], groups: Sequence[str]) -> dict[str, Any]:
    """Returns the Vega-Lite specification of ``plot``; the legend shows the colours, dashes and shapes of ``groups``.

    The horizontal axis is numeric if all values of ``x`` are numbers, else nominal.
    """
    spec: dict[str, Any] = specification("study")
    values = sorted({mark["x"] for mark in marks}, key=_order)
    is_number = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    x: dict[str, Any] = {"field": "x", "title": plot.x, "type": "quantitative" if is_number else "nominal"}
    if is_number:
        few = {"values": values, "format": "~r"} if len(values) <= _FEW_TICKS else {}
        whole = {"tickMinStep": 1} if all(isinstance(value, int) for value in values) else {}
        x |= {"scale": {"zero": False, "nice": False, "padding": 12}, "axis": few | whole}
    else:
        x |= {"sort": values}
        spec["layer"] = [one for one in spec["layer"] if one["mark"]["type"] != "line"]
    if len(marks) > _FEW_MARKS:
        spec["layer"][-1]["mark"]["size"] = _SMALL_MARK
    longest = max(map(len, groups))
    legend = {"columns": max(1, WIDTH // (7 * longest + 45)), "symbolLimit": 0} if plot.colour else None
    shared = {"field": "colour", "type": "nominal", "title": plot.colour, "scale": {"domain": groups}, "legend": legend}
    spec["encoding"] = {"x": x, "y": {"title": plot.y, "scale": {"zero": False}}, "color": shared}
    for layer in spec["layer"]:
        layer["encoding"] |= {name: shared for name in ("strokeDash", "shape") if name in layer["encoding"]}
    return spec


def _order(value: Any) -> tuple[int, Any]:  # noqa: ANN401 - any value of SQL
    """Returns a sort key for values of a column: null first, then numbers, then strings."""
    if value is None:
        return (0, 0)
    return (1, value) if isinstance(value, (int, float)) else (2, str(value))


def _said(value: Any) -> str:  # noqa: ANN401 - any value of SQL
    return "null" if value is None else str(value)


def measure_of(reader: StoreReader, run_id: int, name: str) -> Picture:
    """Returns chart ``name`` of a run; raises `QueryError` if the run or the chart does not exist, or has no rows."""
    known = specification("measures")
    if name not in known:
        raise QueryError(f"measure {name!r} does not exist;{nearest(name, known)} known: {', '.join(known)}")
    check_run(reader, run_id)
    run = next(row for row in run_rows(reader) if row["run_id"] == run_id)
    rows = measures(reader, {run_id: last_round(reader, run)}, (name,))[run_id][name]
    if not rows:
        raise QueryError(f"measure {name!r} of run {run_id} has no rows; name another measure or another run")
    return picture(with_unit(known[name], run["round_ms"]), {"rows": rows})
