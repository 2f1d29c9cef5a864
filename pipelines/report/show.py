"""The entry points of `report`: a report as a file or in a notebook, and a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pipelines.errors import QueryError, nearest
from pipelines.report.document import gather
from pipelines.report.measures import measures
from pipelines.report.page import page
from pipelines.report.pictures import Picture, picture, specification, with_unit
from pipelines.report.plots import Plot, draw_plot
from pipelines.report.replay import Span, last_round
from pipelines.report.summary import run_rows
from pipelines.sql.differences import check_run
from pipelines.sql.errors import readable_errors
from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root, check_target, write_whole

NAME = "report.html"


def write_report(reader: StoreReader, root: Root, runs: Sequence[int], span: Span, out: Path | None) -> Root:
    """Writes the report of a store to ``out``, or to ``report.html`` in the store's folder; returns the path.

    ``runs`` and ``span`` are the parameters ``named`` and ``span`` of `document.gather`. The file is written under a
    temporary name and then renamed, so the file ``out`` is never incomplete.

    Raises:
        QueryError: The store has no such run or round, or the file cannot be written.
    """
    path = out if out is not None else root / NAME
    with _writing(path):
        check_target(path)
    data = gather(reader, root, runs, span)
    with _writing(path):
        write_whole(path, page(data, f"{data['scenario']} - Roundtable"))
    return path


@contextmanager
def _writing(path: Root) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        failed = f"the file {str(path)!r} cannot be written: {error.strerror}"
        raise QueryError(f"{failed}; name another with --out") from error


@dataclass(frozen=True)
class Replay:
    """A report page that initially shows the replay of a run; notebooks display it without a network connection."""

    html: str

    def _repr_html_(self) -> str:
        style = "width:100%;height:46rem;border:1px solid #8888"
        return f'<iframe title="Replay" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def replay_of(reader: StoreReader, root: Root, run_id: int, span: Span) -> Replay:
    """Returns the report page of one run, which initially shows the replay; raises the errors of `document.gather`."""
    data = gather(reader, root, (run_id,), span)
    return Replay(page(data | {"start": "replay"}, f"{data['scenario']}, run {run_id}"))


def plot_of(reader: StoreReader, name: str | None, run_id: int | None, columns: Mapping[str, str | None]) -> Picture:
    """Returns the chart ``name`` of a run, or a plot of columns of all runs.

    Args:
        reader: The store.
        name: The name of a chart of a run, see `measure_of`; None for a plot of columns.
        run_id: The run of chart ``name``, or None for run 0. A plot of columns requires None.
        columns: The attributes of `plots.Plot`, by name. A plot of columns requires ``x`` and ``y``; chart ``name``
            requires None for all.

    Raises:
        QueryError: An argument is missing or contradicts another argument; or `measure_of` or `plots.draw_plot` raises
            the error.
    """
    named = [key for key, value in columns.items() if value is not None]
    if name is not None and named:
        raise QueryError(f"measure {name!r} takes no {', '.join(named)}; leave out the measure or the columns")
    if name is not None:
        return measure_of(reader, run_id or 0, name)
    x, y, colour, where, relation = map(columns.get, ("x", "y", "colour", "where", "relation"))
    if x is None or y is None:
        raise QueryError("a plot shows a measure of one run, by its name, or two columns, x and y; name one of both")
    if run_id is not None:
        raise QueryError(f"a plot of columns shows all runs; to show one, write the condition run_id = {run_id}")
    with readable_errors():
        return draw_plot(reader, Plot(x, y, colour, where, relation))


def measure_of(reader: StoreReader, run_id: int, name: str) -> Picture:
    """Returns the chart ``name`` of a run.

    Raises:
        QueryError: The store has no such run, the chart is unknown, or the chart has no rows.
    """
    known = specification("measures")
    if name not in known:
        raise QueryError(f"measure {name!r} does not exist;{nearest(name, known)} known: {', '.join(known)}")
    with readable_errors():
        check_run(reader, run_id)
        run = next(row for row in run_rows(reader) if row["run_id"] == run_id)
        rows = measures(reader, {run_id: last_round(reader, run)}, (name,))[run_id][name]
    if not rows:
        raise QueryError(f"measure {name!r} of run {run_id} has no rows; name another measure or another run")
    return picture(with_unit(known[name], run["round_ms"]), {"rows": rows})
