"""Prints and formats the results of runs: tables of runs and measures, violations, and the verdict.

A run is beyond the bound if its faults exceed the fault model of its protocol. Violations of these runs are excused
(module `audits.run`).
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipelines.cli.printing import plain, print_lines, print_table, unbroken
from pipelines.errors import plural
from pipelines.experiment.prepared import labelled
from pipelines.report.summary import varied
from pipelines.why.overview import why_command, why_options
from pipelines.why.story import publication_name

if TYPE_CHECKING:
    from pipelines.audits.run import AuditReport, Finding, ViolationRow
    from pipelines.result import Result, RunRow


MAX_RUNS = 20
MAX_BEYOND = 5
_BEYOND = "beyond the bound"
_EXPLAINED = (
    f"{_BEYOND}: the faults exceed the protocol's fault model,\n"
    "so violations are excused (--fail-on excused counts them as errors)"
)
_SUMMARY = """
select run_id, n_publications, n_deliveries, concat(n_wanted_delivered, '/', n_wanted) as wanted, n_messages,
  latency_rounds_median, latency_ms_median, latency_rounds_max, latency_ms_max,
  confirmation_rounds_median, confirmation_ms_median, confirmation_rounds_max, confirmation_ms_max
from run_summary where run_id <= {last} order by run_id
"""
_WANTED = """
select r.within_bound, count(w.delivery_round) as n_delivered, count(1) as n_wanted
from wanted_delivery w
join run r on r.run_id = w.run_id
group by r.within_bound
"""
_MISSING = """
select case when e.run_id is null then 'not requested' else coalesce(e.excuse, 'not guaranteed') end as excuse,
  count(1) as n
from wanted_delivery w
join run r on r.run_id = w.run_id and r.within_bound
left join receiver e on e.run_id = w.run_id and e.subscriber = w.subscriber and e.source = w.source
  and e.source_seq = w.source_seq
