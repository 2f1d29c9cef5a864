"""The runs of an experiment as tables: nodes, links, application calls, predicates, contents and faults.

They are made on the driver from the scenario and hashes of the seed, so they are the same on every engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.contract.predicate import predicate_rows
from pipelines.contract.protocol import SETTINGS_JSON, Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.errors import InputError, Problem
from pipelines.experiment.calls import row_numbers, run_calls, with_numbers
from pipelines.experiment.inputs import Inputs
from pipelines.experiment.mapping import Mapped, mapped, needs_tree
from pipelines.inputs.faults.build import build_faults, named_traces
from pipelines.inputs.faults.named_outages import has_timestamps, outage_notes
from pipelines.inputs.overlay.build import build_overlay
from pipelines.inputs.workload.build import build_workload, timestamped
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.consistency import calls
from pipelines.scenario.expand import RunConfig
from pipelines.scenario.times import listed_timestamps, rounding_error_ms

Built = tuple[Overlay, Workload, Faults]
"""The overlay, the workload and the faults of one run."""


def build_inputs(
    runs: Sequence[RunConfig], beside: Path | None, observe: Callable[[int], None] = lambda _: None,
    built: Sequence[Built] | None = None,
) -> Inputs:  # fmt: skip
    """Builds overlays, workloads and faults of all runs.

    Args:
        runs: The expanded runs.
        beside: Folder of the scenario file, for relative paths.
        observe: Told after each run how many are built.
        built: The parts of each run where `build_run` has built them already; None: they are built.

    Raises:
        OverlayError: An overlay cannot be built.
        WorkloadError: A workload does not fit its overlay.
        FaultError: Faults do not fit their overlay, or cannot be placed.
    """
    parts: dict[str, list[pa.Table]] = {name: [] for name in Inputs.__dataclass_fields__}
    before, tables = None, dict[str, pa.Table]()
    for number, run in enumerate(runs, 1):
        of_run = build_run(run, beside) if built is None else built[number - 1]
        shared = None if before is None or built is None else tables
        tables = _run_tables(run, of_run, shared if before == (id(of_run[0]), id(of_run[1])) else None)
        before = id(of_run[0]), id(of_run[1])
        for name, rows in tables.items():
            if len(rows) or not parts[name]:
                parts[name].append(rows.add_column(0, "run_id", pa.array(np.full(len(rows), run.run_id), pa.int64())))
        observe(number)
    whole = {
        name: pa.concat_tables(rows, promote_options="default").combine_chunks() for name, rows in parts.items() if rows
    }
    return with_numbers(whole)


def build_run(run: RunConfig, beside: Path | None, before: Built | None = None) -> Built:
    """Builds the overlay, the workload and the faults of one run; errors as in `build_inputs`.

    Args:
        run: The run.
        beside: Folder of the scenario file, for relative paths.
        before: What a run that differs in its faults alone has; None: everything is built.

    Raises:
        InputError: The protocol cannot run with them.
    """
    built = build_mapped_run(run, beside, None if before is None else (before[0], before[1]))
    return built.overlay, built.workload, built.faults


def build_mapped_run(
    run: RunConfig, beside: Path | None, before: tuple[Overlay, Workload] | None = None
) -> Mapped:  # fmt: skip
    """Builds the overlay, the workload and the faults of one run, among runs of other protocols by the rules of those.

    Args:
        run: The run.
        beside: Folder of the scenario file, for relative paths.
        before: Overlay and workload where they are built already; only for a run of one protocol.

    Raises:
        InputError: As in `build_run`.
    """
    scenario = run.scenario
    overlay = build_run_overlay(run, beside) if before is None else before[0]
    spec = PROTOCOLS[scenario.protocol.name]
    is_without_links = scenario.overlay.nodes is not None
    if spec.makes_overlay != is_without_links and (is_without_links or not run.protocols):
        raise InputError(_other_overlay(spec))
    workload = before[1] if before is not None else build_workload(
        scenario.workload, overlay=overlay, seed=run.seed, horizon=scenario.time.rounds, beside=beside,
        clock=scenario.time.clock,
    )  # fmt: skip
    faults = build_faults(
        scenario.faults, overlay=overlay, seed=run.seed, horizon=scenario.time.rounds, beside=beside,
        kinds=lambda: message_kinds(scenario.protocol.name), clock=scenario.time.clock,
    )  # fmt: skip
    built = Mapped(overlay, workload, faults)
    if run.protocols:
        built = mapped(spec, _with_all_links(run, built, beside))
    problems = list(_problems(run, built, beside))
    if problems:
        raise InputError(*problems)
    return built


def _with_all_links(run: RunConfig, built: Mapped, beside: Path | None) -> Mapped:
    """Returns the inputs of a run with all links of the graph, where other protocols alone need the tree."""
    spec = PROTOCOLS[run.scenario.protocol.name]
    if spec.needs_tree or spec.makes_overlay or not needs_tree(run.protocols):
        return built
    whole = build_run_overlay(run, beside, keeps_links=True)
    if len(whole.a) == len(built.overlay.a):
        return built
    return replace(built, overlay=whole, notes=(f"it needs no tree: its overlay has all {len(whole.a)} links",))


def _problems(run: RunConfig, built: Mapped, beside: Path | None) -> Iterator[Problem]:
    """Yields what the protocol of a run cannot run with."""
    scenario, spec = run.scenario, PROTOCOLS[run.scenario.protocol.name]
    overlay, workload, faults = built.overlay, built.workload, built.faults
    yield from _several_origins(run, beside)
    if spec.check is not None:
        yield from spec.check(scenario.protocol, overlay, workload, faults)
    if len(faults.replacement) and not spec.program.notices_links:
        yield _keeps_overlay(spec.name)
    if scenario.overlay.start == "joining" and not spec.builds_overlay:
        yield _needs_overlay(spec.name)
    yield from _not_taken(spec, overlay, workload)


def _several_origins(run: RunConfig, beside: Path | None) -> Iterator[Problem]:
    """Yields that several parts have timestamps, and none says which time is round 0."""
    scenario = run.scenario
    if scenario.time.origin is not None:
        return
    places = timestamped(scenario.workload, beside)
    places += [place for place, path, trace in named_traces(scenario.faults, beside) if has_timestamps(path, trace)]
    listed = next(listed_timestamps(calls(scenario.workload, scenario.faults)), None)
    places += [] if listed is None else [".".join(map(str, listed))]
    if len(places) > 1:
        message = f"{' and '.join(places)} have timestamps; set time.origin to the time of round 0, which they share"
        yield Problem(("time",), message)


def trace_notes(run: RunConfig, beside: Path | None) -> list[str]:
    """Returns how the times in a run's files of outages became rounds, a sentence each."""
    scenario = run.scenario
    return [
        note
        for _, path, trace in named_traces(scenario.faults, beside)
        for note in outage_notes(path, trace, scenario.time.clock)
    ]


