"""The runs of an experiment as tables: nodes, links, application calls, predicates, contents and faults.

They are made on the driver from the scenario and hashes of the seed, so they are the same on every engine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.contract.spec import ProtocolSpec
from pipelines.errors import InputError, Problem
from pipelines.experiment.calls import row_numbers, run_calls, with_numbers
from pipelines.experiment.inputs import Inputs
from pipelines.inputs.faults.build import build_faults
from pipelines.inputs.faults.tables import Faults
from pipelines.inputs.overlay.build import build_overlay
from pipelines.inputs.overlay.graph import Overlay
from pipelines.inputs.workload.build import build_workload
from pipelines.inputs.workload.tables import Workload
from pipelines.matching.predicate_table import predicate_rows
from pipelines.protocols import PROTOCOLS, protocol_module
from pipelines.scenario.expand import RunConfig


def build_inputs(runs: Sequence[RunConfig], beside: Path | None) -> Inputs:
    """Builds overlays, workloads and faults of all runs.

    Args:
        runs: The expanded runs of one protocol.
        beside: Folder of the scenario file, for relative paths.

    Raises:
        OverlayError: An overlay cannot be built.
        WorkloadError: A workload does not fit its overlay.
        FaultError: Faults do not fit their overlay, or cannot be placed.
    """
    parts: dict[str, list[pa.Table]] = {name: [] for name in Inputs.__dataclass_fields__}
    for run in runs:
        for name, rows in _run_tables(run, build_run(run, beside)).items():
            parts[name].append(rows.add_column(0, "run_id", pa.array(np.full(len(rows), run.run_id), pa.int64())))
    tables = {
        name: pa.concat_tables(rows, promote_options="default").combine_chunks() for name, rows in parts.items() if rows
    }
    return with_numbers(tables)


def build_run(run: RunConfig, beside: Path | None) -> tuple[Overlay, Workload, Faults]:
    """Builds the overlay, the workload and the faults of one run; errors as in `build_inputs`.

    Raises:
        InputError: The protocol cannot run with them.
    """
    scenario = run.scenario
    overlay = build_overlay(
        scenario.overlay, seed=run.seed, round_ms=scenario.time.round_ms,
        needs_tree=PROTOCOLS[scenario.protocol.name].needs_tree, beside=beside,
    )  # fmt: skip
    spec = PROTOCOLS[scenario.protocol.name]
    if spec.makes_overlay != (scenario.overlay.nodes is not None):
        raise InputError(_other_overlay(spec))
    workload = build_workload(
        scenario.workload, overlay=overlay, seed=run.seed, horizon=scenario.time.rounds, beside=beside
    )
    faults = build_faults(
        scenario.faults, overlay=overlay, seed=run.seed, horizon=scenario.time.rounds, beside=beside,
        kinds=lambda: message_kinds(scenario.protocol.name),
    )  # fmt: skip
    problems = [] if spec.check is None else list(spec.check(scenario.protocol, overlay, workload, faults))
    if len(faults.replacement) and not spec.reconfigures:
        problems.append(_keeps_overlay(spec.name))
    if scenario.overlay.start == "joining" and not spec.builds_overlay:
        problems.append(_needs_overlay(spec.name))
    if problems:
        raise InputError(*problems)
    return overlay, workload, faults


def _other_overlay(spec: ProtocolSpec) -> Problem:
    if spec.makes_overlay:
        return Problem(("overlay",), f"protocol {spec.name} makes its overlay itself; allowed: overlay.nodes")
    makers = ", ".join(one.name for one in PROTOCOLS.values() if one.makes_overlay)
    message = f"protocol {spec.name} needs links; allowed: links, file, topohub, generate, or protocol {makers}"
    return Problem(("overlay", "nodes"), message)


def _keeps_overlay(protocol: str) -> Problem:
    allowed = ", ".join(spec.name for spec in PROTOCOLS.values() if spec.reconfigures)
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
    """Returns the kinds of messages that a protocol sends; loads its implementation."""
    return protocol_module(protocol).kinds


def _run_tables(run: RunConfig, built: tuple[Overlay, Workload, Faults]) -> dict[str, pa.Table]:
    overlay, workload, faults = built
    n_nodes = len(overlay.names)
    settings: dict[str, Any] = run.scenario.protocol.model_dump(exclude={"name"})
    n_subscriptions = len(workload.subscription)
    return {
        "node": pa.table({
            "node_id": np.arange(n_nodes), "name": pa.array(overlay.names),
            "role": pa.array([overlay.roles[0]] * overlay.n_brokers + [overlay.roles[1]] * overlay.n_clients),
        }),
        "link": pa.table({
            "src": np.concatenate([overlay.a, overlay.b]), "dst": np.concatenate([overlay.b, overlay.a]),
            "latency_rounds": np.concatenate([overlay.latency_rounds] * 2),
        }),
        "setting": pa.table({name: [value] for name, value in {"seed": run.seed, **settings}.items()}),
        "call": run_calls(run, overlay, workload),
        "subscription": pa.table({
            "subscription_id": np.arange(n_subscriptions), "subscriber": workload.subscription["node_id"],
            "predicate": workload.subscription["predicate"],
        }),
        "publication": workload.publication.append_column("publication", row_numbers(workload.publication)),
        "predicate": predicate_rows(workload.subscription).rename_columns({"subscription": "subscription_id"}),
        "attribute": workload.attribute,
        "crash": faults.crash,
        "link_fault": faults.link_fault,
        "side": faults.side,
        "pause": faults.pause,
        "replacement": faults.replacement,
        "fault_event": faults.fault_event,
    }  # fmt: skip


def parameters_json(run: RunConfig) -> str:
    """Returns the protocol's settings and a run's grid values as JSON, path to value, with sorted keys."""
    settings = {f"protocol.{name}": value for name, value in run.scenario.protocol.model_dump().items()}
    return json.dumps({**settings, **run.parameters}, sort_keys=True)
