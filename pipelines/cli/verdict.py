"""What a run or an audit found, in words: the runs, the broken guarantees, the verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipelines.cli.rows import plain, print_table
from pipelines.errors import plural
from pipelines.sql.errors import readable_errors

if TYPE_CHECKING:
    from pipelines.audits.run import AuditReport, Finding, Shown
    from pipelines.result import Result, RunRow

MAX_RUNS = 20
MAX_BEYOND = 5
_SUMMARY = """
select run_id, n_publications, n_deliveries, n_messages, latency_rounds_median, latency_rounds_max,
  confirmation_rounds_median, confirmation_rounds_max
from run_summary where run_id <= {last} order by run_id
"""
_MEASURES = {
    "delivery_ratio": "delivery ratio",
    "latency_rounds_median": "latency",
    "latency_rounds_p95": "95 %",
    "messages_per_delivery": "messages per delivery",
    "confirmation_rounds_median": "confirmed after",
}
_NAMES = ("publications", "deliveries", "messages", "latency", "max", "confirmed after", "max")


def print_runs(result: Result) -> None:
    """Prints a table of the first runs: what was varied, what it cost, how it ended; durations in rounds."""
    first = result.runs[:MAX_RUNS]
    if not first:
        return
    with readable_errors():
        measured = {row[0]: row[1:] for row in result.sql(_SUMMARY.format(last=first[-1].run_id)).collect()}
    varied = _varied(result)
    rows = [
        (run.run_id, run.seed, *(run.parameters.get(key) for key in varied), *measured[run.run_id], _end(run))
        for run in first
    ]
    print_table(
        ("run", "seed", *varied, *_NAMES, "verdict"),
        [["-" if value is None else plain(value) for value in row] for row in rows],
        [True, True, *(False for _ in varied), *(True for _ in _NAMES), False],
    )
    if len(result.runs) > MAX_RUNS:
        print(f"... and {len(result.runs) - MAX_RUNS:,} more: see view run_summary")
    print()


def print_summary(result: Result) -> None:
    """Prints the means over the seeds with their 95 % confidence intervals, where a combination has several runs."""
    combinations: dict[str, list[RunRow]] = {}
    for run in result.runs:
        combinations.setdefault(json.dumps(run.parameters, sort_keys=True), []).append(run)
    if len(combinations) == len(result.runs):
        return
    measures = ", ".join(f"'{name}'" for name in _MEASURES)
    text = f"select run_id, measure, mean, ci_high - mean as half from result_summary where measure in ({measures})"  # noqa: S608 - built of constants
    with readable_errors():
        found = {(row.run_id, row.measure): (row.mean, row.half) for row in result.sql(text).collect()}
    varied = _varied(result)
    rows = [
        (*(runs[0].parameters.get(key) for key in varied), len(runs), sum(run.verdict == "valid" for run in runs),
         *(_mean(*found.get((runs[0].run_id, name), (None, None))) for name in _MEASURES))
        for runs in islice(combinations.values(), MAX_RUNS)
    ]  # fmt: skip
    names = (*varied, "runs", "valid", *_MEASURES.values())
    print_table(names, rows, [*(False for _ in varied), *(True for _ in names[len(varied) :])])
    if len(combinations) > MAX_RUNS:
        print(f"... and {len(combinations) - MAX_RUNS:,} more combinations: see view result_summary")
    print()


def _varied(result: Result) -> list[str]:
    """Returns the parameters that differ between the runs."""
    seen: dict[str, set[str]] = {}
    for run in result.runs:
        for key, value in run.parameters.items():
            seen.setdefault(key, set()).add(json.dumps(value))
    return [key for key in result.runs[0].parameters if len(seen[key]) > 1] if result.runs else []


def _mean(mean: float | None, half: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.3g}" if half is None else f"{mean:.3g} ± {half:.2g}"


def print_findings(report: AuditReport) -> None:
    """Prints what is wrong, a guarantee at a time, then what is excused; nothing where all hold."""
    for finding in report.findings:
        if finding.error is not None:
            print(f"{finding.name} could not be checked: {_first_line(finding.error)}")
        elif finding.n_violations:
            print(f"{finding.name} is broken {_times(finding.n_violations)}: {finding.summary}")
            _print_stories(finding.shown, finding.n_violations)
    for finding in report.findings:
        if finding.n_excused:
            times = _times(finding.n_excused)
            print(f"{finding.name} did not hold {times} beyond the bound, which is excused: {finding.summary}")
            _print_stories(finding.shown_excused, finding.n_excused)
    _print_beyond(report)


def _print_stories(shown: Sequence[Shown], number: int) -> None:
    for violation in shown:
        print(f"  {_story(violation)}")
    if number > len(shown):
        print(f"  ... and {number - len(shown):,} more: see table violation")


def _print_beyond(report: AuditReport) -> None:
    for run in report.beyond[:MAX_BEYOND]:
        print(f"run {run.run_id} went beyond the bound in round {run.round}: {run.reason}")
    if len(report.beyond) > MAX_BEYOND:
        print(f"... and {len(report.beyond) - MAX_BEYOND:,} more runs beyond the bound: see run.within_bound")
    for undecided in report.undecided[:MAX_BEYOND]:
        print(f"run {undecided.run_id} cannot be judged: {undecided.reason}")
    if len(report.undecided) > MAX_BEYOND:
        print(f"... and {len(report.undecided) - MAX_BEYOND:,} more reasons why runs cannot be judged")


def print_guarantees(report: AuditReport) -> None:
    """Prints one line a guarantee: whether it holds."""
    rows = [(finding.name, _state(finding), finding.summary) for finding in report.findings]
    print_table(("guarantee", "result", "says"), rows, (False, False, False))
    print()


def verdict_line(result: Result, report: AuditReport) -> str:
    """Returns the verdict of all runs in a sentence."""
    number = Counter(run.verdict for run in result.runs)
    runs = plural(len(result.runs), "run")
    if result.verdict == "invalid":
        broken = ", ".join(f"{name} {_times(count)}" for name, count in violations(report).items() if count)
        text = f"{number['invalid']:,} of {runs} broke a guarantee ({broken})"
    elif result.verdict == "unknown":
        failed = [finding.name for finding in report.findings if finding.error is not None]
        ended = "the horizon came too early" if report.undecided else "messages were in flight at the horizon"
        why = f"no audit of {', '.join(failed)}" if failed else ended
        text = f"{number['unknown']:,} of {runs} not decided: {why}"
    else:
        text = f"{runs}, all guarantees hold"
    return f"{result.verdict}: {text}{_excused(report)}; history in {result.store}"


def verdict_json(result: Result, report: AuditReport) -> str:
    """Returns the verdict of all runs as one JSON object."""
    number = Counter(run.verdict for run in result.runs)
    event = {
        "event": "verdict",
        "verdict": result.verdict,
        "runs": {verdict: number[verdict] for verdict in ("valid", "invalid", "unknown")},
        "violations": violations(report),
        "runs_beyond_bound": len(report.beyond),
        "excused": {finding.name: finding.n_excused for finding in report.findings},
        "store": str(result.store),
    }
    return json.dumps(event, ensure_ascii=False)


def finished_line(result: Result) -> str:
    """Returns that there was nothing to resume, in a sentence."""
    runs, were = plural(len(result.runs), "run"), "was" if len(result.runs) == 1 else "were"
    end = f"ended in round {result.reader.last_round():,} and {were} found {result.verdict}"
    return f"finished: {runs} {end}; history in {result.store}"


def finished_json(result: Result) -> str:
    """Returns that there was nothing to resume, as one JSON object."""
    event = {"event": "finished", "verdict": result.verdict, "store": str(result.store)}
    return json.dumps(event, ensure_ascii=False)


def violations(report: AuditReport) -> dict[str, int | None]:
    """Returns how often each guarantee is broken, without an excuse; None where it could not be checked."""
    return {finding.name: finding.n_violations for finding in report.findings}


def _excused(report: AuditReport) -> str:
    """Returns how many runs went beyond the bound, and what that excuses."""
    if not report.beyond:
        return ""
    broken = ", ".join(f"{f.name} {_times(f.n_excused)}" for f in report.findings if f.n_excused)
    number = len(report.beyond)
    return f"; {plural(number, 'run')} beyond the bound {f'excused ({broken})' if broken else 'broke none'}"


def _end(run: RunRow) -> str:
    return run.verdict if run.within_bound is not False else f"{run.verdict}, beyond the bound"


def _state(finding: Finding) -> str:
    if finding.n_violations is None:
        return "not checked"
    state = f"broken {_times(finding.n_violations)}" if finding.n_violations else "holds"
    return f"{state}, excused {_times(finding.n_excused)}" if finding.n_excused else state


def _story(violation: Shown) -> str:
    parts: Sequence[tuple[str, Any]] = (
        ("run", violation.run_id), ("round", violation.round), ("node", violation.node),
        ("source", violation.source), ("seq", violation.source_seq),
    )  # fmt: skip
    return f"{', '.join(f'{name} {value}' for name, value in parts if value is not None)}: {violation.detail}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:300]
