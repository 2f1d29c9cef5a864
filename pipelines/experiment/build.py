"""Builds the input tables of all runs: nodes, links, calls, predicates, attributes and faults.

The driver computes the tables from the scenario and from hashes of the seed, so the tables are equal on all engines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.predicate import predicate_rows, topics_of
from pipelines.contract.protocol import SETTINGS_JSON, Protocol
from pipelines.contract.run_inputs import JOIN, Inputs, Ints, Overlay, Workload, index_in_group, row_numbers, table_of
from pipelines.errors import InputError, Problem, raise_problems
from pipelines.experiment.mapping import Mapped, mapped, needs_tree
from pipelines.inputs.faults.build import build_faults, named_traces
from pipelines.inputs.faults.recorded import has_timestamps
from pipelines.inputs.overlay.build import build_overlay, graph_of
from pipelines.inputs.workload.build import build_workload, workload_files
from pipelines.inputs.workload.file_source import timestamp_settings
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.load import RunConfig
from pipelines.scenario.model import calls
from pipelines.scenario.overlay import SUBSCRIBER, SUPERVISOR
from pipelines.scenario.times import listed_timestamps

_CALL_COLUMNS = [
    "node_id", "round", "kind", "subscription_id", "join_point", "topic", "guarantee", "keys", "peer", "role",
]  # fmt: skip
_CALL_ORDER = pa.array(
    ["join", "subscribe", "unsubscribe", "publish", "register", "deregister", "steer", "leave", "remove"]
)
"""The kinds of calls, in the order in which a node accepts the calls of one round."""


_RUNS_PER_CHUNK = 100
"""Number of runs whose tables are combined at a time.

The separate tables of a run take 110 KB of memory, of which the rows need only 10 KB.
"""


def build_inputs(
    runs: Sequence[RunConfig], beside: Path | None, observe: Callable[[int], None] = lambda _: None,
    built: Sequence[Mapped] | None = None,
) -> Inputs:  # fmt: skip
    """Builds the input tables of all runs; raises the errors of `build_run`.

    Args:
        runs: The runs.
        beside: Folder of the scenario file, for relative paths.
        observe: A callback that receives the number of built runs after each run.
        built: The results of `build_run` for all runs; None calls `build_run`.
    """
    parts: dict[str, list[pa.Table]] = {name: [] for name in Inputs.__dataclass_fields__}
    chunks: list[Inputs] = []
    before: Mapped | None = None
    tables = dict[str, pa.Table]()
    for number, run in enumerate(runs, 1):
        of_run = build_run(run, beside) if built is None else built[number - 1]
        is_shared = before is not None and of_run.overlay is before.overlay and of_run.workload is before.workload
        tables, before = run_tables(run, of_run, tables if is_shared else None), of_run
        for name, rows in tables.items():
            if len(rows) or not parts[name]:
                parts[name].append(rows.add_column(0, "run_id", pa.array(np.full(len(rows), run.run_id), pa.int64())))
        observe(number)
        if number % _RUNS_PER_CHUNK == 0 or number == len(runs):
            chunks.append(with_numbers({name: _combined(rows) for name, rows in parts.items() if rows}))
            parts = {name: [] for name in parts}
    whole = Inputs(**{name: _combined([getattr(one, name) for one in chunks]) for name in parts})
    pa.default_memory_pool().release_unused()  # at 10,000 runs, this releases 290 of 720 MB
    return whole


def _combined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def build_run(run: RunConfig, beside: Path | None, before: Mapped | None = None) -> Mapped:
    """Builds the inputs of one run. If the scenario has several protocols, adapts the inputs to the run's protocol.

    ``beside`` is the folder of the scenario file, for relative paths. If ``before`` is the result for a run that
    differs from this run only in faults, its overlay and workload are reused. Only a scenario with one protocol may
    reuse them.

    Raises:
        InputError: The inputs are invalid, or the protocol does not support them.
    """
    scenario = run.scenario
    overlay = build_run_overlay(run, beside) if before is None else before.overlay
    spec = PROTOCOLS[scenario.protocol.name]
    is_without_links = scenario.overlay.nodes is not None
    if spec.creates_links != is_without_links and (is_without_links or not run.protocols):
        raise InputError(_other_overlay(spec))
    workload = before.workload if before is not None else build_workload(
        scenario.workload, overlay=overlay, seed=run.seed, time=scenario.time, beside=beside,
    )  # fmt: skip
    linked = _with_all_links(run, overlay, beside) if run.protocols else overlay
    faults = build_faults(
        scenario.faults, overlay=overlay, linked=None if spec.creates_links else linked, seed=run.seed,
        time=scenario.time, beside=beside, kinds=spec.kinds,
    )  # fmt: skip
    built = Mapped(overlay, workload, faults)
    if linked is not overlay:
        built = built._replace(overlay=linked, notes=(f"uses all {len(linked.a)} links, because it needs no tree",))
    if run.protocols:
        built = mapped(spec, built)
    raise_problems(_problems(run, built, beside))
    return built


def _with_all_links(run: RunConfig, overlay: Overlay, beside: Path | None) -> Overlay:
    """Returns ``overlay`` with all links of the graph instead of a tree, if the run's protocol needs no tree."""
    spec = PROTOCOLS[run.scenario.protocol.name]
    if spec.needs_tree or spec.creates_links or not needs_tree(run.protocols):
        return overlay
    whole = build_run_overlay(run, beside, keeps_links=True)
    return overlay if len(whole.a) == len(overlay.a) else whole


