"""The application calls of runs, numbered at their nodes, as Arrow tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.predicate import topics_of
from pipelines.contract.run_inputs import Overlay, Workload
from pipelines.experiment.inputs import Inputs
from pipelines.scenario.expand import RunConfig

_CALL_BODY = {
    "subscription_id": pa.int64(), "join_point": pa.int64(), "publication": pa.int64(),
    "topic": pa.string(), "guarantee": pa.string(), "keys": pa.list_(pa.string()),
    "peer": pa.int64(), "role": pa.string(),
}  # fmt: skip
_NO_CALLS = pa.schema(
    [("node_id", pa.int64()), ("round", pa.int64()), ("kind", pa.string()), *_CALL_BODY.items()]
).empty_table()
_CALL_ORDER = {
    "join": 0, "subscribe": 1, "unsubscribe": 2, "publish": 3, "register": 4, "deregister": 5, "steer": 6, "leave": 7,
    "remove": 8,
}  # fmt: skip


def row_numbers(rows: pa.Table) -> pa.Array:
    """Returns the position of each row of a table, from 0 on."""
    return pa.array(np.arange(len(rows)), pa.int64())


def run_calls(run: RunConfig, overlay: Overlay, workload: Workload) -> pa.Table:
    """Returns all calls of a run in the order of their source; those after the horizon never come."""
    subscribe, publish = workload.subscription, workload.publication
    ended = subscribe.append_column("subscription_id", row_numbers(subscribe)).filter(
        pc.less_equal(subscribe["end_round"], run.scenario.time.rounds)
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
            subscription_id=row_numbers(subscribe),
            topic=topics_of(subscribe["predicate"], is_alone=False),
        ),
        _call_rows(
            "unsubscribe",
            ended["node_id"],
            ended["end_round"],
            subscription_id=ended["subscription_id"],
            topic=topics_of(ended["predicate"], is_alone=False),
        ),
        _call_rows(
            "publish",
            publish["node_id"],
            publish["round"],
            publication=row_numbers(publish),
            **{name: publish[name] for name in ("topic", "guarantee", "keys")},
        ),
        _other_rows(workload.other_call),
    ]
    return pa.concat_tables(pieces)


def _call_rows(kind: str, node: pa.ChunkedArray, round_: pa.ChunkedArray, **body: Any) -> pa.Table:  # noqa: ANN401
    if not len(node):
        return _NO_CALLS
    rows: dict[str, Any] = {"node_id": node, "round": round_, "kind": pa.array([kind] * len(node), pa.string())}
    for name, of_type in _CALL_BODY.items():
        rows[name] = body.get(name, pa.nulls(len(node), of_type))
    return pa.table(rows)


def _other_rows(call: pa.Table) -> pa.Table:
    if not len(call):
        return _NO_CALLS
    names = ["node_id", "round", "kind", *_CALL_BODY]
    return pa.table({
        name: call[name] if name in call.column_names else pa.nulls(len(call), _CALL_BODY[name]) for name in names
    })  # fmt: skip


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


def with_numbers(tables: dict[str, pa.Table]) -> Inputs:
    """Numbers each node's calls from 1 in the order joins, then (round, kind, position in the source)."""
    call = tables["call"]
    run, node, round_ = (_ints(call[name]) for name in ("run_id", "node_id", "round"))
    kind = np.array([_CALL_ORDER[name] for name in call["kind"].to_pylist()], dtype=np.int64)
    order = np.lexsort((np.arange(len(call)), kind, round_, kind != 0, node, run))
    same = (run[order][1:] == run[order][:-1]) & (node[order][1:] == node[order][:-1])
    position = np.arange(len(call))
    first = np.maximum.accumulate(np.where(np.concatenate([[True], ~same])[: len(call)], position, 0))
    seq = np.empty(len(call), dtype=np.int64)
    seq[order] = position - first + 1
    call = call.append_column("source_seq", pa.array(seq))
    call = call.set_column(call.column_names.index("round"), "round", pa.array(postpone(call, tables["pause"])))
    published = call.filter(pc.equal(call["kind"], "publish"))
    published = published.select(["run_id", "publication", "node_id", "source_seq", "round"])
    published = published.rename_columns(["run_id", "publication", "source", "source_seq", "round"])
    key = ["run_id", "publication"]
    position = pa.array(np.arange(len(tables["publication"])))
    issued = (
        tables["publication"].select(key).append_column("position", position).join(published, key, join_type="inner")
    )
    publication = tables["publication"].take(issued["position"])  # a join carries no lists
    for name in ("source", "source_seq"):
        publication = publication.append_column(name, issued[name])
    attribute = tables["attribute"].join(published, key, join_type="inner")
    return Inputs(
        node=tables["node"], link=tables["link"], call=call.drop_columns(["publication"]),
        subscription=tables["subscription"], predicate=tables["predicate"],
        publication=publication.select(
            ["run_id", "source", "source_seq", "topic", "content", "guarantee", "keys"]
        ),
        attribute=attribute.select(["run_id", "source", "source_seq", "round", "attribute", "number", "whole", "text"]),
        crash=tables["crash"], link_fault=tables["link_fault"], nth_fault=tables["nth_fault"], side=tables["side"],
        pause=tables["pause"],
        replacement=tables["replacement"], fault_event=tables["fault_event"],
    )  # fmt: skip


def postpone(call: pa.Table, pause: pa.Table) -> npt.NDArray[np.int64]:
    """Returns the rounds of calls; those of a node that pauses then come when it resumes."""
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
    is_paused &= round_ < _ints(pause["end_round"])[newest]
    return np.where(is_paused, _ints(pause["end_round"])[newest], round_)


def _ints(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)
