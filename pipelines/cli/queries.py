"""Commands that query a store: audit, why, compare-node, sql, export, report and plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from pipelines.cli.ends import BY_VERDICT, INVALID, UNKNOWN, complain
from pipelines.cli.options import (
    AsJson,
    Engine,
    FailOn,
    Folder,
    Json,
    Output,
    Parsed,
    Remote,
    RowFormat,
    SomeRunId,
    argument,
    opened_output,
    opened_store,
    option,
    rounds_of,
    statement_of,
    the_run,
)
from pipelines.cli.printing import MAX_SHOWN, print_lines, print_table, write_rows
from pipelines.errors import plural

if TYPE_CHECKING:
    from pipelines.result import Result

_MAX_SHOWN = 20


def print_overview(result: Result, run_id: int | None, *, as_json: bool) -> None:
    """Prints the publications lost by moves, and a table of missing, repeated, late and excused deliveries by cause.

    The function also explains the first delivery of the first cause hop by hop. ``run_id`` None means all runs.
    """
    # These modules import PySpark, which takes a second.
    from pipelines.why.overview import MAX_ASKED, PREDICATES, overview, why_command
    from pipelines.why.story import print_story

    with result.reader.at_one_commit():
        found = overview(result.reader, run_id)
        losses = result.lost_by_moves(run_id)
    commands = [why_command(result.store, group.options) for group in found.groups]
    if as_json:
        for group, command in zip(found.groups, commands, strict=True):
            row = {"what": group.what, "number": group.number, "cause": group.cause, "first": group.first.as_dict()}
            print(json.dumps(row | {"command": command}, ensure_ascii=False))
        omitted = [{"what": what, "left_out": number} for what, number in found.left_out.items()]
        for row in (*omitted, *(loss.as_dict() for loss in losses)):
            print(json.dumps(row, ensure_ascii=False))
        return
    for line in (line for loss in losses for line in loss.lines()):
        print_lines(line)
    if losses:
        print()
    if not found.groups:
        print_lines(f"nothing to explain: {_all_well(result)}")
        return
    rows = [(group.what, group.number, group.first.run_id, group.cause) for group in found.groups[:_MAX_SHOWN]]
    print_table(("what", "deliveries", "run", "cause of the first delivery"), rows, (False, True, True, False))
    if len(found.groups) > _MAX_SHOWN:
        print(f"... and {plural(len(found.groups) - _MAX_SHOWN, 'more cause')}: --json lists all")
    for what, number in found.left_out.items():
        print_lines(
            f"{number:,} more {PREDICATES[what]}, beyond the first {MAX_ASKED}: --run explains one run, SQL lists all"
        )
    print()
    print_story(found.groups[0].first)
    print("\nthe first delivery of each cause:")
    for command in commands[:_MAX_SHOWN]:
        print(f"  {command}")


def _all_well(result: Result) -> str:
    if result.reader.is_finished():
        return "each wanted delivery happened once, with the latency of the fastest path"
    last = result.reader.last_round()
    return f"no delivery is missing so far, but the runs are not finished: round {last:,} is the last"


def audit(
    folder: Folder, engine: Engine = None, remote: Remote = None, fail_on: FailOn = None, as_json: Json = False
) -> None:
    """Check every guarantee again, from the history alone."""
    from pipelines.cli import verdict
    from pipelines.store.folder import resume_hint

    with opened_store(folder, engine) as result:
        if not result.reader.is_finished():
            last = result.reader.last_round()
            reason = f"the runs are not finished, round {last:,} is the last so far"
            row = {"event": "verdict", "verdict": "unknown", "reason": reason, "last_round": last}
            text = f"unknown: {reason}; history in {folder}; {resume_hint(folder)}"
            print(json.dumps(row) if as_json else text)
            raise typer.Exit(UNKNOWN)
        report = result.audit()
        failed = verdict.failures(result, report, fail_on or ())
        if as_json:
            print(verdict.verdict_json(result, report, failed))
        else:
            verdict.print_guarantees(report)
            verdict.print_findings(result, report)
            print_lines(verdict.verdict_line(result, report, failed))
        raise typer.Exit(INVALID if failed else BY_VERDICT[result.verdict])


def why(
    folder: Folder, run_id: SomeRunId = None,
    subscriber: Annotated[str | None, option("NODE", "Node that should receive the publication.")] = None,
    source: Annotated[str | None, option("NODE", "Node that published.")] = None,
    seq: Annotated[int | None, option("Q", "Index among the source's publications, from 1.")] = None,
    call: Annotated[int | None, option("C", "Index among all calls of the source, from 1; replaces --seq.")] = None,
    svg: Annotated[Path | None, option("FILE", "Also write a space-time diagram.")] = None,
    as_json: Json = False, engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Explain the delivery of one publication to one subscriber.

    Shows each hop, crash and resend, and the cause of a loss. Without --subscriber and --source, lists the deliveries
    that are missing, late, duplicate or excused, grouped by cause, and explains the first one.
    """
    from pipelines.report.space_time import of_story
    from pipelines.why.story import print_story, story_name

    if (subscriber is None) != (source is None) or (subscriber is None and (seq, call, svg) != (None, None, None)):
        message = "give --subscriber and --source together, with --seq or --call; without them all losses are listed"
        raise typer.BadParameter(message)
    with opened_store(folder, engine) as result:
        if subscriber is None or source is None:
            print_overview(result, run_id, as_json=as_json)
            return
        told = result.why(the_run(result.runs, run_id), subscriber, source, seq, call)
    if svg is not None:
        of_story(told).draw(story_name(told)).save(svg)
    if as_json:
        print(json.dumps(told.as_dict(), ensure_ascii=False))
    else:
        print_story(told)


