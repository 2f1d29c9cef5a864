"""The command ``roundtable hunt``, which searches for fault schedules that break a guarantee."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.ends import INVALID, UNKNOWN, VALID, complain
from pipelines.cli.options import Engine, File, Json, Overrides, Parsed, Quiet, Remote, choice, flag, option, rounds_of
from pipelines.cli.printing import print_lines, print_table
from pipelines.errors import plural

if TYPE_CHECKING:
    from pipelines.hunting import Hunt

_STRATEGIES = ("guided", "aimed", "exhaustive", "random")
PAGE = "hunt.html"


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
        str,
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
    chosen: Any = {"engine": engine, "strategy": strategy}

    def say(text: str) -> None:
        if not quiet:
            print(json.dumps({"event": "note", "text": text}, ensure_ascii=False)) if as_json else complain(text)

    observe = (lambda _: None) if quiet else _observer(runs, as_json=as_json)
    found = searched(
        file, runs, minutes, within_bound, corpus, seed=seed, excused=fail_on is not None, crashes=crashes,
        window=window, until_found=until_found, overrides=overrides or (), observe=observe, say=say, **chosen,
    )  # fmt: skip
    if found.n_played:
        Corpus(corpus).write(PAGE, page(found))
    if as_json:
        print(_as_json(found))
    else:
        _print(found, corpus)
    if found.findings or found.broken_again:
        raise typer.Exit(INVALID)
    is_tested = found.n_decided or (not runs and found.n_replayed)
    raise typer.Exit(VALID if is_tested else UNKNOWN)


def _observer(most: int, *, as_json: bool) -> Callable[[Hunt], None]:
    """Returns a callback that prints a progress line after each job.

    On a terminal, each line replaces the previous line.
    """
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


def _as_json(found: Hunt) -> str:
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


def _print(found: Hunt, corpus: Path | None) -> None:
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
