"""Commands for testers: compare protocols, hunt for faults, extract and shrink a run, and compare two runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.ends import INVALID, UNKNOWN, VALID, complain
from pipelines.cli.options import (
    Chosen,
    Engine,
    File,
    FirstStore,
    Folder,
    Json,
    NewStore,
    Output,
    Overrides,
    Parsed,
    Quiet,
    Remote,
    SecondStore,
    SomeRunId,
    choice,
    flag,
    opened_output,
    opened_store,
    option,
    reporter_of,
    rounds_of,
    the_run,
)
from pipelines.cli.printing import print_lines, print_table
from pipelines.errors import StoreError, plural

if TYPE_CHECKING:
    from pipelines.comparing.compare import Comparison, Ranked
    from pipelines.hunting import Hunt
    from pipelines.sql.differences import Difference

_STRATEGIES = ("guided", "aimed", "exhaustive", "random")
PAGE = "hunt.html"


def compare(
    file: File,
    want: Annotated[
        str, option("WANTS", "Required guarantees and limits of measures, separated by commas.")
    ] = "exactly_once, per_source_order",
    minimise: Annotated[
        str,
        option("MEASURE", "Measure that breaks ties between candidates that violate equally many WANTS: messages, ..."),
    ] = "messages",
    store: NewStore = None, engine: Engine = None, remote: Remote = None, overrides: Overrides = None,
    quiet: Quiet = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Rank protocols on a scenario by the guarantees they break.

    All protocols have the same overlay, workload and faults. Guarantees: at_most_once, at_least_once, exactly_once,
    per_source_order, causal_order, total_order, asked_order (causal or total order where a publication requests it).
    Measures in ms, s or rounds: median, p95, p99 and max of the latency; settling, the time from the first fault to the
    last affected delivery. Other measures: delivered (in %), messages and bytes per delivery, state (rows per node),
    storage (bytes per node), duplicates, and each numeric column of view comparison. Beyond the bound: the faults
    exceed the protocol's fault model. Exit code 1: no candidate meets all requirements in all runs.
    """
    from pipelines.experiment.prepared import prepare

    prepared = prepare(file, overrides or ())
    # The import loads PySpark (1 s), so the scenario is checked first.
    from pipelines.comparing.compare import compare as compared

    with reporter_of(quiet=quiet, as_json=as_json)(prepared.horizon) as progress:
        found = compared(prepared, want, minimise, store=store, engine=engine, observe=progress, say=progress.note)
    if as_json:
        print(*_ranking_lines(found), sep="\n")
    else:
        _print_ranking(found)
    raise typer.Exit(VALID if found.ranked[0].keeps_all else INVALID)


def _ranking_lines(found: Comparison) -> list[str]:
    lines: list[dict[str, Any]] = [
        {
            "rank": rank, "protocol": one.protocol, "settings": one.settings, "n_runs": one.n_runs,
            "n_as_wanted": one.n_as_wanted, "n_beyond": one.n_beyond, "broken": one.broken, found.measure: one.measure,
        }
        for rank, one in enumerate(found.ranked, 1)
    ]  # fmt: skip
    lines += [{"protocol": name, "refused": why} for name, why in found.refused.items()]
    return [json.dumps(line, ensure_ascii=False) for line in lines]


def _print_ranking(found: Comparison) -> None:
    names = ("rank", "protocol", "as wanted", found.measure, "breaks")
    rows = [
        (rank, _label(one), f"{one.n_as_wanted} of {one.n_runs}", one.measure, _breaks(one))
        for rank, one in enumerate(found.ranked, 1)
    ]
    print_table(names, rows, (True, False, False, True, False), n_keys=2)
    for name, why in found.refused.items():
        print_lines(f"not compared: {name}: {why}")
    print(f"store: {found.store}", file=sys.stderr)


def _label(one: Ranked) -> str:
    return " ".join([one.protocol, *(f"{name}={value}" for name, value in one.settings.items())])