def compare_node(
    folder: Folder,
    node: Annotated[str, option("NODE", "A node that crashed.")],
    run_id: SomeRunId = None, form: RowFormat = "table", as_json: AsJson = False, output: Output = None,
    engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Compare a node's state before and after its crashes.

    Counts the rows of the node in each state table. State is stored at commits only. The counts are those of the last
    commit before the crash, the first commit after the recovery, and the last commit of the run. A count is null if no
    such commit exists or VACUUM removed it. With `run --commit-every 1`, every round has a commit.
    """
    with opened_store(folder, engine) as result:
        run_id = the_run(result.runs, run_id)
        rows = result.compare_node(run_id, node).toArrow()
    with opened_output(output) as out:
        write_rows(rows, "json" if as_json else form, out)
    if not rows.num_rows:
        complain(f"nothing to compare: {node} did not crash in run {run_id}; view node_recovery has the crashes")
    elif rows["before_round"].null_count:
        complain("the store has no commit before a crash: run with --commit-every 1 to commit every round")
    if rows["gone"].null_count < rows.num_rows:
        complain("VACUUM removed rows of some versions of state tables; column gone names them, and counts are null")


def sql(
    folder: Folder,
    statement: Annotated[
        str | None, argument("STATEMENT", "One SELECT, or - for stdin; SHOW TABLES lists the names.")
    ] = None,
    file: Annotated[Path | None, option("FILE", "A file with the SELECT.", "--file", "-f")] = None,
    form: RowFormat = "table", as_json: AsJson = False, output: Output = None,
    as_of_round: Annotated[
        int | None,
        option("R", "Read the history up to the end of round R, and state tables as of the last commit up to round R."),
    ] = None,
    engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Answer a SQL query over a store's tables and views."""
    from pipelines.sql.errors import readable_errors

    text = statement_of(statement, file)
    form = "json" if as_json else form
    is_cut = form in ("table", "vertical") and output is None
    with opened_store(folder, engine) as result, readable_errors():
        answer = result.sql(text, as_of_round)
        rows = (answer.limit(MAX_SHOWN + 1) if is_cut else answer).toArrow()
    with opened_output(output) as out:
        write_rows(rows.slice(0, MAX_SHOWN) if is_cut else rows, form, out)
    if is_cut and rows.num_rows > MAX_SHOWN:
        complain(f"the first {MAX_SHOWN:,} rows are shown; --format csv, json and parquet give all")


def export(
    folder: Folder, run_id: SomeRunId = None, output: Output = None, engine: Engine = None, remote: Remote = None
) -> None:  # fmt: skip
    """Print a run as a history for Jepsen's checkers.

    Each line is a JSON object. Its keys are index, type (invoke, ok or info), process (the id of a node, or nemesis),
    node (the name of the node), f (the name of the operation), value, and time (in nanoseconds). A publication or
    delivery has two lines, of types invoke and ok. A crash or recovery has one line, of type info.
    """
    from pipelines.sql.jepsen_history import jepsen_history

    with opened_store(folder, engine) as result, result.reader.at_one_commit(), opened_output(output) as out:
        for entry in jepsen_history(result.reader, the_run(result.runs, run_id)):
            print(json.dumps(entry, ensure_ascii=False), file=out)


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
