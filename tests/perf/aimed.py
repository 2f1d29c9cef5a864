"""Crash schedules of `delta` made against the code (`support/delta/aimed.py`), and what the audits say of them.

    python tests/perf/aimed.py [--first 1] [--plans 170] [--stages 3] [--batches 2] [--engine local]

A batch plays its plans, strikes each where their runs show that it hurts, plays them again, and so on; every plan with
both duplicate detectors. First table: a row a stage: runs, crashes, runs beyond the bound, violations that are not
excused, runs that are not decided, the most of its grace that a recovery or a call took, seconds, peak memory in MiB.
Second table: runs within the bound by what the last strike hit. The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from support.delta.aimed import KINDS, WHO, as_runs, bases, struck_again, wrong

from pipelines.contract.audit import sql_files
from pipelines.engines.session import open_session
from pipelines.sql.query import StoreReader
from pipelines.testing import audited, run_all

_LIMITS = sql_files("pipelines.protocols.delta.audits")["time_limit"]
_COLUMNS = (
    "runs", "crashes", "beyond bound", "violations", "undecided", "of grace", "rounds", "seconds", "peak MiB",
)  # fmt: skip


def batch(
    engine: str, first: int, n_plans: int, n_stages: int
) -> tuple[list[dict[str, Any]], Counter[tuple[str, str]]]:
    """Plays the plans from a seed on; returns a row a stage, and how many runs within the bound each strike has."""
    plans, table, hit = list(bases(first, n_plans)), [], Counter[tuple[str, str]]()
    with open_session(engine) as session:
        for stage in range(n_stages + 1):
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                store = run_all(as_runs(plans), session, Path(folder))
                report = audited(store)
                seconds = time.perf_counter() - start
                for plan, detector, verdict in wrong(report, plans):
                    print(f"from {first}, stage {stage}: {verdict}", detector, plan, file=sys.stderr, flush=True)
                within = [run for run in report.runs if run.within_bound]
                hit.update(plans[run.run_id // 2].aims[-1] for run in within if plans[run.run_id // 2].aims)
                most = "max((end_round - begin_round) / (limit_round - begin_round))"
                part = StoreReader(session, store.root).sql(_LIMITS).selectExpr(most).collect()[0][0]
                cells = [
                    len(report.runs), 2 * sum(len(plan.crashes) for plan in plans), len(report.runs) - len(within),
                    sum(finding.n_violations or 0 for finding in report.findings),
                    sum(run.verdict == "unknown" for run in within), f"{part or 0:.2f}",
                    max(run.rounds for run in report.runs), round(seconds),
                    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                ]  # fmt: skip
                table.append(dict(zip(_COLUMNS, cells, strict=True)))
                print(f"from {first}, stage {stage}: {table[-1]}", file=sys.stderr, flush=True)
                plans = struck_again(plans, store, first + stage)
    return table, hit


def main() -> int:
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--plans", type=int, default=170)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--batches", type=int, default=2)
    given = parser.parse_args()
    stages, hit, n_wrong = Table("from", "stage", *_COLUMNS), Counter[tuple[str, str]](), 0
    for number in range(given.batches):
        first = given.first + number * given.plans
        # A process gives back what an engine keeps of a job.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            rows, found = process.submit(batch, given.engine, first, given.plans, given.stages).result()
        hit.update(found)
        for stage, row in enumerate(rows):
            n_wrong += row["violations"] + row["undecided"]
            stages.add_row(str(first), str(stage), *map(str, row.values()))
    struck = Table("struck", *WHO)
    for kind in KINDS:
        struck.add_row(kind, *(f"{hit[kind, who]:,}" for who in WHO))
    console = Console(width=140)
    console.print(stages)
    console.print(struck)
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