def _problems(run: RunConfig, built: Mapped, beside: Path | None) -> Iterator[Problem]:
    scenario, spec = run.scenario, PROTOCOLS[run.scenario.protocol.name]
    overlay, workload, faults, _ = built
    yield from _several_origins(run, beside)
    if spec.check is not None:
        yield from spec.check(scenario.protocol, overlay, workload, faults)
    if len(faults.replacement) and not spec.program.notices_links:
        allowed = ", ".join(one.name for one in PROTOCOLS.values() if one.program.notices_links)
        message = f"protocol {spec.name} keeps its overlay, and a fault replaces links; allowed: protocol {allowed}, or"
        yield Problem(("faults",), f"{message} break")
    if scenario.overlay.start == "joining" and not spec.starts_by_joins:
        allowed = f"allowed: joined{', and workload.joins for single nodes' if spec.takes_joins else ''}"
        yield Problem(("overlay", "start"), f"protocol {spec.name} needs an overlay to begin with; {allowed}")
    yield from _not_taken(spec, overlay, workload)


def _several_origins(run: RunConfig, beside: Path | None) -> Iterator[Problem]:
    """Yields a problem if several input files have timestamps and the scenario does not set the time of round 0."""
    scenario = run.scenario
    if scenario.time.origin is not None:
        return
    files = workload_files(scenario.workload)
    places = [setting for place, file in files for setting in timestamp_settings(file, place, beside)]
    places += [place for place, path, trace in named_traces(scenario.faults, beside) if has_timestamps(path, trace)]
    listed = next(listed_timestamps(calls(scenario.workload, scenario.faults)), None)
    places += [] if listed is None else [".".join(map(str, listed))]
    if len(places) > 1:
        message = f"{' and '.join(places)} have timestamps; set time.origin to the time of round 0, which they share"
        yield Problem(("time",), message)


def build_run_overlay(
    run: RunConfig, beside: Path | None, *, notes_rounding: bool = False, keeps_links: bool = False
) -> Overlay:
    """Builds the overlay of one run; keyword arguments and errors are those of `build_overlay`."""
    scenario = run.scenario
    return build_overlay(
        scenario.overlay, seed=run.seed, round_ms=scenario.time.round_ms,
        needs_tree=needs_tree(run.protocols or [scenario.protocol.name]), beside=beside,
        notes_rounding=notes_rounding, keeps_links=keeps_links,
    )  # fmt: skip


def _roles(overlay: Overlay, spec: Protocol) -> list[str]:
    broker, client = (SUPERVISOR, SUBSCRIBER) if spec.creates_links else ("broker", "client")
    servers = [spec.servers or "server"] * overlay.n_servers
    return [*[broker] * overlay.n_brokers, *servers, *[client] * overlay.n_clients]


