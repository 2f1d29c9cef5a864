"""Breaks each numbered rule of a protocol in a copy of the program, and computes the share that hunts detect.

    python tests/perf/broken_rules.py [--protocol delta]... [--rule R26]... [--schedules 2000] [--strategy guided]...
        [--minutes 5] [--work broken_rules]

`tests/mutation/broken_rules.yaml` contains the changes; each replaces a string in one module. `tests/mutation/hunted/`
contains the scenarios. The hunt of a changed copy ends at its first finding, which is not shrunk. The outcome of each
hunt is stored in the work folder, and a hunt with a stored outcome is not repeated. Columns: the broken rule; the
guarantee of the first finding, and the number of the schedule that broke it (if none was broken, the number of
schedules played); the number of undecided schedules. If a changed copy does not start, the change is not detected, and
the table shows the error. Undecided schedules detect a change if they are at least half of all schedules, and if the
unchanged program has no undecided schedules in that scenario. The rule `-` is the unchanged program, hunted in each
scenario of the protocol; it must have no finding.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
RULES = ROOT / "tests" / "mutation" / "broken_rules.yaml"
HUNTED = ROOT / "tests" / "mutation" / "hunted"
_HUNT = """
import json, sys
from pipelines.hunting import hunt
file, schedules, minutes, strategy, within = sys.argv[1:]
found = hunt(file, int(schedules), float(minutes), within_bound=within == "within", strategy=strategy,
             until_found=True, shrinks=False, engine="local")
print(json.dumps({"n_played": found.n_played, "n_beyond": found.n_beyond, "n_undecided": found.n_undecided,
                  "findings": [[one.guarantee, one.cause, one.n_played, *one.aims] for one in found.findings]}))
"""

Row = Mapping[str, Any]
Outcomes = Mapping[tuple[str, str], Mapping[str, Any]]
"""The outcome of the hunt of each change, by rule and change."""
_BEYOND = ("epidemic", "gossipsub")
"""Protocols that are also hunted beyond the bound.

Under faults they promise few deliveries, but their audits of single messages hold beyond the bound, too."""


def main() -> int:
    """Hunts the selected broken rules, and prints the share of detected rules for each protocol and strategy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = yaml.safe_load(RULES.read_text("utf-8"))
    parser.add_argument("--protocol", choices=[*known], action="append")
    parser.add_argument("--rule", action="append", help="only this rule, may be repeated; - is the unchanged program")
    parser.add_argument("--schedules", type=int, default=2000, metavar="N")
    parser.add_argument("--strategy", choices=["guided", "aimed", "random"], action="append")
    parser.add_argument("--minutes", type=float, default=5.0, help="maximum duration of a hunt")
    parser.add_argument("--work", type=Path, default=Path("broken_rules"), help="folder in which outcomes are stored")
    parser.add_argument("--report", action="store_true", help="print the stored outcomes; hunt nothing")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    for protocol in given.protocol or known:
        rows = [*unchanged(protocol, known[protocol]), *known[protocol]]
        rows = [row for row in rows if not given.rule or row["rule"] in given.rule]
        for strategy in given.strategy or ["guided", "random"]:
            kept = given.work / f"{protocol}_{strategy}.jsonl"
            done = _read(kept)
            for row in rows if not given.report else ():
                if (row["rule"], row["what"]) not in done:
                    within = "beyond" if protocol in _BEYOND else "within"
                    outcome = _hunted(row, HUNTED / f"{row.get('scenario', protocol)}.yaml", strategy, within, given)
                    done[row["rule"], row["what"]] = outcome
                    if not outcome["n_played"] and outcome["findings"]:  # does not depend on the strategy
                        _keep(given.work, protocol, row, outcome)
                        continue
                    _write(kept, row, outcome)
                    print(protocol, strategy, row["rule"], row["what"], outcome, file=sys.stderr, flush=True)
            _print(f"{protocol}, {strategy}", done, by_undecided(protocol, known[protocol], done))
    return 0


def unchanged(protocol: str, rows: Sequence[Row]) -> list[Row]:
    """Returns a row of rule `-` for each scenario in which changes of the protocol are hunted."""
    scenarios = dict.fromkeys([protocol, *(row.get("scenario", protocol) for row in rows)])
    return [{"rule": "-", "what": _whole(protocol, one), "module": None, "scenario": one} for one in scenarios]


def _whole(protocol: str, scenario: str) -> str:
    return "the program as it is" if scenario == protocol else f"the program as it is, scenario {scenario}"


