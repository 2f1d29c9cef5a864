"""``roundtable plan``: what a scenario would run, and with what."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from pipelines.cli.rows import print_table
from pipelines.engines.settings import local_settings
from pipelines.errors import plural
from pipelines.experiment.batches import cut, fitting
from pipelines.experiment.build import message_kinds
from pipelines.experiment.jobs import jobs_of
from pipelines.experiment.plan import Combination, combinations, store_tables
from pipelines.experiment.prepared import Prepared
from pipelines.protocols import PROTOCOLS

_MAX_SHOWN = 20
_NAMES = (
    "nodes", "links", "diameter", "subscribe", "unsubscribe", "publish", "join", "crash", "fault", "messages of a kind",
)  # fmt: skip


def print_plan(prepared: Prepared, engine: str) -> None:
    """Prints the plan of a scenario."""
    rows = combinations(prepared)
    n_seeds = len(prepared.scenario.runs.all_seeds())
    runs = f"{plural(len(prepared.runs), 'run')} = {len(rows):,} of the grid x {plural(n_seeds, 'seed')}"
    print(f"scenario  {prepared.scenario.name}: {runs}")
    print(f"protocol  {prepared.protocol}: {PROTOCOLS[prepared.protocol].summary}")
    print(f"time      {_times(prepared)}")
    print(f"batches   {_batches(prepared, n_seeds * sum(row.n_state_rows for row in rows))}")
    print(f"jobs      {_jobs(prepared, rows)}")
    print(f"engine    {engine}: {', '.join(_engine(engine))}\n")
    _print_combinations(rows, n_seeds)
    _print_messages(prepared, rows, n_seeds)
    print("\ntables, each with run_id:")
    tables = sorted(store_tables(prepared.protocol), key=lambda table: table.name.startswith("state_"))
    print_table(("table", "a row is"), [(table.name, table.grain) for table in tables], (False, False))


def _times(prepared: Prepared) -> str:
    times = [run.scenario.time for run in prepared.combinations()]
    durations = sorted({time.round_ms for time in times})
    length = f"{durations[0]:g}" if len(durations) == 1 else f"{durations[0]:g} to {durations[-1]:g}"
    return f"at most {prepared.horizon:,} rounds of {length} ms"


def _jobs(prepared: Prepared, rows: list[Combination]) -> str:
    """Says how many rounds a job has unless --rounds-per-job says otherwise."""
    jobs = jobs_of(is_node_program=PROTOCOLS[prepared.protocol].is_node_program, n_nodes=max(r.n_nodes for r in rows))
    what = "one round" if jobs.rounds_per_job == 1 else f"up to {jobs.rounds_per_job:,} rounds"
    return f"{what} each, a commit every {jobs.commit_every:,} rounds: {jobs.reason}"


def _batches(prepared: Prepared, n_rows: int) -> str:
    """Says how many batches `run` makes unless --batch-runs says otherwise, by the example of the first seeds."""
    n_batches = len(cut(prepared.runs, fitting(len(prepared.runs), n_rows)))
    size = f"about {n_rows:,} rows of state in all"
    return f"1: all runs go through the rounds together, {size}" if n_batches == 1 else f"{n_batches:,}, {size}"


def _print_combinations(rows: list[Combination], n_seeds: int) -> None:
    varied = list(rows[0].parameters)
    cells = [_cells(row) for row in rows[:_MAX_SHOWN]]
    print_table((*varied, *_NAMES), cells, [*(False for _ in varied), *(True for _ in _NAMES)])
    if len(rows) > _MAX_SHOWN:
        print(f"... and {len(rows) - _MAX_SHOWN:,} more combinations")
    if n_seeds > 1:
        print("counts are those of the first seed")


def _cells(row: Combination) -> list[object]:
    diameter = f"{'' if row.is_diameter_exact else '>= '}{row.diameter}"
    calls = (row.n_subscriptions, row.n_unsubscriptions, row.n_publications, row.n_joins, row.n_crashes, row.n_faults)
    return [*row.parameters.values(), row.n_nodes, row.n_links, diameter, *calls, row.n_crossings]


def _print_messages(prepared: Prepared, rows: list[Combination], n_seeds: int) -> None:
    """On a tree without faults no call crosses a link twice; otherwise that is a yardstick only."""
    total = n_seeds * sum(row.n_crossings for row in rows)
    is_bound = PROTOCOLS[prepared.protocol].needs_tree and not any(row.n_crashes + row.n_faults for row in rows)
    limit = "at most" if is_bound else "about"
    print(f"messages: {limit} {total:,} of each kind in all runs, if every call crosses every link once")
    print(f"kinds: {', '.join(message_kinds(prepared.protocol))}")


def _engine(engine: str) -> list[str]:
    if engine == "sail":
        return [f"pysail {version('pysail')} in this process", "no JVM", f"{os.cpu_count()} threads"]
    if engine == "connect":
        return [f"Spark Connect at {os.environ.get('SPARK_REMOTE', 'the address that --remote names')}"]
    settings = {key: value for key, value in local_settings(Path("-")).items() if value != str(Path("-", "warehouse"))}
    return [f"pyspark {version('pyspark')}", *(f"{key}={value}" for key, value in sorted(settings.items()))]
