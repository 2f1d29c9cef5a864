"""The command ``roundtable compare``, which ranks protocols and settings on a scenario."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.ends import INVALID, VALID
from pipelines.cli.options import Engine, File, Json, NewStore, Overrides, Quiet, Remote, option, reporter_of
from pipelines.cli.printing import print_lines, print_table

if TYPE_CHECKING:
    from pipelines.comparing.compare import Comparison, Ranked


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
    from pipelines.comparing.compare import compare_prepared  # imports PySpark (1 s), so the scenario is checked first

    chosen: Any = engine
    with reporter_of(quiet=quiet, as_json=as_json)(prepared.horizon) as progress:
        found = compare_prepared(
            prepared, want, minimise, store=store, engine=chosen, observe=progress, say=progress.note
        )
    if as_json:
        print(*_json_lines(found), sep="\n")
    else:
        _print(found)
    raise typer.Exit(VALID if found.ranked[0].keeps_all else INVALID)


def _json_lines(found: Comparison) -> list[str]:
    lines: list[dict[str, Any]] = [
        {
            "rank": rank, "protocol": one.protocol, "settings": one.settings, "n_runs": one.n_runs,
            "n_as_wanted": one.n_as_wanted, "n_beyond": one.n_beyond, "broken": one.broken, found.measure: one.measure,
        }
        for rank, one in enumerate(found.ranked, 1)
    ]  # fmt: skip
    lines += [{"protocol": name, "refused": why} for name, why in found.refused.items()]
    return [json.dumps(line, ensure_ascii=False) for line in lines]


def _print(found: Comparison) -> None:
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