def rounding_notes(run: RunConfig) -> list[str]:
    """Returns the largest rounding error of the times that a scenario lists, as a sentence; none without an error."""
    scenario = run.scenario
    error, place = rounding_error_ms(scenario.time, calls(scenario.workload, scenario.faults))
    if error == 0:
        return []
    return [f"rounds are up to {error:.3g} ms away from at_ms and until_ms, farthest at {'.'.join(map(str, place))}"]


def build_run_overlay(
    run: RunConfig, beside: Path | None, *, notes_rounding: bool = False, keeps_links: bool = False
) -> Overlay:
    """Builds the overlay of one run; arguments, errors and notes as in `build_overlay`."""
    scenario = run.scenario
    return build_overlay(
        scenario.overlay, seed=run.seed, round_ms=scenario.time.round_ms,
        needs_tree=needs_tree(run.protocols or [scenario.protocol.name]), beside=beside,
        notes_rounding=notes_rounding, keeps_links=keeps_links,
    )  # fmt: skip


def _roles(overlay: Overlay, spec: Protocol) -> list[str]:
    brokers, clients = (
        [role] * n for role, n in zip(overlay.roles, (overlay.n_brokers, overlay.n_clients), strict=True)
    )
    return [*brokers, *([spec.servers or "server"] * overlay.n_servers), *clients]