def _breaks(one: Ranked) -> str:
    broken = [f"{text} in {number}" for text, number in one.broken.items()]
    beyond = [f"({one.n_beyond} beyond the bound)"] if one.n_beyond and broken else []
    return " ".join([", ".join(broken), *beyond])


def hunt(
    file: File,
    runs: Annotated[int, option("N", "Number of schedules to execute; 0 only replays the corpus.", min=0)] = 1_000,
    minutes: Annotated[float | None, option("M", "Stop after M minutes.", min=0.0)] = None,
    within_bound: Annotated[
        bool, flag("Prefer schedules within the fault model; add no faults to schedules beyond it.", "--within-bound")
    ] = False,
    corpus: Annotated[
        Path | None, option("DIR", "Folder for findings, written as scenarios; stored scenarios are replayed first.")
    ] = None,
    strategy: Annotated[
        Chosen,
        choice(
            _STRATEGIES,
            "aimed: faults at one message of a run; guided: aimed, and extends schedules with new coverage; "
            "exhaustive: all schedules of K crashes or fewer; random: baseline.",
        ),
    ] = "guided",
    seed: Annotated[int, option("S", "Seed of random choices.", min=0)] = 0,
    crashes: Annotated[int, option("K", "exhaustive: maximum number of crashes of a schedule.", min=1, max=4)] = 2,
    window: Annotated[
        Parsed,
        option(
            "A:B", "exhaustive: first and last round of crashes.  \\[default: all rounds with messages]",
            parser=rounds_of,
        ),
    ] = None,
    until_found: Annotated[bool, flag("Stop after the first job with a finding.", "--until-found")] = False,
    fail_on: Annotated[str | None, choice(("excused",), "Count excused violations as findings.")] = None,
    engine: Engine = None, remote: Remote = None, overrides: Overrides = None, quiet: Quiet = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Search for fault schedules that break a guarantee.

    The command first executes the runs of the scenario without changes. Messages of a run are grouped by their type and
    by the protocol status of their receiver. A schedule targets the first, middle or last message of a group. In the
    round of this message, or in an adjacent round, the sender or receiver crashes, pauses or recovers; or the message
    is lost, duplicated or delayed. If a schedule increases the coverage, the command adds further faults to it. Each
    finding is shrunk, named by its cause and stored in the corpus; a page in the corpus shows the coverage. Exit codes:
    0: no guarantee is broken; 1: a schedule or a scenario of the corpus breaks a guarantee; 2: no guarantee is broken,
    but no schedule within the fault model of the protocol has a verdict.
    """
    from pipelines.experiment.prepared import prepare

    prepare(file, overrides or ())
    from pipelines.hunting import hunt as searched  # imports PySpark (1 s), so the scenario is checked first
    from pipelines.hunting.findings import Corpus, page

    if window and window[1] is None:
        raise typer.BadParameter("--window has no last round; write A:B, e.g. 20:40")

    def say(text: str) -> None:
        if not quiet:
            print(json.dumps({"event": "note", "text": text}, ensure_ascii=False)) if as_json else complain(text)

    observe = (lambda _: None) if quiet else _observer(runs, as_json=as_json)
    found = searched(
        file, runs, minutes, within_bound, corpus, seed=seed, excused=fail_on is not None, crashes=crashes,
        window=window, until_found=until_found, overrides=overrides or (), observe=observe, say=say, engine=engine,
        strategy=strategy,
    )  # fmt: skip
    if found.n_played:
        Corpus(corpus).write(PAGE, page(found))
    if as_json:
        print(_hunt_json(found))
    else:
        _print_hunt(found, corpus)
    if found.findings or found.broken_again:
        raise typer.Exit(INVALID)
    is_tested = found.n_decided or (not runs and found.n_replayed)
    raise typer.Exit(VALID if is_tested else UNKNOWN)


def _observer(most: int, *, as_json: bool) -> Callable[[Hunt], None]:
    """Returns a callback that prints a progress line after each job; on a terminal it replaces the last line."""
    is_bar = sys.stderr.isatty() and not as_json

    def observe(standing: Hunt) -> None:
        rate = standing.n_played / max(standing.seconds, 1e-9)
        if as_json:
            event = {"event": "hunt", "n_played": standing.n_played, "per_second": round(rate, 1)}
            told = {"n_features": standing.n_features, "findings": dict(standing.n_findings)}
            print(json.dumps({**event, **told}), flush=True)
            return
        findings = ", ".join(f"{name} {number}" for name, number in standing.n_findings.items()) or "none"
        text = (
            f"{standing.n_played:,} of {most:,} schedules, {rate:,.0f} a second, "
            f"{standing.n_features:,} features, findings: {findings}"
        )
        print(f"\r\x1b[K{text}" if is_bar else text, end="" if is_bar else "\n", file=sys.stderr, flush=True)
        if is_bar and standing.n_played >= most:
            print(file=sys.stderr)

    return observe


def _hunt_json(found: Hunt) -> str:
    findings = [
        {
            "guarantee": one.guarantee, "cause": one.cause, "aims": list(one.aims), "found_by_schedule": one.n_played,
            "n_schedules": one.n_schedules, "sizes": one.sizes, "file": None if one.file is None else str(one.file),
            "scenario": one.scenario,
        }
        for one in found.findings
    ]  # fmt: skip
    event = {
        "event": "found", "protocol": found.protocol, "strategy": found.strategy, "n_played": found.n_played,
        "n_beyond": found.n_beyond, "n_decided": found.n_decided, "n_undecided": found.n_undecided,
        "n_refused": found.n_refused, "n_replayed": found.n_replayed, "n_features": found.n_features,
        "kinds_not_sent": found.unreached, "failed_audits": dict(found.failed_audits),
        "broken_again": {str(path): list(names) for path, names in found.broken_again.items()}, "findings": findings,
    }  # fmt: skip
    return json.dumps(event, ensure_ascii=False)


def _print_hunt(found: Hunt, corpus: Path | None) -> None:
    rows = [
        (one.guarantee, one.cause, f"{one.n_played:,}", f"{one.n_schedules:,}", one.sizes,
         "-" if one.file is None else str(one.file))
        for one in found.findings
    ]  # fmt: skip
    if rows:
        names = ("guarantee", "cause", "found by", "schedules", "smallest scenario", "file")
        print_table(names, rows, (False, False, True, True, False, False), n_keys=1)
        print()
    for path, guarantees in found.broken_again.items():
        print_lines(f"still broken: {path} breaks {', '.join(guarantees)}")
    for name, error in found.failed_audits.items():
        print_lines(f"not checked: audit {name} failed: {error}")
    if found.n_played:
        print_lines(f"message kinds that no run sent: {', '.join(found.unreached) or 'none'}")
    if corpus is not None and (corpus / PAGE).exists():
        print_lines(f"coverage: {corpus / PAGE}")
    counts = [
        plural(found.n_played, "schedule"), f"{found.n_beyond:,} beyond the bound",
        f"{found.n_undecided:,} not decided", *([f"{found.n_refused:,} more refused"] if found.n_refused else []),
        plural(found.n_features, "feature"),
        *([f"{plural(found.n_replayed, 'finding')} replayed, {len(found.broken_again)} still broken"]
          if found.n_replayed else []),
    ]  # fmt: skip
    print_lines(f"{plural(len(found.findings), 'finding')}: {', '.join(counts)}")


def extract(folder: Folder, run_id: SomeRunId = None, output: Output = None) -> None:
    """Write a scenario that repeats one run of a store.

    The scenario lists the overlay, the calls and the faults of the run, without generators and input files. Running it
    reproduces the rows of the run.
    """
    from pipelines.experiment.listed import extracted
    from pipelines.experiment.manifest import Manifest
    from pipelines.scenario.yaml_text import scenario_text

    _check_new(output)
    run_id = the_run(Manifest.read(folder).prepared().runs, run_id)
    parts = extracted(folder, run_id)
    _write(output, scenario_text(parts, [f"Run {run_id} of {folder}, with its overlay, calls and faults as lists."]))


def shrink(
    folder: Folder, run_id: SomeRunId = None, output: Output = None,
    guarantee: Annotated[
        str | None, option("NAME", "Guarantee that the scenario must break.  \\[default: the first broken guarantee]")
    ] = None,
    engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Write the smallest scenario found that breaks a guarantee.

    Removes faults, calls and nodes of the run by delta debugging. One job executes up to 64 candidate scenarios as its
    runs. The result is minimal: if any single fault, call or node is removed from it, the guarantee holds.
    """
    from pipelines.experiment.manifest import Manifest
    from pipelines.hunting.shrink import shrink as shrunk_run
    from pipelines.scenario.yaml_text import scenario_text

    _check_new(output)
    run_id = the_run(Manifest.read(folder).prepared().runs, run_id)
    with opened_store(folder, engine) as result:
        found = shrunk_run(folder, run_id, result.session, guarantee, complain)
    excused = ", which is excused: the faults are beyond the bound" if found.is_excused else ""
    heading = [
        f"Run {run_id} of {folder}, shrunk to {found.sizes}; {found.n_played:,} candidates were executed.",
        f"It breaks {found.guarantee}{excused}.",
    ]
    _write(output, scenario_text(found.parts, heading))


def _check_new(output: Path | None) -> None:
    if output is not None and output.exists():
        raise StoreError(f"the file {str(output)!r} already exists; name a new file with -o")


def _write(output: Path | None, text: str) -> None:
    with opened_output(output) as out:
        out.write(text)
    if output is not None:
        complain(f"written to {output}; to run it: roundtable run {output}")


def diff(
    first: FirstStore, second: SecondStore,
    run_id: Annotated[int | None, option("R", "Run of A.  \\[default: all runs]", "--run")] = None,
    other_run: Annotated[int | None, option("S", "Run of B.  \\[default: R]")] = None,
    as_json: Json = False, engine: Engine = None, remote: Remote = None,
) -> None:  # fmt: skip
    """Show the first difference of two runs or two stores.

    Shows the earliest round, the table and the rows that differ. Exit code 1 if the runs differ.
    """
    from pipelines.result import Result
    from pipelines.sql.differences import different_parameters, first_difference
    from pipelines.sql.errors import readable_errors
    from pipelines.store.folder import check_store

    if other_run is not None and run_id is None:
        raise typer.BadParameter("--other-run is given without --run; name the run of A, too")
    runs = None if run_id is None else (run_id, run_id if other_run is None else other_run)
    with opened_store(first, engine) as mine:
        check_store(second)
        theirs = Result(second, mine.session)
        with readable_errors():
            given = {} if runs is None else different_parameters(mine.reader, theirs.reader, runs)
            found = first_difference(mine.reader, theirs.reader, runs)
    if as_json:
        told = {"difference": None if found is None else asdict(found), "parameters": given}
        print(json.dumps(told, ensure_ascii=False))
    else:
        print(difference_text(found, given))
    raise typer.Exit(VALID if found is None else INVALID)


def difference_text(found: Difference | None, given: Mapping[str, tuple[Any, Any]]) -> str:
    """Returns a description of ``found``, preceded by the parameters that differ between the two runs."""
    lines = [f"{path}: {json.dumps(mine)} in A, {json.dumps(theirs)} in B" for path, (mine, theirs) in given.items()]
    if found is None:
        return "\n".join([*lines, "no difference: the histories have the same rows"])
    when = "before the first round" if found.round is None else f"round {found.round}"
    lines.append(f"first difference: run {found.run_id}, {when}, table {found.table} {found.event}".rstrip())
    for side, rows in (("A", found.in_first), ("B", found.in_second)):
        lines += [f"  only in {side}: {_shown(row)}" for row in rows] or [f"  only in {side}: nothing"]
    counts = ", ".join(f"{table} {number:,}" for table, number in found.counts.items())
    return "\n".join([*lines, f"rows that differ from there on: {counts}"])


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in row.items() if value is not None)
