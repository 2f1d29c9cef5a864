"""The runs of an experiment as tables: nodes, links, application calls, predicates, contents and faults.

They are made on the driver from the scenario and hashes of the seed, so they are the same on every engine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import InputError, Problem
from pipelines.faults.build import build_faults
from pipelines.faults.tables import Faults
from pipelines.overlay.build import build_overlay
from pipelines.overlay.graph import Overlay
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.expand import RunConfig
from pipelines.workload.build import build_workload
from pipelines.workload.predicate_table import predicate_rows, topics_of
from pipelines.workload.tables import Workload

_CALL_BODY = {
    "subscription_id": pa.int64(), "join_point": pa.int64(), "publication": pa.int64(),
    "topic": pa.string(), "guarantee": pa.string(), "keys": pa.list_(pa.string()),
}  # fmt: skip
_CALL_ORDER = {"join": 0, "subscribe": 1, "unsubscribe": 2, "publish": 3}


@dataclass(frozen=True)
class Inputs:
    """Everything that the runs are given, as Arrow tables with ``run_id``.

    Attributes:
        node: ``node_id, name, role``; one row a node.
        link: ``src, dst, latency_rounds``; two rows a link.
        setting: ``seed``, and one column a setting of the protocol; one row a run.
        call: ``node_id, source_seq, round, kind, subscription_id, join_point, topic, guarantee, keys``; one row a call.
        subscription: ``subscription_id, subscriber, predicate``.
        publication: ``source, source_seq, topic, content, guarantee, keys``.
        predicate: ``subscription_id, attribute, op, number, text``; one row a comparison.
        attribute: ``source, source_seq, round, attribute, number, text``; one row an attribute of a publication.
        crash: ``node_id, round, until``; one row a time for which a node is down, from round on and before until
            (null: for good); sorted by (run_id, round, node_id), with a round or more between two times of a node.
        link_fault: Columns of `faults.tables.LINK_FAULT`.
        side: Columns of `faults.tables.SIDE`.
        pause: Columns of `faults.tables.PAUSE`.
        replacement: Columns of `faults.tables.REPLACEMENT`.
        fault_event: Columns of `faults.tables.EVENT`.
    """

    node: pa.Table
    link: pa.Table
    setting: pa.Table
    call: pa.Table
    subscription: pa.Table
    publication: pa.Table
    predicate: pa.Table
    attribute: pa.Table
    crash: pa.Table
    link_fault: pa.Table
    side: pa.Table
    pause: pa.Table
    replacement: pa.Table
    fault_event: pa.Table

    def of_runs(self, first: int, last: int) -> Inputs:
        """Gives what the runs from one id to another are given."""
        tables = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Inputs(**{name: rows.filter(_is_between(rows["run_id"], first, last)) for name, rows in tables.items()})

    @property
    def latency(self) -> int | None:
        """The latency of every link, where it is one."""
        column = "latency_rounds"
        found = pc.unique(pa.chunked_array([*self.link[column].chunks, *self.replacement[column].chunks], pa.int64()))
        return found[0].as_py() if len(found) == 1 else None


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
    tables = {name: pa.concat_tables(rows).combine_chunks() for name, rows in parts.items() if rows}
    return _number_calls(tables)


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
    workload = build_workload(
        scenario.workload, overlay=overlay, seed=run.seed, horizon=scenario.time.rounds, beside=beside
    )
    faults = build_faults(
        scenario.faults, overlay=overlay, seed=run.seed, horizon=scenario.time.rounds, beside=beside,
        kinds=lambda: message_kinds(scenario.protocol.name),
    )  # fmt: skip
    spec = PROTOCOLS[scenario.protocol.name]
    problems = [] if spec.check is None else list(spec.check(scenario.protocol, overlay, workload, faults))
    if len(faults.replacement) and not spec.reconfigures:
        problems.append(_keeps_overlay(spec.name))
    if scenario.overlay.start == "joining" and not spec.builds_overlay:
        problems.append(_needs_overlay(spec.name))
    if problems:
        raise InputError(*problems)
    return overlay, workload, faults


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
    """Gives the kinds of messages that a protocol sends; loads its implementation."""
    from pipelines.execute import protocol_module

    return protocol_module(protocol).kinds


def _run_tables(run: RunConfig, built: tuple[Overlay, Workload, Faults]) -> dict[str, pa.Table]:
    overlay, workload, faults = built
    n_nodes = len(overlay.names)
    settings: dict[str, Any] = run.scenario.protocol.model_dump(exclude={"name"})
    n_subscriptions = len(workload.subscription)
    return {
        "node": pa.table({
            "node_id": np.arange(n_nodes), "name": pa.array(overlay.names),
            "role": pa.array(["broker"] * overlay.n_brokers + ["client"] * overlay.n_clients),
        }),
        "link": pa.table({
            "src": np.concatenate([overlay.a, overlay.b]), "dst": np.concatenate([overlay.b, overlay.a]),
            "latency_rounds": np.concatenate([overlay.latency_rounds] * 2),
        }),
        "setting": pa.table({name: [value] for name, value in {"seed": run.seed, **settings}.items()}),
        "call": _calls(run, overlay, workload),
        "subscription": pa.table({
            "subscription_id": np.arange(n_subscriptions), "subscriber": workload.subscription["node_id"],
            "predicate": workload.subscription["predicate"],
        }),
        "publication": workload.publication.append_column("publication", _index(workload.publication)),
        "predicate": predicate_rows(workload.subscription).rename_columns({"subscription": "subscription_id"}),
        "attribute": workload.attribute,
        "crash": faults.crash,
        "link_fault": faults.link_fault,
        "side": faults.side,
        "pause": faults.pause,
        "replacement": faults.replacement,
        "fault_event": faults.fault_event,
    }  # fmt: skip


def _index(rows: pa.Table) -> pa.Array:
    return pa.array(np.arange(len(rows)), pa.int64())


def _calls(run: RunConfig, overlay: Overlay, workload: Workload) -> pa.Table:
    """Gives all calls of a run in the order of their source; those after the horizon never come."""
    subscribe, publish = workload.subscription, workload.publication
    ended = subscribe.append_column("subscription_id", _index(subscribe)).filter(
        pc.less_equal(subscribe["until"], run.scenario.time.rounds)
    )
    joins = _starting_joins(overlay, run.scenario.overlay.join_root) if (
        run.scenario.overlay.start == "joining"
    ) else workload.join  # fmt: skip
    pieces = [
        _call_rows("join", joins["node_id"], joins["round"], join_point=joins["join_point"]),
        _call_rows(
            "subscribe",
            subscribe["node_id"],
            subscribe["round"],
            subscription_id=_index(subscribe),
            topic=topics_of(subscribe["predicate"]),
        ),
        _call_rows(
            "unsubscribe",
            ended["node_id"],
            ended["until"],
            subscription_id=ended["subscription_id"],
            topic=topics_of(ended["predicate"]),
        ),
        _call_rows(
            "publish",
            publish["node_id"],
            publish["round"],
            publication=_index(publish),
            **{name: publish[name] for name in ("topic", "guarantee", "keys")},
        ),
    ]
    return pa.concat_tables(pieces)


def _call_rows(kind: str, node: pa.ChunkedArray, round_: pa.ChunkedArray, **body: Any) -> pa.Table:  # noqa: ANN401
    rows: dict[str, Any] = {"node_id": node, "round": round_, "kind": pa.array([kind] * len(node), pa.string())}
    for name, of_type in _CALL_BODY.items():
        rows[name] = body.get(name, pa.nulls(len(node), of_type))
    return pa.table(rows)


def _starting_joins(overlay: Overlay, root: str | None) -> pa.Table:
    """Every node but the root joins at its neighbour towards the root, in round 0: `overlay.start: joining`."""
    neighbours: list[list[int]] = [[] for _ in overlay.names]
    for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True):
        neighbours[a].append(b)
        neighbours[b].append(a)
    order = [overlay.names.index(root) if root is not None else 0]
    parent = {order[0]: -1}
    for node in order:
        for other in neighbours[node]:
            if other not in parent:
                parent[other] = node
                order.append(other)
    joining = sorted(order[1:])
    return pa.table({
        "node_id": pa.array(joining, pa.int64()),
        "join_point": pa.array([parent[node] for node in joining], pa.int64()),
        "round": pa.array([0] * len(joining), pa.int64()),
    })  # fmt: skip


def _number_calls(tables: dict[str, pa.Table]) -> Inputs:
    """Numbers each node's calls from 1 in the order joins, then (round, kind, place in the source)."""
    call = tables["call"]
    run, node, round_ = (_ints(call[name]) for name in ("run_id", "node_id", "round"))
    kind = np.array([_CALL_ORDER[name] for name in call["kind"].to_pylist()], dtype=np.int64)
    order = np.lexsort((np.arange(len(call)), kind, round_, kind != 0, node, run))
    same = (run[order][1:] == run[order][:-1]) & (node[order][1:] == node[order][:-1])
    place = np.arange(len(call))
    first = np.maximum.accumulate(np.where(np.concatenate([[True], ~same])[: len(call)], place, 0))
    seq = np.empty(len(call), dtype=np.int64)
    seq[order] = place - first + 1
    call = call.append_column("source_seq", pa.array(seq))
    call = call.set_column(call.column_names.index("round"), "round", pa.array(postponed(call, tables["pause"])))
    published = call.filter(pc.equal(call["kind"], "publish"))
    published = published.select(["run_id", "publication", "node_id", "source_seq", "round"])
    published = published.rename_columns(["run_id", "publication", "source", "source_seq", "round"])
    key = ["run_id", "publication"]
    place = pa.array(np.arange(len(tables["publication"])))
    issued = tables["publication"].select(key).append_column("place", place).join(published, key, join_type="inner")
    publication = tables["publication"].take(issued["place"])  # a join carries no lists
    for name in ("source", "source_seq"):
        publication = publication.append_column(name, issued[name])
    attribute = tables["attribute"].join(published, key, join_type="inner")
    return Inputs(
        node=tables["node"], link=tables["link"], setting=tables["setting"], call=call.drop_columns(["publication"]),
        subscription=tables["subscription"], predicate=tables["predicate"],
        publication=publication.select(
            ["run_id", "source", "source_seq", "topic", "content", "guarantee", "keys"]
        ),
        attribute=attribute.select(["run_id", "source", "source_seq", "round", "attribute", "number", "text"]),
        crash=tables["crash"], link_fault=tables["link_fault"], side=tables["side"], pause=tables["pause"],
        replacement=tables["replacement"], fault_event=tables["fault_event"],
    )  # fmt: skip


