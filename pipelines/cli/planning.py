"""The command ``roundtable plan``: the runs, batches, jobs, costs and tables of a scenario.

Rounds, minutes, memory and disk space are estimated from measurements on two cores.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from pipelines.cli.printing import print_lines, print_table
from pipelines.contract.forms import NTH, AskedForm, Form
from pipelines.engines.names import Engine
from pipelines.engines.settings import heap_megabytes, local_settings
from pipelines.errors import plural
from pipelines.experiment.jobs import (
    FEW_ROWS,
    batches_of,
    by_protocol,
    forms_of,
    has_small_load,
    jobs_of,
    runs_per_batch,
)  # fmt: skip
from pipelines.experiment.plan import FINAL_CROSSINGS, Combination, combinations, mappings, notes
from pipelines.experiment.prepared import Prepared, labelled
from pipelines.protocols import PROTOCOLS, protocol_form

_MAX_SHOWN = 20
_INDENT = len("scenario  ")
_SETTINGS = 3
"""The index of the first setting in the result of `_engine`; the items before it describe the engine."""
_NAMES = (
    "nodes", "links", "diameter", "subscribe", "unsubscribe", "publish", "join", "crash", "fault", "messages of a kind",
)  # fmt: skip
_MESSAGES_PER_LINK = 2
"""Number of messages that a call sends over each link: one for the call and one for its confirmation."""
_ROW_GIB = 3e-6
_MESSAGE_MB = 60e-6
_STORE_MB = 0.7


@dataclass(frozen=True)
class _Measured:
    """Measurements of one engine with one form of protocols (program or dataflow).

    ``start_s`` includes the first tables and the audits. ``round_s`` is a round with few messages, ``crash_s`` the
    addition for a round with crashes. ``memory_gib`` is the memory of the process before it holds rows.
    """

    start_s: float
    round_s: float
    crash_s: float
    messages_per_s: float
    memory_gib: float


# Measured on two cores. Node programs of 300 runs of `delta` take 6.4 CPU seconds for 196,418 messages with history.
# The 408 rounds of 20 runs with 10,042 messages take 4.0 CPU seconds. Start and audits take 4.4 CPU seconds. A dataflow
# round takes 0.8 to 1.5 s in the driver.
_OF: dict[tuple[Engine, Form], _Measured] = {
    ("local", "program"): _Measured(4, 0.005, 0, 50_000, 0.6),
    ("spark", "program"): _Measured(20, 0.01, 0, 40_000, 2.0),
    ("connect", "program"): _Measured(20, 0.01, 0, 40_000, 0.6),
    ("local", "dataflow"): _Measured(5, 0.1, 0.2, 20_000, 0.6),
    ("spark", "dataflow"): _Measured(40, 1.2, 0.6, 25_000, 2.5),
    ("connect", "dataflow"): _Measured(40, 1.2, 0.6, 25_000, 0.3),
}


@dataclass(frozen=True)
class Costs:
    """The estimated costs of a scenario on one engine: rounds with events, minutes with start and audits, GiB, MB."""

    n_rounds: int
    minutes: float
    memory_gib: float
    disk_mb: float


def _faults(rows: Sequence[Combination]) -> list[str]:
    counts = {
        "crashes": sum(row.n_crashes for row in rows), "joins": sum(row.n_joins for row in rows),
        "link faults or pauses": sum(row.n_faults for row in rows),
    }  # fmt: skip
    return [name for name, count in counts.items() if count]


def print_plan(prepared: Prepared, engine: Engine, asked: AskedForm, *, is_verbose: bool) -> None:
    """Prints the plan of a scenario; if ``is_verbose``, also the engine's settings and the list of tables."""
    rows = combinations(prepared)
    n_seeds = len(prepared.scenario.runs.all_seeds())
    forms = _forms(prepared, asked, rows)
    n_rows, n_batches, taken = _size(prepared, engine, forms, rows)
    runs = f"{plural(len(prepared.runs), 'run')} = {len(rows):,} of the grid x {plural(n_seeds, 'seed')}"
    batches = "1 (all runs)" if n_batches == 1 else f"{n_batches:,}"
    told_forms = by_protocol({name: f"{form}: {reason}" for name, (form, reason) in forms.items()})
    settings = _engine(engine, forms, n_rows)
    parts = [
        ("scenario", f"{prepared.scenario.name}: {runs}"),
        *(("protocol", f"{name}: {PROTOCOLS[name].summary}") for name in prepared.protocols),
        *notes(prepared),
        *(("mapping", mapping) for mapping in mappings(prepared)),
        ("time", _times(prepared)),
        ("batches", f"{batches}, about {n_rows:,} rows of state in all"),
        *(("form", told) for told in told_forms),
        *(("jobs", told) for told in _jobs(prepared, {name: form for name, (form, _) in forms.items()})),
        ("engine", f"{engine}: {', '.join(settings[:_SETTINGS])}"),
        ("takes", _costs(taken, prepared.horizon)),
    ]
    print_lines(*(f"{part:<{_INDENT}}{text}" for part, text in parts), "", indent=_INDENT)
    _print_combinations(rows, n_seeds)
    _print_messages(prepared, rows, n_seeds)
    if not is_verbose:
        print("--verbose shows the engine's settings and the tables")
        return
    print("\nsettings of the engine:", *settings[_SETTINGS:], sep="\n  ")
    print("\ntables, each with run_id:")
    tables = sorted(_tables(forms), key=lambda table: table[0].startswith("state_"))
    print_table(("table", "a row is"), tables, (False, False))