def _not_taken(spec: Protocol, overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    """Yields servers and calls that the protocol knows nothing of."""
    if overlay.n_servers and spec.servers is None:
        served = ", ".join(one.name for one in PROTOCOLS.values() if one.servers)
        message = f"protocol {spec.name} has no servers; leave them out, or take protocol {served}"
        yield Problem(("overlay", "servers"), message)
    for index, kind in enumerate(workload.other_call["kind"].to_pylist()):
        if kind not in spec.calls:
            allowed = (
                f"allowed: {', '.join(spec.calls)}"
                if spec.calls
                else "it takes none but subscriptions and publications"
            )
            yield Problem(("workload", "calls", index, "kind"), f"protocol {spec.name} takes no call {kind}; {allowed}")


def _other_overlay(spec: Protocol) -> Problem:
    if spec.makes_overlay:
        return Problem(("overlay",), f"protocol {spec.name} makes its overlay itself; allowed: overlay.nodes")
    makers = ", ".join(one.name for one in PROTOCOLS.values() if one.makes_overlay)
    message = f"protocol {spec.name} needs links; allowed: links, file, topohub, generate, or protocol {makers}"
    return Problem(("overlay", "nodes"), message)


def _keeps_overlay(protocol: str) -> Problem:
    allowed = ", ".join(spec.name for spec in PROTOCOLS.values() if spec.program.notices_links)
    message = (
        f"protocol {protocol} keeps its overlay, and a fault replaces links; allowed: protocol {allowed}, or break"
    )
    return Problem(("faults",), message)


def _needs_overlay(protocol: str) -> Problem:
    message = (
        f"protocol {protocol} needs an overlay to begin with; allowed: joined, and workload.joins for single nodes"
    )
    return Problem(("overlay", "start"), message)


def message_kinds(protocol: str) -> Sequence[str]:
    """Returns the kinds of messages that a protocol sends."""
    return PROTOCOLS[protocol].kinds


def _run_tables(run: RunConfig, built: Built, shared: dict[str, pa.Table] | None) -> dict[str, pa.Table]:
    """Returns the tables of a run; those of overlay and workload are taken from ``shared``, if it is given."""
    overlay, workload, faults = built
    of_faults: dict[str, pa.Table] = vars(faults)
    if shared is not None:
        return {**shared, **of_faults}
    n_nodes = len(overlay.names)
    n_subscriptions = len(workload.subscription)
    return {
        "node": pa.table({
            "node_id": np.arange(n_nodes), "name": pa.array(overlay.names),
            "role": pa.array(_roles(overlay, PROTOCOLS[run.scenario.protocol.name])),
        }),
        "link": pa.table({
            "src": np.concatenate([overlay.a, overlay.b]), "dst": np.concatenate([overlay.b, overlay.a]),
            "latency_rounds": overlay.directed_rounds,
        }),
        "call": run_calls(run, overlay, workload),
        "subscription": pa.table({
            "subscription_id": np.arange(n_subscriptions), "subscriber": workload.subscription["node_id"],
            "predicate": workload.subscription["predicate"],
        }),
        "publication": workload.publication.append_column("publication", row_numbers(workload.publication)),
        "predicate": predicate_rows(workload.subscription).rename_columns({"subscription": "subscription_id"}),
        "attribute": workload.attribute,
        **of_faults,
    }  # fmt: skip


def setting_rows(runs: Sequence[RunConfig]) -> pa.Table:
    """Returns the settings of runs of one protocol.

    Returns:
        One row a run: ``run_id``, ``seed``, the protocol's settings but for those that have parts, and all of them as
        JSON in `SETTINGS_JSON`.
    """
    given: list[dict[str, Any]] = [
        {"seed": run.seed, **run.scenario.protocol.model_dump(exclude={"name"})} for run in runs
    ]
    plain = [name for name in given[0] if not any(isinstance(one[name], (list, dict)) for one in given)]
    return pa.table({
        "run_id": pa.array([run.run_id for run in runs], pa.int64()),
        **{name: [one[name] for one in given] for name in plain},
        SETTINGS_JSON: [json.dumps(one, sort_keys=True) for one in given],
    })  # fmt: skip


def parameters_json(run: RunConfig) -> str:
    """Returns the protocol's settings and a run's grid values as JSON, path to value, with sorted keys.

    A grid value that is a whole protocol is there as its settings.
    """
    settings = {f"protocol.{name}": value for name, value in run.scenario.protocol.model_dump().items()}
    given = {path: value for path, value in run.parameters.items() if path != "protocol"}
    return json.dumps({**settings, **given}, sort_keys=True)
