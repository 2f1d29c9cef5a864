"""The commands and their options."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pipelines.cli.ends import BY_VERDICT, INTERRUPTION, UNKNOWN, VALID, WRONG_INPUT, Commands, complain
from pipelines.cli.listing import GROUPS, print_groups
from pipelines.cli.progress import Form, reporter
from pipelines.errors import ScenarioError, nearest

if TYPE_CHECKING:
    from pipelines.result import Result

ENGINES = ("spark", "connect", "sail")
FORMATS = ("table", "json", "csv")

app = typer.Typer(
    cls=Commands, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Runs publish/subscribe protocols as dataflow, and checks what they guarantee.",
    epilog="Exit codes: 0 all guarantees hold; 1 one is broken; 2 not decided; 64 wrong command or file; 70 a bug.",
)  # fmt: skip


def _one_of(names: tuple[str, ...]) -> Callable[[str | None], str | None]:
    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(names)};{nearest(value, names)}".rstrip(";"))
        return value

    return check


def _rounds_of_a_job(value: str) -> str:
    if value != "auto" and not (value.isdigit() and int(value) >= 1):
        raise typer.BadParameter(f"{value!r} is neither auto nor a whole number from 1 on")
    return value


def _remote(url: str | None) -> str | None:
    """Keeps the server's address where the engine and PySpark look for it."""
    if url is not None:
        if not url.startswith("sc://"):
            raise typer.BadParameter(f"{url!r} is no address of a Spark Connect server; write sc://host:port")
        os.environ["SPARK_REMOTE"] = url
    return url


File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file.", show_default=False)]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The store that a run left.", show_default=False)]
Engine = Annotated[
    str | None,
    typer.Option(metavar="|".join(ENGINES), callback=_one_of(ENGINES), help="What runs it.", show_default=False),
]
RunId = Annotated[int, typer.Option("--run", metavar="R", help="Id of the run.", show_default=False)]
RowFormat = Annotated[
    str, typer.Option("--format", metavar="|".join(FORMATS), callback=_one_of(FORMATS), help="How to print the rows.")
]
Remote = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="SPARK_REMOTE", callback=_remote, show_default=False,
        help="The server of --engine connect, e.g. sc://localhost:15002.",
    ),
]  # fmt: skip
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Changes a value of the scenario; may be repeated."),
]