def plan_json(prepared: Prepared, engine: Engine, asked: AskedForm) -> str:
    """Returns the plan of a scenario as a JSON object.

    Returns:
        An object with the keys ``scenario``, ``n_runs``, ``seeds``, ``protocols``, ``engine``, ``settings``,
        ``rounds``, ``round_ms`` and ``n_batches``; ``notes``: the notes of `plan.notes`; ``mappings``: the sentences of
        `plan.mappings`; ``forms``: the form of each protocol, and the reason for it; ``costs``: the fields of `Costs`,
        or null if the costs are unknown; ``combinations``: the fields of `Combination`, counted in the run of the first
        seed; ``message_kinds``: the message types of each protocol; ``tables``: the tables and their grain.
    """
    rows = combinations(prepared)
    seeds = prepared.scenario.runs.all_seeds()
    forms = _forms(prepared, asked, rows)
    n_rows, n_batches, taken = _size(prepared, engine, forms, rows)
    plan = {
        "scenario": prepared.scenario.name, "n_runs": len(prepared.runs), "seeds": list(seeds),
        "protocols": list(prepared.protocols), "engine": engine, "settings": _engine(engine, forms, n_rows),
        "rounds": prepared.horizon,
        "round_ms": sorted({run.scenario.time.round_ms for run in prepared.combinations()}),
        "notes": [{"part": part, "note": note} for part, note in notes(prepared)], "mappings": mappings(prepared),
        "forms": {name: {"form": form, "reason": reason} for name, (form, reason) in forms.items()},
        "n_batches": n_batches, "costs": None if taken is None else asdict(taken),
        "combinations": [
            asdict(row) | {"parameters": dict(row.parameters), "n_messages_of_a_kind": row.n_crossings}
            for row in rows
        ],
        "message_kinds": {name: list(PROTOCOLS[name].kinds) for name in prepared.protocols},
        "tables": [{"table": name, "grain": grain} for name, grain in _tables(forms)],
    }  # fmt: skip
    return json.dumps(plan, ensure_ascii=False, default=str)


def _forms(prepared: Prepared, asked: AskedForm, rows: list[Combination]) -> dict[str, tuple[Form, str]]:
    n_nodes = max(row.n_nodes for row in rows)
    return forms_of(prepared.protocols, asked, n_nodes, _faults(rows) + [NTH] * prepared.has_nth)


def _size(
    prepared: Prepared, engine: Engine, forms: Mapping[str, tuple[Form, str]], rows: list[Combination]
) -> tuple[int, int, Costs | None]:
    """Returns the number of state rows of all runs, the number of batches, and the estimated costs.

    If a protocol has form ``dataflow``, its (higher) costs are estimated for all runs. The costs are None if the
    protocol builds its own overlay, because it then sends messages without calls.
    """
    n_seeds, used = len(prepared.scenario.runs.all_seeds()), [form for form, _ in forms.values()]
    n_rows = n_seeds * sum(row.n_state_rows for row in rows)
    n_batches = len(batches_of(prepared.runs, runs_per_batch(len(prepared.runs), n_rows, used)))
    if not all(row.n_links for row in rows):
        return n_rows, n_batches, None
    last = max(row.last_round + FINAL_CROSSINGS * row.diameter * row.most_latency for row in rows)
    n_rounds = min(prepared.horizon, last, _n_busy_rounds(prepared, rows))
    n_messages = n_seeds * _MESSAGES_PER_LINK * sum(row.n_crossings for row in rows)
    measured = _OF[engine, "dataflow" if "dataflow" in used else "program"]
    of_round = measured.round_s + (measured.crash_s if any(row.n_crashes for row in rows) else 0)
    seconds = measured.start_s + n_batches * n_rounds * of_round + n_messages / measured.messages_per_s
    memory = measured.memory_gib + _ROW_GIB * n_rows / n_batches
    return n_rows, n_batches, Costs(n_rounds, seconds / 60, memory, _STORE_MB + _MESSAGE_MB * n_messages)


def _n_busy_rounds(prepared: Prepared, rows: list[Combination]) -> int:
    """Returns an upper estimate of the rounds in which a run has an event. The other rounds are not executed.

    Nodes that draw, or maintain their links, send messages in any round.
    """
    used = [PROTOCOLS[name] for name in prepared.protocols]
    if any(one.draws or one.maintenance for one in used):
        return prepared.horizon
    parts = (
        part
        for run in prepared.combinations()
        for part in (*dict(run.scenario.workload).values(), *run.scenario.faults)
    )
    is_drawn = any(hasattr(part, "generate") for part in parts)
    n_inputs = len(prepared.scenario.runs.all_seeds()) if is_drawn else 1
    return n_inputs * sum(row.n_busy_rounds for row in rows)


