"""Adapts the inputs that several protocols share to each protocol.

A scenario with several protocols describes one network. `mapped` adapts this network to a protocol by five rules. Each
rule is named by the attribute of `Protocol` that it uses. The protocol's own checks run afterwards and reject
unsupported inputs.

1. ``needs_tree``: if a protocol of the scenario needs a tree, servers, clients, calls and faults are placed on a
   spanning tree of the graph. The protocols that need a tree get the links of the tree; all other protocols get all
   links.
2. ``creates_links``: if the protocol builds its overlay, its nodes are the clients (or all nodes if the overlay has no
   clients) and one supervisor. Links, brokers and servers are omitted, together with their faults. In a partition, the
   supervisor belongs to the first group.
3. ``servers``: if the protocol has no servers, the servers and their faults are omitted.
4. ``calls``: calls that the protocol does not support are omitted.
5. ``orders``: if a publication requests an order that the protocol does not support, the tables still contain the
   request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.protocol import Protocol
from pipelines.contract.run_inputs import Faults, Ints, Overlay, Workload
from pipelines.errors import Problem, listed, plural, raise_problems
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.overlay import SUPERVISOR

_GONE = -1
_ENDS = ("node_id", "src", "dst", "old_a", "old_b", "a", "b")


class Mapped(NamedTuple):
    """The inputs of a run, adapted to its protocol.

    Attributes:
        overlay: Nodes and links that the protocol uses.
        workload: The calls that the protocol supports.
        faults: The faults of the nodes and links in ``overlay``.
        notes: One sentence for each rule that changed an input.
    """

    overlay: Overlay
    workload: Workload
    faults: Faults
    notes: tuple[str, ...] = ()


def needs_tree(protocols: Sequence[str]) -> bool:
    """Returns whether at least one of ``protocols`` needs a tree."""
    return any(PROTOCOLS[name].needs_tree for name in protocols)


def mapped(spec: Protocol, given: Mapped) -> Mapped:
    """Returns the inputs of a run of protocol ``spec``, adapted from the inputs ``given`` that all protocols share.

    Raises:
        InputError: A node that the mapping omits makes a call.
    """
    notes = [*given.notes]
    kept = _kept_nodes(spec, given.overlay)
    if kept is not None:
        n_new = int(spec.creates_links)
        new_id = np.full(len(given.overlay.names), _GONE, dtype=np.int64)
        new_id[kept] = n_new + np.arange(len(kept))
        overlay = _of_nodes(spec, given.overlay, kept, new_id)
        notes.append(_overlay_note(spec, given.overlay, kept))
        workload = _moved_calls(spec, given, new_id)
        faults, left_out = _kept_faults(given, new_id, n_new)
        notes += left_out
        given = Mapped(overlay, workload, faults)
    workload, left_out = _taken_calls(spec, given.workload)
    return Mapped(given.overlay, workload, given.faults, (*notes, *left_out, *_order_notes(spec, workload)))


def _kept_nodes(spec: Protocol, overlay: Overlay) -> Ints | None:
    """Returns the ids of the nodes that the protocol keeps; None if it keeps the overlay unchanged."""
    everybody = np.arange(len(overlay.names), dtype=np.int64)
    if spec.creates_links and overlay.has_links:
        return everybody[overlay.first_client :] if overlay.n_clients else everybody
    if spec.servers is None and overlay.n_servers:
        return np.delete(everybody, np.s_[overlay.n_brokers : overlay.first_client])
    return None


def _of_nodes(spec: Protocol, overlay: Overlay, kept: Ints, new_id: Ints) -> Overlay:
    names = tuple(overlay.names[node] for node in kept.tolist())
    if spec.creates_links:
        none = np.zeros(0, dtype=np.int64)
        return Overlay((f"{SUPERVISOR}1", *names), none, none, none, len(names))
    a, b = new_id[overlay.a], new_id[overlay.b]
    has_both = (a != _GONE) & (b != _GONE)
    latency, back = (rounds[has_both] for rounds in overlay.directed_rounds.reshape(2, -1))
    of_kept = {"a": a[has_both], "b": b[has_both], "latency_rounds": latency, "back_rounds": back}
    return replace(overlay, names=names, n_servers=0, **of_kept)


def _overlay_note(spec: Protocol, overlay: Overlay, kept: Ints) -> str:
    if not spec.creates_links:
        return f"omits {plural(overlay.n_servers, 'server')}, because it has no servers"
    whose = "clients" if overlay.n_clients else "nodes"
    return f"builds its own overlay of {len(kept)} {whose} and a supervisor, without links, brokers and servers"


def _moved_calls(spec: Protocol, given: Mapped, new_id: Ints) -> Workload:
    workload = given.workload
    has = "only clients" if spec.creates_links else "no servers"
    parts = {"subscriptions": "subscription", "publications": "publication", "joins": "join"}
    problems = [
        Problem(("workload", part, index), f"{given.overlay.names[node]!r} is not a node of protocol {spec.name}, which"
                f" has {has}; allowed: a {'client' if spec.creates_links else 'broker or client'}")
        for part, name in parts.items()
        for index, node in enumerate(getattr(workload, name)["node_id"].to_pylist())
        if new_id[node] == _GONE
    ]  # fmt: skip
    raise_problems(problems)
    moved = {name: _renumbered(getattr(workload, name), new_id) for name in (*parts.values(), "other_call")}
    return replace(workload, **moved)


def _kept_faults(given: Mapped, new_id: Ints, n_new: int) -> tuple[Faults, Iterator[str]]:
    """Returns the faults of the kept nodes, and a note for each type of omitted fault.

    ``new_id`` contains the new id of each node, or `_GONE` if the node is omitted. The protocol adds ``n_new`` nodes,
    which have the lowest ids and belong to the first group of each partition.
    """
    moved = {name: _renumbered(table, new_id) for name, table in vars(given.faults).items()}
    sides = moved["side"]
    if n_new and len(sides):
        times = sides.group_by(["round", "end_round"]).aggregate([("side", "min")]).to_pylist()
        rows = [
            {"node_id": node, "round": one["round"], "end_round": one["end_round"], "side": one["side_min"]}
            for node in range(n_new) for one in times
        ]  # fmt: skip
        moved["side"] = pa.concat_tables([pa.Table.from_pylist(rows, sides.schema), sides])
    return Faults(**moved), _omission_notes(given, moved, new_id)


def _omission_notes(given: Mapped, kept: Mapping[str, pa.Table], new_id: Ints) -> Iterator[str]:
    names = given.overlay.names
    for table, what in (("crash", "crashes"), ("pause", "pauses")):
        nodes = getattr(given.faults, table)["node_id"].to_pylist()
        gone = [names[node] for node in dict.fromkeys(nodes) if new_id[node] == _GONE]
        if gone:
            yield f"omits {what} of nodes that it does not have: {listed(gone, 5)}"
    n_gone = sum(len(getattr(given.faults, name)) - len(kept[name]) for name in ("link_fault", "nth_fault"))
    if n_gone:
        yield f"omits {plural(n_gone, 'fault')} of single links"


def _renumbered(rows: pa.Table, new_id: Ints) -> pa.Table:
    """Replaces the node ids in ``rows``, and drops the rows of omitted nodes; null ids stay null."""
    for name in (name for name in (*_ENDS, "peer") if name in rows.column_names):
        ids = pa.array(new_id).take(pc.cast(rows[name], pa.int64()))
        rows = rows.set_column(rows.column_names.index(name), name, ids)
        if name != "peer":
            rows = rows.filter(pc.fill_null(pc.not_equal(rows[name], _GONE), fill_value=True))
    return rows


def _taken_calls(spec: Protocol, workload: Workload) -> tuple[Workload, Iterator[str]]:
    calls = workload.other_call
    taken = calls.filter(pc.is_in(calls["kind"], pa.array(spec.calls, pa.string())))
    kinds = [kind for kind in dict.fromkeys(calls["kind"].to_pylist()) if kind not in spec.calls]
    notes = (f"omits calls {kind}, which it does not support" for kind in kinds)
    return replace(workload, other_call=taken), notes


def _order_notes(spec: Protocol, workload: Workload) -> Iterator[str]:
    asked = {order for order in workload.publication["guarantee"].to_pylist() if order is not None}
    if unseen := sorted(asked - set(spec.orders)):
        yield f"does not guarantee an order that a publication requests: {', '.join(unseen)}"