Quiet = Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Runs publish/subscribe protocols as dataflow, and checks what they guarantee."""
    if show_version:
        print(f"roundtable {version('roundtable-pubsub')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", epilog="Example: roundtable list protocols")
def list_(
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="|".join(GROUPS),
            callback=_one_of(tuple(GROUPS)),
            help="All of them if left out.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """List what there is, a line each: protocols, overlays, workloads, faults, audits, scenarios."""
    print_groups(tuple(GROUPS) if group is None else (group,))


@app.command(epilog="Example: roundtable schema > scenario.schema.json")
def schema() -> None:
    """Print the JSON Schema of scenario files, with the protocols that are installed."""
    from pipelines.scenario.schema import schema_text

    print(schema_text(), end="")


@app.command(epilog="Example: roundtable validate conf/scenarios/*.yaml")
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files.", show_default=False)],
) -> None:
    """Show every error of scenario files at once; writes nothing."""
    from pipelines.errors import plural
    from pipelines.experiment.plan import check
    from pipelines.experiment.prepared import prepare

    code = VALID
    for file in files:
        try:
            prepared = prepare(file)
            check(prepared)
        except ScenarioError as error:
            complain(*error.problems)
            code = WRONG_INPUT
        else:
            print(f"{file}: ok ({plural(len(prepared.runs), 'run')})")
    raise typer.Exit(code)


@app.command(epilog="Example: roundtable plan conf/scenarios/quickstart.yaml")
def plan(file: File, overrides: Overrides = None, engine: Engine = None) -> None:
    """Show what a scenario would run: runs, overlays, calls, messages, tables, engine; writes nothing."""
    from pipelines.cli.planning import print_plan
    from pipelines.experiment.prepared import prepare

    prepared = prepare(file, overrides or ())
    print_plan(prepared, engine or prepared.scenario.engine)


@app.command(epilog="Example: roundtable run conf/scenarios/quickstart.yaml --store runs/demo --set protocol.delta=2")
def run(
    file: File,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="New or empty folder.  \\[default: runs/<scenario>/<UTC time>]", show_default=False
        ),
    ] = None,
    engine: Engine = None,
    remote: Remote = None,
    overrides: Overrides = None,
    commit_every: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            min=1,
            help="Rounds between commits of the history.  \\[default: 20, or 200 with several rounds a job]",
            show_default=False,
        ),
    ] = None,
    rounds_per_job: Annotated[
        str,
        typer.Option(
            metavar="auto|N",
            callback=_rounds_of_a_job,
            help="Rounds of a job of the engine, 1 unless the protocol is a node program; the rows are the same.",
        ),
    ] = "auto",
    batch_runs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Runs that go through the rounds together.  \\[default: as many as fit in memory]",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a scenario, keep its history in a store, and check every guarantee."""
    from pipelines.experiment.prepared import prepare

    prepared = prepare(file, overrides or ())
    from pipelines.api import run_prepared  # PySpark takes a second: errors of the file come before

    chosen: Any = engine

    def say(text: str) -> None:
        INTERRUPTION.listen()
        progress.note(text)

    with reporter(_form(quiet=quiet, as_json=as_json), prepared.horizon) as progress:
        result = run_prepared(
            prepared,
            store=store,
            engine=chosen,
            commit_every=commit_every,
            batch_runs=batch_runs,
            rounds_per_job=None if rounds_per_job == "auto" else int(rounds_per_job),
            observe=progress,
            say=say,
        )
    _audit_and_exit(result, quiet=quiet, as_json=as_json)


@app.command(epilog="Example: roundtable resume runs/quickstart/20260131T120000Z")
def resume(folder: Folder, remote: Remote = None, quiet: Quiet = False, as_json: Json = False) -> None:
    """Resume a run that was interrupted; ends as if it had not been."""
    from pipelines.cli import verdict
    from pipelines.experiment.manifest import Manifest

    manifest = Manifest.read(folder)
    from pipelines.api import resume_store

    def say(text: str) -> None:
        INTERRUPTION.listen()
        progress.note(text)

    with reporter(_form(quiet=quiet, as_json=as_json), manifest.horizon) as progress:
        result = resume_store(folder, observe=progress, say=say)
    if not result.is_audited:
        _audit_and_exit(result, quiet=quiet, as_json=as_json)
    with result:
        print(verdict.finished_json(result) if as_json else verdict.finished_line(result))


def _audit_and_exit(result: Result, *, quiet: bool, as_json: bool) -> NoReturn:
    from pipelines.cli import verdict

    with result:
        report = result.audit()
        if as_json:
            print(verdict.verdict_json(result, report))
        else:
            if not quiet:
                verdict.print_runs(result)
                verdict.print_summary(result)
                verdict.print_findings(report)
            print(verdict.verdict_line(result, report))
        raise typer.Exit(BY_VERDICT[result.verdict])


@app.command(epilog="Example: roundtable audit runs/quickstart/latest")
def audit(folder: Folder, engine: Engine = None, remote: Remote = None) -> None:
    """Check every guarantee again, from the history alone."""
    from pipelines.cli import verdict
    from pipelines.store.folder import resume_hint

    with _opened(folder, engine) as result:
        if not result.reader.is_finished():
            print(
                f"unknown: the runs are not finished, round {result.reader.last_round():,} is the last so far; "
                f"history in {folder}; {resume_hint(folder)}"
            )
            raise typer.Exit(UNKNOWN)
        report = result.audit()
        verdict.print_guarantees(report)
        verdict.print_findings(report)
        print(verdict.verdict_line(result, report))
        raise typer.Exit(BY_VERDICT[result.verdict])


