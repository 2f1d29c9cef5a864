"""The commands of ``roundtable`` and their options."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from pipelines.cli import queries, testers
from pipelines.cli.ends import BY_VERDICT, INVALID, VALID, WRONG_INPUT, Commands, complain
from pipelines.cli.listing import GROUPS, print_checks, print_groups
from pipelines.cli.options import (
    AsJson,
    Engine,
    FailOn,
    File,
    Folder,
    Form,
    Json,
    NewStore,
    Output,
    Overrides,
    Quiet,
    Remote,
    RowFormat,
    Stores,
    argument,
    check_server,
    flag,
    is_written,
    one_of,
    opened_output,
    option,
    reporter_of,
    rounds_of_a_job,
)
from pipelines.cli.printing import print_lines
from pipelines.engines.names import engine_for
from pipelines.errors import ScenarioError

if TYPE_CHECKING:
    from pipelines.result import Result

app = typer.Typer(
    cls=Commands, add_completion=True, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run publish/subscribe protocols on Spark, and check their guarantees.",
    epilog="Exit codes: 0 valid; 1 broken; 2 undecided; 64 bad input; 70 internal error.",
)  # fmt: skip


@app.callback(invoke_without_command=True)
def top(context: typer.Context, show_version: Annotated[bool, flag("Show the version.", "--version")] = False) -> None:
    """Run publish/subscribe protocols on Spark, and check their guarantees."""
    if show_version:
        print(f"roundtable {version('roundtable-pubsub')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", epilog="Example: roundtable list protocols")
def list_(
    group: Annotated[
        str | None,
        argument(
            "|".join(GROUPS), "Group to list.  \\[default: all]", **one_of(tuple(GROUPS)),
        ),
    ] = None,
    form: RowFormat = "table", as_json: AsJson = False, output: Output = None,
) -> None:  # fmt: skip
    """List protocols, audits, scenarios, overlays, calls and faults."""
    with opened_output(output) as out:
        print_groups(tuple(GROUPS) if group is None else (group,), "json" if as_json else form, out)


@app.command(epilog="Example: roundtable schema > scenario.schema.json")
def schema() -> None:
    """Print the JSON Schema of scenario files.

    The schema includes the protocols of all installed packages.
    """
    from pipelines.scenario.shape import schema_text

    print(schema_text(), end="")


@app.command(epilog="Example: roundtable doctor --json")
def doctor(form: RowFormat = "table", as_json: AsJson = False, output: Output = None) -> None:
    """Check this machine, and execute a small run.

    Checks Python, Java, the engines, Spark's jars, memory and disk. ! marks a warning: a failed check of a component
    that only some runs need. Exit code 1: the check of a component that every run needs has failed.
    """
    with opened_output(output) as out:
        is_well = print_checks("json" if as_json else form, out)
    raise typer.Exit(VALID if is_well else INVALID)


@app.command(epilog="Example: roundtable runs runs/quickstart")
def runs(
    folder: Stores = "runs", form: RowFormat = "table", as_json: AsJson = False, output: Output = None,
    removes: Annotated[
        bool, flag("Remove the store, or all stores in the folder, after a confirmation.", "--remove")
    ] = False,
    is_sure: Annotated[bool, flag("With --remove: do not ask for confirmation.", "--yes")] = False,
) -> None:  # fmt: skip
    """List stores with their verdicts, or remove them."""
    from pipelines.cli.printing import write_rows
    from pipelines.cli.stores import remove_stores, store_rows

    if removes:
        remove_stores(folder, is_sure=is_sure)
        return
    rows = store_rows(folder)
    with opened_output(output) as out:
        write_rows(rows, "json" if as_json else form, out, n_keys=1)


@app.command(epilog="Example: roundtable init mine.yaml --overlay net.graphml")
def init(
    file: Annotated[Path, argument("FILE", "Scenario file to write.")] = Path("scenario.yaml"),
    overlay: Annotated[Path | None, option("FILE", "Your overlay: GraphML, an edge list, ...")] = None,
    subscriptions: Annotated[Path | None, option("FILE", "Your subscriptions: CSV, JSON lines, Parquet.")] = None,
    publications: Annotated[Path | None, option("FILE", "Your publications: CSV, JSON lines, Parquet, PADRES.")] = None,
) -> None:
    """Write a commented scenario for your overlay and workload."""
    from pipelines.cli.template import write_scenario  # imports the inputs and all protocols

    write_scenario(file, overlay, subscriptions, publications)


@app.command(epilog="Example: roundtable validate conf/scenarios/*.yaml")
def validate(
    files: Annotated[list[Path], argument("FILE...", "Scenario files.")],
) -> None:
    """Show all errors of scenario files; write nothing."""
    from pipelines.errors import plural
    from pipelines.experiment.plan import check, notes
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
            for part, note in notes(prepared):
                print_lines(f"{file}: {part}: {note}", indent=2)
    raise typer.Exit(code)


@app.command(epilog="Example: roundtable plan conf/scenarios/quickstart.yaml")
def plan(
    file: File,
    overrides: Overrides = None,
    engine: Engine = None,
    form: Form = None,
    verbose: Annotated[bool, flag("Also show engine settings and tables.", "--verbose", "-v")] = False,
    as_json: Annotated[bool, flag("Print one JSON object, with settings and tables.", "--json")] = False,
) -> None:
    """Show the runs, costs and tables of a scenario; write nothing."""
    from pipelines.cli.planning import plan_json, print_plan
    from pipelines.experiment.prepared import prepare

    prepared = prepare(file, overrides or ())
    runs_on = engine_for(engine, prepared.scenario.engine)
    if as_json:
        print(plan_json(prepared, runs_on, prepared.form(form)))
    else:
        print_plan(prepared, runs_on, prepared.form(form), is_verbose=verbose)


@app.command(epilog="Example: roundtable run conf/scenarios/quickstart.yaml --store runs/demo --set protocol.delta=2")
def run(
    file: File, store: NewStore = None, engine: Engine = None, remote: Remote = None, overrides: Overrides = None,
    form: Form = None,
    commit_every: Annotated[
        int | None,
        option(
            "K",
            "Rounds between commits.  \\[default: 20 for dataflow, 200 for programs, 500 for programs with 16 or more "
            "runs]", min=1,
        ),
    ] = None,
    rounds_per_job: Annotated[
        str,
        option(
            "auto|N", "Maximum rounds per job (dataflow: 1). Does not change results.", callback=rounds_of_a_job,
        ),
    ] = "auto",
    batch_runs: Annotated[
        int | None, option("N", "Maximum runs per batch.  \\[default: as many as fit into memory]", min=1)
    ] = None,
    fail_on: FailOn = None,
    has_report: Annotated[bool, flag("Also write DIR/report.html.", "--report")] = False,
    quiet: Quiet = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Run a scenario, store its history, check every guarantee."""
    from pipelines.experiment.prepared import prepare

    prepared = prepare(file, overrides or ())
    from pipelines.api import run_prepared  # imports PySpark (1 s), so the scenario is checked first

    with reporter_of(quiet=quiet, as_json=as_json)(prepared.horizon) as progress:
        result = run_prepared(
            prepared, store=store, commit_every=commit_every, batch_runs=batch_runs,
            rounds_per_job=None if rounds_per_job == "auto" else int(rounds_per_job), observe=progress,
            say=progress.note, engine=engine, form=form,
        )  # fmt: skip
    _audit_and_exit(result, fail_on, has_report=has_report, quiet=quiet, as_json=as_json)