def _is_between(column: pa.ChunkedArray, first: int, last: int) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))


def postponed(call: pa.Table, pause: pa.Table) -> npt.NDArray[np.int64]:
    """Gives the rounds of calls; those of a node that pauses then come when it goes on."""
    round_ = _ints(call["round"])
    if not len(pause):
        return round_
    ends = [np.concatenate([_ints(table[name]) for table in (pause, call)]) for name in ("run_id", "node_id")]
    _, node = np.unique(np.stack(ends), axis=1, return_inverse=True)
    start = (node.ravel() << 32) + np.concatenate([_ints(pause["round"]), round_])
    order = np.argsort(start[: len(pause)])
    newest = np.searchsorted(start[: len(pause)][order], start[len(pause) :], side="right") - 1
    newest = order[np.maximum(newest, 0)]
    is_paused = (node.ravel()[newest] == node.ravel()[len(pause) :]) & (_ints(pause["round"])[newest] <= round_)
    is_paused &= round_ < _ints(pause["until"])[newest]
    return np.where(is_paused, _ints(pause["until"])[newest], round_)


def _ints(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def parameters_json(run: RunConfig) -> str:
    """Gives the protocol's settings and a run's grid values as JSON, path to value, with sorted keys."""
    settings = {f"protocol.{name}": value for name, value in run.scenario.protocol.model_dump().items()}
    return json.dumps({**settings, **run.parameters}, sort_keys=True)