def _not_taken(spec: Protocol, overlay: Overlay, workload: Workload) -> Iterator[Problem]:
    if overlay.n_servers and spec.servers is None:
        served = ", ".join(one.name for one in PROTOCOLS.values() if one.servers)
        message = f"protocol {spec.name} has no servers; leave them out, or take protocol {served}"
        yield Problem(("overlay", "servers"), message)
    if len(workload.join) and not spec.takes_joins:
        takers = ", ".join(one.name for one in PROTOCOLS.values() if one.takes_joins)
        of_servers = "; its servers join by workload.calls, kind: join" if "join" in spec.calls else ""
        message = f"nodes of protocol {spec.name} are linked from the start; leave joins out, or take protocol {takers}"
        yield Problem(("workload", "joins"), f"{message}{of_servers}")
    for index, kind in enumerate(workload.other_call["kind"].to_pylist()):
        if kind not in spec.calls:
            named = f"allowed: {', '.join(spec.calls)}"
            allowed = named if spec.calls else "allowed: only subscriptions and publications"
            yield Problem(
                ("workload", "calls", index, "kind"), f"protocol {spec.name} does not support call {kind}; {allowed}"
            )


def _other_overlay(spec: Protocol) -> Problem:
    if spec.creates_links:
        return Problem(("overlay",), f"protocol {spec.name} builds its own overlay; allowed: overlay.nodes")
    makers = ", ".join(one.name for one in PROTOCOLS.values() if one.creates_links)
    message = f"protocol {spec.name} needs links; allowed: links, file, topohub, generate, or protocol {makers}"
    return Problem(("overlay", "nodes"), message)


def run_tables(run: RunConfig, built: Mapped, shared: dict[str, pa.Table] | None = None) -> dict[str, pa.Table]:
    """Returns the input tables of a run, without ``run_id``.

    ``shared`` contains the tables of overlay and workload; None builds them.
    """
    overlay, workload, faults, _ = built
    of_faults: dict[str, pa.Table] = vars(faults)
    if shared is not None:
        return {**shared, **of_faults}
    n_nodes = len(overlay.names)
    n_subscriptions = len(workload.subscription)
    src, dst = overlay.directed_links
    calls = run_calls(run, overlay, workload)
    return {
        "node": pa.table({
            "node_id": np.arange(n_nodes), "name": pa.array(overlay.names),
            "role": pa.array(_roles(overlay, PROTOCOLS[run.scenario.protocol.name])),
        }),
        "link": pa.table({"src": src, "dst": dst, "latency_rounds": overlay.directed_rounds}),
        "call": calls,
        "subscription": pa.table({
            "subscription_id": np.arange(n_subscriptions), "subscriber": workload.subscription["node_id"],
            "predicate": workload.subscription["predicate"],
        }),
        "publication": workload.publication,
        "predicate": predicate_rows(workload.subscription).rename_columns({"subscription": "subscription_id"}),
        "attribute": workload.attribute,
        "size": pa.table({"n_state_rows": [n_state_rows(run, overlay, workload, len(calls))]}),
        **of_faults,
    }  # fmt: skip


def n_state_rows(run: RunConfig, overlay: Overlay, workload: Workload, n_calls: int) -> int:
    """Estimates the state rows of a run: each node stores each subscription, and what its protocol adds."""
    spec, n_nodes = PROTOCOLS[run.scenario.protocol.name], len(overlay.names)
    more = 0 if spec.more_rows is None else spec.more_rows(run.scenario.protocol, overlay)
    return n_nodes * (len(workload.subscription) + 1) + 2 * len(overlay.a) + n_calls + more