@app.command(
    epilog="Example: roundtable why runs/figure1/latest --run 0 --subscriber S1 --source P --seq 2",
)
def why(
    folder: Folder,
    run_id: RunId,
    subscriber: Annotated[
        str, typer.Option(metavar="NODE", help="Who got the publication, or should have.", show_default=False)
    ],
    source: Annotated[str, typer.Option(metavar="NODE", help="Who published it.", show_default=False)],
    seq: Annotated[int, typer.Option(metavar="Q", help="Its number at the publisher: source_seq.", show_default=False)],
    as_json: Json = False,
    engine: Engine = None,
    remote: Remote = None,
) -> None:
    """Tell the story of one publication for one subscriber: each hop, crash and resend, and what ended it."""
    from pipelines.why.story import json_line, print_story

    with _opened(folder, engine) as result:
        told = result.why(run_id, subscriber, source, seq)
    if as_json:
        print(json_line(told))
    else:
        print_story(told)


@app.command(epilog="Example: roundtable compare-node runs/single_crash/latest --run 0 --node B")
def compare_node(
    folder: Folder,
    run_id: RunId,
    node: Annotated[str, typer.Option(metavar="NODE", help="The node that crashed.", show_default=False)],
    form: RowFormat = "table",
    engine: Engine = None,
    remote: Remote = None,
) -> None:
    """Compare what a node held before each of its crashes, after the recovery and at the end, table by table.

    State is kept at commits; those nearest to these moments are compared, null is none. `run --commit-every 1` commits
    every round.
    """
    from pipelines.cli.rows import write_rows

    with _opened(folder, engine) as result:
        rows = result.compare_node(run_id, node).toArrow()
    write_rows(rows, form, sys.stdout)
    if not rows.num_rows:
        complain(f"nothing to compare: {node} did not crash in run {run_id}; view node_recovery has the crashes")
    elif rows["before_round"].null_count:
        complain("no commit lies before a crash: run with --commit-every 1 to have one after every round")


@app.command(epilog="Example: roundtable sql runs/quickstart/latest 'SELECT * FROM run_summary'")
def sql(
    folder: Folder,
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="One SELECT; SHOW TABLES lists the names.", show_default=False)
    ],
    form: RowFormat = "table",
    as_of_round: Annotated[
        int | None, typer.Option(metavar="R", help="What was so at the end of round R.", show_default=False)
    ] = None,
    engine: Engine = None,
    remote: Remote = None,
) -> None:
    """Answer a SQL query over the tables and views of a store."""
    from pipelines.cli.rows import MAX_SHOWN, write_rows
    from pipelines.sql.errors import readable_errors

    with _opened(folder, engine) as result, readable_errors():
        answer = result.sql(statement, as_of_round)
        rows = (answer.limit(MAX_SHOWN + 1) if form == "table" else answer).toArrow()
    write_rows(rows.slice(0, MAX_SHOWN) if form == "table" else rows, form, sys.stdout)
    if form == "table" and rows.num_rows > MAX_SHOWN:
        complain(f"the first {MAX_SHOWN:,} rows are shown; --format csv and --format json give all")


@app.command(epilog="Example: roundtable export runs/bank/latest --run 0 > run0.jsonl")
def export(
    folder: Folder,
    run_id: RunId,
    engine: Engine = None,
) -> None:
    """Print a run as a history of operations: index, type, process, f, value and time, a JSON object a line."""
    from pipelines.experiment.manifest import Manifest
    from pipelines.sql.jepsen_history import jepsen_history

    round_ms = Manifest.read(folder).prepared().scenario.time.round_ms
    with _opened(folder, engine) as result:
        for entry in jepsen_history(result.reader, run_id, round_ms):
            print(json.dumps(entry, ensure_ascii=False))


def _opened(folder: Path, engine: Any) -> Result:  # noqa: ANN401 - one of ENGINES
    from pipelines.api import open_store

    result = open_store(folder, engine=engine)
    INTERRUPTION.listen()
    return result


def _form(*, quiet: bool, as_json: bool) -> Form:
    if as_json:
        return Form.JSON
    if quiet:
        return Form.NONE
    return Form.BAR if sys.stderr.isatty() else Form.LINES