def _tables(forms: Mapping[str, tuple[Form, str]]) -> list[tuple[str, str]]:
    from pipelines.contract.round import stored_tables  # imports PySpark
    from pipelines.tables import HISTORY

    stored = stored_tables({name: protocol_form(name, form) for name, (form, _) in forms.items()})
    return [(table.name, table.grain) for table in (*HISTORY, *stored)]


def _times(prepared: Prepared) -> str:
    times = [run.scenario.time for run in prepared.combinations()]
    durations = sorted({time.round_ms for time in times})
    length = f"{durations[0]:g}" if len(durations) == 1 else f"{durations[0]:g} to {durations[-1]:g}"
    return f"at most {prepared.horizon:,} rounds of {length} ms"


def _jobs(prepared: Prepared, forms: Mapping[str, Form]) -> Iterable[str]:
    """Returns phrases about the default numbers of rounds per job and per commit."""
    found = {}
    for name, form in forms.items():
        n_runs = sum(run.scenario.protocol.name == name for run in prepared.runs)
        jobs = jobs_of(form=form, n_runs=n_runs)
        what = "one round" if jobs.rounds_per_job == 1 else f"up to {jobs.rounds_per_job:,} rounds"
        found[name] = f"{what} each, a commit every {jobs.commit_every:,} rounds: {jobs.reason}"
    return by_protocol(found)


def _costs(found: Costs | None, horizon: int) -> str:
    if found is None:
        return f"up to {horizon:,} rounds; the duration is unknown: the protocol sends messages without calls"
    minutes = "less than a minute" if found.minutes < 1 else plural(round(found.minutes), "minute")
    disk = f"{found.disk_mb:,.0f} MB" if found.disk_mb < 1000 else f"{found.disk_mb / 1000:,.1f} GB"
    return (
        f"about {plural(found.n_rounds, 'round')}, {minutes}, {found.memory_gib:.1f} GiB of memory, {disk} on disk "
        "(estimated for two cores, with start and audits)"
    )


def _print_combinations(rows: list[Combination], n_seeds: int) -> None:
    varied = list(rows[0].parameters)
    labels = labelled([row.parameters for row in rows])
    cells = [[*labels[index].values(), *_cells(row)] for index, row in enumerate(rows[:_MAX_SHOWN])]
    numbers = [*(False for _ in varied), *(True for _ in _NAMES)]
    print_table((*varied, *_NAMES), cells, numbers, n_keys=len(varied))
    if len(rows) > _MAX_SHOWN:
        print(f"... and {len(rows) - _MAX_SHOWN:,} more combinations")
    if n_seeds > 1:
        print("counts are those of the first seed")


def _cells(row: Combination) -> list[object]:
    diameter = f"{'' if row.is_diameter_exact else '>= '}{row.diameter}"
    calls = (row.n_subscriptions, row.n_unsubscriptions, row.n_publications, row.n_joins, row.n_crashes, row.n_faults)
    return [row.n_nodes, row.n_links, diameter, *calls, row.n_crossings]


def _print_messages(prepared: Prepared, rows: list[Combination], n_seeds: int) -> None:
    """Prints the number of messages per type, summed over all runs, and the names of the message types.

    The number assumes that the message of a call crosses each link once. It is an upper bound if all protocols need
    trees as overlays and no run has faults, else an estimate.
    """
    total = n_seeds * sum(row.n_crossings for row in rows)
    needs_tree = all(PROTOCOLS[name].needs_tree for name in prepared.protocols)
    is_bound = needs_tree and not any(row.n_crashes + row.n_faults for row in rows)
    limit = "at most" if is_bound else "about"
    print_lines(f"messages: {limit} {total:,} of each kind in all runs, if every call crosses every link once")
    for name in prepared.protocols:
        of = "" if len(prepared.protocols) == 1 else f" of {name}"
        print_lines(f"kinds{of}: {', '.join(PROTOCOLS[name].kinds)}", indent=2)


def _engine(engine: Engine, forms: Mapping[str, tuple[Form, str]], n_rows: int) -> list[str]:
    if engine == "local":
        return [f"pysail {version('pysail')} in this process", "no JVM", f"{os.cpu_count()} threads"]
    if engine == "connect":
        return [f"Spark Connect at {os.environ.get('SPARK_REMOTE', 'the address that --remote names')}"]
    light = has_small_load((form for form, _ in forms.values()), is_small=n_rows <= FEW_ROWS)
    given = local_settings(Path("-"), is_small=light)
    settings = {key: value for key, value in given.items() if value != str(Path("-", "warehouse"))}
    begun = [f"pyspark {version('pyspark')} in a JVM", f"{os.cpu_count()} threads", f"a heap of {heap_megabytes()} MB"]
    return [*begun, *(f"{key}={value}" for key, value in sorted(settings.items()))]
