"""The commands ``roundtable report``, an HTML file of a store, and ``roundtable plot``, a single diagram."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import pyarrow as pa

from pipelines.cli.options import Engine, Folder, Parsed, Remote, SomeRunId, opened_store, option, rounds_of, the_run
from pipelines.cli.printing import write_rows


def report(
    folder: Folder,
    runs: Annotated[
        list[int] | None,
        option(
            "R",
            "Run to replay; may be repeated.  \\[default: all runs if at most 3, else the worst and the median run]",
            "--run",
        ),
    ] = None,
    rounds: Annotated[Parsed, option("A:B", "Rounds of the replays.", parser=rounds_of)] = None,
    out: Annotated[
        Path | None, option("FILE", "HTML file.  \\[default: DIR/report.html]", "--output", "--out", "-o")
    ] = None,
    engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Write the report of a store, an HTML file for offline use.

    The file contains the verdict, a replay of the overlay round by round, and the states of the nodes.
    """
    from pipelines.store.roots import size_of

    first, last = rounds or (0, None)
    with opened_store(folder, engine) as result:
        path = result.report(tuple(runs or ()), first, last, out)
    print(f"report: {path} ({size_of(path) / 1e6:.1f} MB)")


def plot(
    folder: Folder,
    x: Annotated[str | None, option("COLUMN", "Horizontal axis.")] = None,
    y: Annotated[str | None, option("COLUMN", "Vertical axis; a numeric column.")] = None,
    colour: Annotated[str | None, option("COLUMN", "One colour per value.", "--colour", "--color")] = None,
    where: Annotated[str | None, option("SQL", "Condition that selects rows.")] = None,
    relation: Annotated[
        str | None,
        option(
            "NAME",
            "Table or view.  \\[default: the first of result, latency_quantile and round_summary with these columns]",
            "--from",
        ),
    ] = None,
    measure: Annotated[
        str | None,
        option("NAME", "Chart of one run, instead of columns: latency, hops, over_time, kinds, nodes, links, states."),
    ] = None,
    run_id: SomeRunId = None,
    out: Annotated[
        Path | None,
        option("FILE", "FILE.svg, .png, .pdf, or .csv for the data.  \\[default: print the data]", "--output", "-o"),
    ] = None,
    engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Plot columns of a store's views, or a measure of one run.

    A point is the mean over the rows with equal x and colour, with its 95 % confidence interval. An axis or the colour
    can be a column of the view, or a parameter of the run (a column of view parameter). It can also be the seed, the
    protocol or the verdict of the run.
    """
    from pipelines.report.pictures import check_name

    if out is not None:
        check_name(out)
    with opened_store(folder, engine) as result:
        of_run = run_id if measure is None or x or y else the_run(result.runs, run_id)
        shown = result.plot(measure, of_run, x=x, y=y, colour=colour, where=where, relation=relation)
    if out is None:
        write_rows(pa.Table.from_pylist(list(shown.rows)), "table", sys.stdout)
    else:
        print(f"plot: {shown.save(out)}")