where w.delivery_round is null
group by case when e.run_id is null then 'not requested' else coalesce(e.excuse, 'not guaranteed') end
order by n desc, excuse
"""
_SEQS = """
select p.run_id, n.name, p.source_seq, row_number() over (partition by p.run_id, p.source order by p.source_seq) as seq
from publication p join node n on n.run_id = p.run_id and n.node_id = p.source
where p.run_id in ({runs})
"""
_MEASURES = {
    "delivery_ratio": "delivery ratio", "wanted_ratio": "delivered/wanted", "latency_rounds_median": "latency",
    "latency_rounds_p95": "95 %", "messages_per_delivery": "messages per delivery",
    "confirmation_rounds_median": "confirmed after",
}  # fmt: skip
"""The measures in the table of `print_summary`, with their headings."""
_UNMEASURED = (None, None, None)
_COUNTS = 4
_NAMES = (
    "publications", "deliveries", "delivered/wanted", "messages", "latency", "max latency", "confirmed after",
    "max confirmed",
)  # fmt: skip


def print_runs(result: Result) -> None:
    """Prints a table of the first `MAX_RUNS` runs.

    The columns are the parameters that differ between runs, counts, durations in rounds and ms, and the verdict.
    """
    first = result.runs[:MAX_RUNS]
    measured = {row[0]: _cells(row[1:]) for row in result.sql(_SUMMARY.format(last=first[-1].run_id)).collect()}
    differing = varied([run.parameters for run in result.runs])
    labels = labelled([run.parameters for run in result.runs])
    rows = [
        (run.run_id, run.seed, *(given.get(key) for key in differing), *measured[run.run_id],
         run.verdict if run.within_bound is not False else f"{run.verdict}, {_BEYOND}")
        for run, given in zip(first, labels, strict=False)
    ]  # fmt: skip
    names = ("run", "seed", *differing, *_NAMES, "verdict")
    cells = [["-" if value is None else plain(value) for value in row] for row in rows]
    print_table(names, cells, [True, True, *[False] * len(differing), *[True] * len(_NAMES), False], n_keys=1)
    if len(result.runs) > MAX_RUNS:
        print(f"... and {len(result.runs) - MAX_RUNS:,} more: see view run_summary")
    if any(run.within_bound is False for run in first):
        print(_EXPLAINED)
    print()


def _cells(measured: Sequence[Any]) -> list[str | int | None]:
    counts, durations = measured[:_COUNTS], measured[_COUNTS:]
    pairs = zip(durations[::2], durations[1::2], strict=True)
    return [*counts, *(None if rounds is None else f"{rounds}{_in_ms(ms)}" for rounds, ms in pairs)]


def _in_ms(ms: float | None) -> str:
    return "" if ms is None else f" ({ms:,.6g} ms)"


def print_summary(result: Result) -> None:
    """Prints the mean measures of each combination of parameters over its seeds, with 95 % confidence intervals.

    Prints nothing if each combination has one run.
    """
    combinations: dict[str, list[RunRow]] = {}
    for run in result.runs:
        combinations.setdefault(json.dumps(run.parameters, sort_keys=True), []).append(run)
    if len(combinations) == len(result.runs):
        return
    measures = ", ".join(f"'{one}'" for name in _MEASURES for one in {name, _ms_of(name)})
    text = f"select run_id, measure, mean, ci_low, ci_high from result_summary where measure in ({measures})"  # noqa: S608 - built of constants
    found = {(row.run_id, row.measure): row[2:] for row in result.sql(text).collect()}
    differing = varied([run.parameters for run in result.runs])
    labels = labelled([runs[0].parameters for runs in combinations.values()])
    rows = [
        (*(given.get(key) for key in differing), len(runs), sum(run.verdict == "valid" for run in runs),
         *(_measure(found, runs[0].run_id, name) for name in _MEASURES))
        for runs, given in islice(zip(combinations.values(), labels, strict=True), MAX_RUNS)
    ]  # fmt: skip
    names = (*differing, "runs", "valid", *_MEASURES.values())
    print_table(names, rows, [index >= len(differing) for index in range(len(names))], n_keys=len(differing))
    if len(combinations) > MAX_RUNS:
        print(f"... and {len(combinations) - MAX_RUNS:,} more combinations: see view result_summary")
    print()


def _ms_of(measure: str) -> str:
    return measure.replace("_rounds_", "_ms_")


def _measure(found: Mapping[tuple[int, str], Sequence[float | None]], run_id: int, name: str) -> str:
    ms = found.get((run_id, _ms_of(name)), _UNMEASURED)[0] if _ms_of(name) != name else None
    mean, low, high = found.get((run_id, name), _UNMEASURED)
    if mean is None:
        return "-"
    interval = "" if low is None or high is None or low == high else f" [{low:.3g}, {high:.3g}]"
    return f"{mean:.3g}{interval}{_in_ms(ms if ms is None else float(f'{ms:.3g}'))}"


def print_question(result: Result) -> None:
    """Prints the command that explains the missing wanted deliveries (view ``wanted_delivery``), if any are missing."""
    n_delivered, n_wanted = wanted(result)
    if n_delivered < n_wanted:
        missing = n_wanted - n_delivered
        number = "1 wanted delivery is" if missing == 1 else f"{missing:,} wanted deliveries are"
        command = unbroken(f"roundtable why {shlex.quote(str(result.store))}")
        print_lines(f"why {number} missing: {command}")


def print_findings(result: Result, report: AuditReport) -> None:
    """Prints the broken guarantees, the guarantees whose audit failed, and the excused violations.

    Then prints the runs beyond the bound, the undecided runs, and the untested runs, each with the reason.
    """
    for finding in report.findings:
        if finding.error is not None:
            print_lines(f"{finding.title} could not be checked: {finding.error.strip().partition(chr(10))[0][:300]}")
        elif finding.n_violations:
            print_lines(f"{finding.title} is broken {_times(finding.n_violations)}: {finding.summary}")
            _print_stories(result, finding.shown, finding.n_violations)
    for finding in report.findings:
        if finding.n_excused:
            times = _times(finding.n_excused)
            print_lines(f"{finding.title} did not hold {times} beyond the bound, which is excused: {finding.summary}")
            _print_stories(result, finding.shown_excused, finding.n_excused, n_commands=1)
    for found, what, more in (
        (report.beyond, "went beyond the bound in round {0.round}", "runs beyond the bound: see run.within_bound"),
        (report.undecided, "cannot be judged", "reasons why runs cannot be judged"),
        (report.untested, "tested nothing", "runs that tested nothing: see view receiver"),
    ):
        for one in found[:MAX_BEYOND]:
            print_lines(f"run {one.run_id} {what.format(one)}: {one.reason}")
        if len(found) > MAX_BEYOND:
            print_lines(f"... and {len(found) - MAX_BEYOND:,} more {more}")


def _print_stories(result: Result, shown: Sequence[ViolationRow], number: int, n_commands: int | None = None) -> None:
    """Prints the violations ``shown``, which are the first of ``number`` violations."""
    seqs = _publication_numbers(result, shown)
    for index, violation in enumerate(shown):
        seq = seqs.get((violation.run_id, violation.source, violation.source_seq))
        print_lines(f"  {_story(violation, seq)}", indent=2)
        delivery = (violation.node, violation.source, violation.source_seq)
        if (n_commands is None or index < n_commands) and None not in delivery:
            named = str(violation.node), str(violation.source), int(violation.source_seq or 0)
            print(f"    {why_command(result.store, why_options(violation.run_id, *named))}")
    if number > len(shown):
        print_lines(f"  ... and {number - len(shown):,} more: see table violation")


def print_guarantees(report: AuditReport) -> None:
    """Prints a table of all guarantees with the results of their audits."""
    rows = [(finding.title, _state(finding), finding.summary) for finding in report.findings]
    print_table(("guarantee", "result", "says"), rows, (False, False, False), n_keys=1)
    print()


def verdict_line(result: Result, report: AuditReport, failures: Sequence[str]) -> str:
    """Returns the verdict of all runs as a sentence; ``failures`` is the result of function `failures`."""
    n_of = Counter(run.verdict for run in result.runs)
    runs = plural(len(result.runs), "run")
    if result.verdict == "invalid":
        broken = ", ".join(f"{name} {_times(count)}" for name, count in violations(report).items() if count)
        text = f"{n_of['invalid']:,} of {runs} broke a guarantee ({broken})"
    elif result.verdict == "unknown":
        failed = [finding.title for finding in report.findings if finding.error is not None]
        why = f"no audit of {', '.join(failed)}" if failed else _why_open(report, n_of["unknown"])
        text = f"{n_of['unknown']:,} of {runs} not decided: {why}"
    else:
        n_within = len(result.runs) - len(report.beyond)
        within = f"{plural(n_within, 'run')}, all guarantees hold"
        text = f"within the bound {within}" if report.beyond else within
        text = text if n_within else "no run within the bound"
    counts = _wanted_by_bound(result)
    n_delivered, n_wanted = counts.get(True, (0, 0))
    parts = [text]
    if result.verdict == "valid" and n_delivered < n_wanted:
        rows = result.sql(_MISSING).collect()
        excuses, number = ", ".join(f"{row.excuse} {row.n:,}" for row in rows), sum(row.n for row in rows)
        parts.append(f"{number:,} wanted {'delivery' if number == 1 else 'deliveries'} missing ({excuses})")
    if report.beyond:
        n_delivered, n_wanted = counts.get(False, (0, 0))
        broken = ", ".join(f"{f.title} {_times(f.n_excused)}" for f in report.findings if f.n_excused)
        excused = f", excused ({broken})" if broken else ""
        lost = f"{n_wanted - n_delivered:,} of {n_wanted:,} wanted deliveries lost"
        parts.append(f"beyond it {plural(len(report.beyond), 'run')}, {lost}{excused}")
    if losses := result.lost_by_moves():
        missed = plural(sum(len(loss.lost) for loss in losses), "publication")
        parts.append(f"{plural(len(losses), 'moving application')} missed {missed}")
    parts += [f"failed: {failure}" for failure in failures]
    return f"{result.verdict}: {'; '.join(parts)}; history in {result.store}"


def _why_open(report: AuditReport, n_unknown: int) -> str:
    # Why runs have verdict unknown although all audits succeeded.
    untested = {run.run_id for run in report.untested}
    n_untested = sum(run.verdict == "unknown" and run.run_id in untested for run in report.runs)
    ended = "the horizon ended the run too early" if report.undecided else "messages were in flight at the horizon"
    if not n_untested:
        return ended
    return "nothing was tested" if n_untested == n_unknown else f"nothing was tested in {n_untested:,}, or {ended}"


def verdict_json(result: Result, report: AuditReport, failures: Sequence[str] = ()) -> str:
    """Returns the verdict of all runs as a JSON object; ``failures`` is the result of function `failures`."""
    n_delivered, n_wanted = wanted(result)
    number = Counter(run.verdict for run in result.runs)
    event = {
        "event": "verdict", "verdict": result.verdict,
        "runs": {verdict: number[verdict] for verdict in ("valid", "invalid", "unknown")},
        "violations": violations(report),
        "runs_beyond_bound": len(report.beyond), "runs_untested": len(report.untested),
        "wanted": n_wanted, "wanted_delivered": n_delivered,
        "lost_by_moves": sum(len(loss.lost) for loss in result.lost_by_moves()),
        "failed": list(failures), "excused": {finding.title: finding.n_excused for finding in report.findings},
        "store": str(result.store),
    }  # fmt: skip
    return json.dumps(event, ensure_ascii=False)


def run_lines(result: Result) -> Iterator[str]:
    """Yields a JSON object per run: its parameters, its verdict, and the columns of view ``run_summary``."""
    rows = result.sql("select * from run_summary order by run_id").toArrow().to_pylist()
    for run, row in zip(result.runs, rows, strict=True):
        values = {name: plain(value) for name, value in row.items()}
        yield json.dumps({"event": "run", **values, "parameters": dict(run.parameters)}, ensure_ascii=False)


def print_finished(result: Result, *, as_json: bool) -> None:
    """Prints the verdict of a store for ``roundtable resume`` if all its runs have already ended."""
    if as_json:
        event = {"event": "finished", "verdict": result.verdict, "store": str(result.store)}
        print(json.dumps(event, ensure_ascii=False))
        return
    runs, were = plural(len(result.runs), "run"), "was" if len(result.runs) == 1 else "were"
    end = f"ended in round {result.reader.last_round():,} and {were} found {result.verdict}"
    print_lines(f"finished: {runs} {end}; history in {result.store}")


def violations(report: AuditReport) -> dict[str, int | None]:
    """Maps each guarantee to its number of unexcused violations, or to None if the audit of the guarantee failed."""
    return {finding.title: finding.n_violations for finding in report.findings}


def wanted(result: Result) -> tuple[int, int]:
    """Returns the number of wanted deliveries that happened, and of all wanted deliveries (``wanted_delivery``)."""
    counts = _wanted_by_bound(result).values()
    return sum(n_delivered for n_delivered, _ in counts), sum(n_wanted for _, n_wanted in counts)


def _wanted_by_bound(result: Result) -> dict[bool | None, tuple[int, int]]:
    rows = result.sql(_WANTED).collect()
    return {row.within_bound: (row.n_delivered, row.n_wanted) for row in rows}


def _state(finding: Finding) -> str:
    if finding.n_violations is None:
        return "not checked"
    state = f"broken {_times(finding.n_violations)}" if finding.n_violations else "holds"
    return f"{state}, excused {_times(finding.n_excused)}" if finding.n_excused else state


def _publication_numbers(
    result: Result, shown: Sequence[ViolationRow]
) -> dict[tuple[int, str | None, int | None], int]:
    runs = {violation.run_id for violation in shown if violation.source_seq is not None}
    if not runs:
        return {}
    rows = result.sql(_SEQS.format(runs=", ".join(map(str, sorted(runs))))).collect()
    return {(row.run_id, row.name, row.source_seq): row.seq for row in rows}


def _story(violation: ViolationRow, seq: int | None) -> str:
    parts = (("run", violation.run_id), ("round", violation.round), ("node", violation.node))
    words = [f"{name} {value}" for name, value in parts if value is not None]
    if violation.source is not None:
        call = violation.source_seq
        words.append(f"source {violation.source}" if call is None else publication_name(violation.source, seq, call))
    return f"{', '.join(words)}: {violation.detail}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def failures(result: Result, report: AuditReport, causes: Collection[str]) -> list[str]:
    """Returns a phrase for each value of ``--fail-on`` in ``causes`` that applies to the runs."""
    n_excused = sum(finding.n_excused or 0 for finding in report.findings)
    n_delivered, n_wanted = wanted(result) if "missing" in causes else (0, 0)
    n_missing = n_wanted - n_delivered
    found = {
        "excused": (n_excused, f"{plural(n_excused, 'violation')} excused"),
        "beyond": (len(report.beyond), f"{plural(len(report.beyond), 'run')} beyond the bound"),
        "missing": (n_missing, f"{n_missing:,} of {n_wanted:,} wanted deliveries did not happen"),
    }  # fmt: skip
    return [f"{cause}, {text}" for cause, (number, text) in found.items() if number and cause in causes]