def setting_rows(runs: Sequence[RunConfig]) -> pa.Table:
    """Returns the settings of runs that have the same protocol.

    Returns:
        One row per run: ``run_id``, ``seed``, a column for each scalar setting, and all settings as JSON in column
        `SETTINGS_JSON`.
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
    """Returns the protocol settings and grid values of a run as a JSON object, keyed by path and sorted.

    The grid value ``protocol``, which replaces the whole protocol, is represented by its settings.
    """
    settings = {f"protocol.{name}": value for name, value in run.scenario.protocol.model_dump().items()}
    given = {path: value for path, value in run.parameters.items() if path != "protocol"}
    return json.dumps({**settings, **given}, sort_keys=True)


def run_calls(run: RunConfig, overlay: Overlay, workload: Workload) -> pa.Table:
    """Returns the calls of a run, grouped by type, in the order of the workload.

    Unsubscriptions after the horizon are omitted.
    """
    subscribe = workload.subscription.append_column("subscription_id", row_numbers(workload.subscription))
    subscribe = subscribe.append_column("topic", topics_of(subscribe["predicate"], is_alone=False))
    ended = subscribe.filter(pc.less_equal(subscribe["end_round"], run.scenario.time.rounds)).drop_columns("round")
    is_joining = run.scenario.overlay.start == "joining"
    rows = {
        "join": _starting_joins(overlay, run.scenario.overlay.join_root) if is_joining else workload.join,
        "subscribe": subscribe,
        "unsubscribe": ended.rename_columns({"end_round": "round"}),
        "publish": workload.publication,
    }
    named = [of_kind.append_column("kind", pa.repeat(kind, len(of_kind))) for kind, of_kind in rows.items()]
    return pa.concat_tables([*named, workload.other_call], promote_options="default").select(_CALL_COLUMNS)


def _starting_joins(overlay: Overlay, root: str | None) -> pa.Table:
    """Returns the joins of ``overlay.start: joining``: each node joins at its neighbour on the path to ``root``."""
    parent = dict(nx.bfs_predecessors(graph_of(overlay), 0 if root is None else overlay.names.index(root)))
    return table_of([(node, parent[node], 0) for node in sorted(parent)], JOIN)


def with_numbers(tables: dict[str, pa.Table]) -> Inputs:
    """Numbers the calls of each node from 1, postpones the calls of paused nodes, and returns the input tables.

    The joins of a node have the lowest numbers. Its other calls are numbered in the order of round, type, and index in
    the workload.
    """
    call = tables["call"]
    owner, round_ = (_ints(call["run_id"]) << 32) + _ints(call["node_id"]), _ints(call["round"])
    kind = _ints(pc.index_in(call["kind"], value_set=_CALL_ORDER))
    order = np.lexsort((np.arange(len(call)), kind, round_, kind != 0, owner))
    seq = np.empty(len(call), dtype=np.int64)
    seq[order] = index_in_group(owner[order]) + 1
    call = call.append_column("source_seq", pa.array(seq))
    call = call.set_column(call.column_names.index("round"), "round", pa.array(_postponed(call, tables["pause"])))
    # The publications of a run, and its calls of type publish, are in the order of the workload.
    published, publication = call.filter(pc.equal(call["kind"], "publish")), tables["publication"]
    publication = publication.rename_columns({"node_id": "source"})
    publication = publication.append_column("source_seq", published["source_seq"])
    attribute = tables["attribute"]
    first = np.searchsorted(_ints(publication["run_id"]), _ints(attribute["run_id"]))
    of_attribute = published.take(pa.array(first + _ints(attribute["publication"])))
    for name, of_call in (("source", "node_id"), ("source_seq", "source_seq"), ("round", "round")):
        attribute = attribute.append_column(name, of_attribute[of_call])
    values = ["attribute", "number", "whole", "text"]
    return Inputs(**tables | {
        "call": call,
        "publication": publication.select(["run_id", "source", "source_seq", "topic", "content", "guarantee", "keys"]),
        "attribute": attribute.select(["run_id", "source", "source_seq", "round", *values]),
    })  # fmt: skip


def _postponed(call: pa.Table, pause: pa.Table) -> Ints:
    """Returns the round of each call: the round in which its node resumes if the node is paused, else its own round."""
    if not len(pause):
        return _ints(call["round"])
    key = ["run_id", "node_id"]
    calls = call.select([*key, "round"]).to_pandas().sort_values("round", kind="stable")
    pauses = pause.select([*key, "round", "end_round"]).to_pandas().sort_values("round")
    # The newest pause of the node ends later than its call, or the node has resumed.
    newest = pd.merge_asof(calls.reset_index(), pauses, on="round", by=key).set_index("index").sort_index()
    return np.asarray(newest[["round", "end_round"]].max(axis=1), dtype=np.int64)


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.to_numpy(), dtype=np.int64)