def by_undecided(protocol: str, rows: Sequence[Row], done: Outcomes) -> set[tuple[str, str]]:
    """Returns the changes without a finding that undecided schedules detect, as keys of ``done``.

    They are the changes for which at least half of the schedules are undecided, although the unchanged program has no
    undecided schedule in the scenario.
    """
    found = set()
    for row in rows:
        outcome = done.get((row["rule"], row["what"]))
        whole = done.get(("-", _whole(protocol, row.get("scenario", protocol))))
        if outcome is None or whole is None or outcome["findings"] or whole.get("n_undecided", 1):
            continue
        if 0 < outcome["n_played"] <= 2 * outcome.get("n_undecided", 0):
            found.add((row["rule"], row["what"]))
    return found


def _keep(work: Path, protocol: str, row: Row, outcome: dict[str, Any]) -> None:
    """Stores an outcome, which does not depend on schedules, for all strategies."""
    for strategy in ("guided", "aimed", "random"):
        _write(work / f"{protocol}_{strategy}.jsonl", row, outcome)
    print(protocol, "without faults", row["rule"], row["what"], outcome, file=sys.stderr, flush=True)


def _write(kept: Path, row: Row, outcome: dict[str, Any]) -> None:
    with kept.open("a") as file:
        file.write(json.dumps({"rule": row["rule"], "what": row["what"], **outcome}) + "\n")


def _read(kept: Path) -> dict[tuple[str, str], dict[str, Any]]:
    lines = map(json.loads, kept.read_text().splitlines()) if kept.exists() else ()
    return {(row.pop("rule"), row.pop("what")): row for row in lines}


def _hunted(row: Row, scenario: Path, strategy: str, within: str, given: argparse.Namespace) -> dict[str, Any]:
    """Copies the program, breaks the rule of ``row`` in the copy, hunts in it, and returns the outcome."""
    with TemporaryDirectory(prefix="broken-") as folder:
        copy = Path(folder)
        for package in ("pipelines", "udfs"):
            shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        if row["module"] is not None:
            module = copy / row["module"]
            text = module.read_text("utf-8")
            if text.count(row["was"]) != 1:
                raise ValueError(f"{row['module']} has {text.count(row['was'])} times {row['was']!r}; mend {RULES}")
            module.write_text(text.replace(row["was"], row["is"]), "utf-8")
        command = [
            sys.executable,
            "-c",
            _HUNT,
            str(scenario),
            str(given.schedules),
            str(given.minutes),
            strategy,
            within,
        ]
        start, patience = time.monotonic(), 60 * given.minutes + 600
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, timeout=patience, check=False
            )
        except subprocess.TimeoutExpired:
            return {"seconds": patience, "findings": [["no end", "the hunt did not come to an end", 0]], "n_played": 0}
    seconds = round(time.monotonic() - start)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"the hunt ended with code {done.returncode}"]
        return {"seconds": seconds, **of_error(said[-1])}
    return {"seconds": seconds, **json.loads(done.stdout.splitlines()[-1])}


def of_error(said: str) -> dict[str, Any]:
    """Returns the outcome of a hunt that ended with the error ``said``.

    The error is a finding if the scenario breaks a guarantee without faults, or if a handler raised an exception.
    Otherwise the changed program cannot run, and the change counts as not detected.
    """
    is_finding = "the scenario breaks" in said or "NodeProgramError" in said
    return {"n_played": 0, "findings": [["error", said, 0]]} if is_finding else {
        "n_played": 0, "findings": [], "refused": said
    }  # fmt: skip


def _print(title: str, done: Outcomes, undecided: Collection[tuple[str, str]]) -> None:
    rules = {key: one for key, one in done.items() if key[0] != "-"}
    n_found = sum(bool(one["findings"]) for one in rules.values())
    counts = f"{n_found} of {len(rules)} by findings, {len(undecided)} more by undecided schedules"
    table = Table("rule", "broken", "found by", "schedules", "undecided", "seconds", title=f"{title}: {counts}")
    for (rule, what), one in done.items():
        first = min(one["findings"], key=lambda found: found[2], default=None)
        name = one.get("refused", "-") if first is None else f"{first[0]}: {first[1]}"
        n_schedules = one["n_played"] if first is None else first[2]
        is_detected = " (detected)" if (rule, what) in undecided else ""
        open_ones = f"{one.get('n_undecided', 0):,} of {one['n_played']:,}{is_detected}"
        table.add_row(rule, what, name, f"{n_schedules:,}", open_ones, f"{one['seconds']:,}")
    Console(width=160).print(table)


if __name__ == "__main__":
    sys.exit(main())