@app.command(epilog="Example: roundtable resume runs/quickstart/20260131T120000Z")
def resume(
    context: typer.Context, folder: Folder, remote: Remote = None, fail_on: FailOn = None, quiet: Quiet = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Resume an interrupted run after its last complete round."""
    from pipelines.cli import verdict
    from pipelines.experiment.manifest import Manifest

    manifest = Manifest.read(folder)
    if is_written(context, "remote"):
        check_server(manifest.engine)
    from pipelines.api import resume_store

    with reporter_of(quiet=quiet, as_json=as_json)(manifest.horizon) as progress:
        result = resume_store(folder, observe=progress, say=progress.note)
    if not result.is_audited or fail_on:
        _audit_and_exit(result, fail_on, quiet=quiet, as_json=as_json)
    with result:
        verdict.print_finished(result, as_json=as_json)
        raise typer.Exit(BY_VERDICT[result.verdict])


def _audit_and_exit(
    result: Result, fail_on: list[str] | None, *, quiet: bool, as_json: bool, has_report: bool = False
) -> NoReturn:
    from pipelines.cli import verdict
    from pipelines.sql.query import suited_to

    with result, suited_to(result.reader):
        try:
            report = result.audit()
        except BaseException as error:
            error.add_note(f"the runs are finished; to check them: roundtable audit {shlex.quote(str(result.store))}")
            raise
        failed = verdict.failures(result, report, fail_on or ())
        if has_report:
            result.report()
        if as_json:
            lines = () if quiet else verdict.run_lines(result)
            print(*lines, verdict.verdict_json(result, report, failed), sep="\n")
        else:
            if not quiet:
                verdict.print_runs(result)
                verdict.print_summary(result)
                verdict.print_findings(result, report)
                verdict.print_question(result)
                if has_report:
                    print(f"report: {result.store / 'report.html'}")
            print_lines(verdict.verdict_line(result, report, failed))
        raise typer.Exit(INVALID if failed else BY_VERDICT[result.verdict])


_EXAMPLES: Mapping[Callable[..., None], str] = {
    testers.compare: 'compare quickstart --want "exactly_once, p95 < 500 ms"',
    queries.audit: "audit runs/quickstart/latest",
    queries.why: "why runs/figure1/latest --subscriber S1 --source P --seq 2",
    queries.compare_node: "compare-node runs/single_crash/latest --node B",
    queries.sql: "sql runs/quickstart/latest 'SELECT * FROM run_summary'",
    queries.export: "export runs/bank/latest -o run0.jsonl",
    queries.report: "report runs/quickstart/latest --run 0 --out run0.html",
    queries.plot: "plot runs/delta_study/latest --x quantile --y latency_rounds --colour protocol_delta -o latency.pdf",
    testers.extract: "extract runs/crash_sweep/latest --run 17 -o run17.yaml",
    testers.shrink: "shrink runs/crash_sweep/latest --run 17 -o small.yaml",
    testers.diff: "diff runs/small/latest runs/small/latest --run 0 --other-run 1",
    testers.hunt: "hunt conf/scenarios/figure5.yaml --runs 500 --corpus corpus",
}
"""The commands of other modules, each with an example for its help."""
for command, example in _EXAMPLES.items():
    app.command(epilog=f"Example: roundtable {example}")(command)
