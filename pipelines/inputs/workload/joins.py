"""Nodes that join the overlay while a run goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import networkx as nx
import numpy as np
import pyarrow as pa

from pipelines.contract.run_inputs import JOIN, Overlay
from pipelines.errors import Problem, WorkloadError
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.nodes import Place, choose_nodes, ids_by_name, unknown_node
from pipelines.inputs.workload.lists import after_horizon
from pipelines.scenario.workload import GeneratedJoins, Join

_PLACE: Place = ("workload", "joins")
_PURPOSE = "workload.joins"


def listed_joins(joins: Sequence[Join], overlay: Overlay, horizon: int) -> pa.Table:
    """Returns the join table of a list.

    A joining node has no link before: its links are the one to its join point, and those to nodes that join
    through it later. So the nodes that are there from the start stay connected at all times.

    Raises:
        WorkloadError: All that is wrong with the list, each at its place.
    """
    if not joins:
        return JOIN.empty_table()
    ids = ids_by_name(overlay)
    problems = [*_unknown(joins, ids, overlay), *_untimely(joins, horizon)]
    if not problems:
        problems += _unlinked(joins, overlay)
    if problems:
        raise WorkloadError(*problems)
    columns = [[ids[join.node] for join in joins], [ids[join.to] for join in joins], [join.round for join in joins]]
    return pa.table(columns, schema=JOIN)


def generated_joins(spec: GeneratedJoins, overlay: Overlay, seed: int, horizon: int) -> pa.Table:
    """Returns the join table of a generator.

    The last node to join is drawn from the ends of the overlay, that before it from the ends that remain without it,
    and so on; each joins at its one remaining neighbour.

    Raises:
        WorkloadError: The nodes cannot be chosen, there are too few ends, or too few rounds.
    """
    first, last = spec.rounds
    if last > horizon:
        raise WorkloadError(Problem((*_PLACE, "generate", "rounds"), after_horizon(last, horizon)))
    if spec.count > last - first + 1:
        message = f"{spec.count} joins do not fit in rounds {first} to {last}, one a round; give more rounds or fewer"
        raise WorkloadError(Problem((*_PLACE, "generate", "count"), message))
    graph = nx.Graph(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    chosen = choose_nodes(spec.nodes, overlay, seed, f"{_PURPOSE}.nodes", (*_PLACE, "generate", "nodes")).tolist()
    ends = {node for node in chosen if node < overlay.n_brokers and node in graph and graph.degree(node) == 1}
    allowed, rows = {node for node in chosen if node < overlay.n_brokers}, list[tuple[int, int]]()
    while len(rows) < spec.count:
        if not ends or len(graph) < 2:
            message = f"{spec.count} nodes are to join, and {len(rows)} can: each needs one link when it joins"
            raise WorkloadError(Problem((*_PLACE, "generate", "count"), f"{message}; give fewer, or another overlay"))
        ordered = sorted(ends)
        node = ordered[int(draws_numpy.integers(seed, f"{_PURPOSE}.node", 0, len(ordered) - 1, len(rows)))]
        (point,) = graph.neighbors(node)
        rows.append((node, point))
        graph.remove_node(node)
        ends.discard(node)
        ends = ends | {point} if point in allowed and graph.degree(point) == 1 else ends - {point}
    order = np.argsort(draws_numpy.bits(seed, f"{_PURPOSE}.round", np.arange(first, last + 1)), kind="stable")
    rounds = np.sort(order[: spec.count] + first)
    nodes, points = np.array(rows[::-1], dtype=np.int64).T
    return pa.table([pa.array(nodes), pa.array(points), pa.array(rounds.astype(np.int64))], schema=JOIN)


def _unknown(joins: Sequence[Join], ids: dict[str, int], overlay: Overlay) -> Iterator[Problem]:
    for i, join in enumerate(joins):
        for key, name in (("node", join.node), ("to", join.to)):
            if name not in ids:
                yield Problem((*_PLACE, i, key), unknown_node(name, overlay))


def _untimely(joins: Sequence[Join], horizon: int) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for i, join in enumerate(joins):
        if first.setdefault(join.node, i) != i:
            message = f"node {join.node!r} joins already by entry {first[join.node]}; a node joins once"
            yield Problem((*_PLACE, i, "node"), message)
        if join.round > horizon:
            yield Problem((*_PLACE, i, "round"), after_horizon(join.round, horizon))
    for i, join in enumerate(joins):
        point = joins[first[join.to]] if join.to in first else None
        if point is not None and point.round >= join.round:
            message = (
                f"node {join.node!r} joins in round {join.round} through {join.to!r}, which itself joins in round"
                f" {point.round}; give a round after {point.round}"
            )
            yield Problem((*_PLACE, i, "round"), message)


def _unlinked(joins: Sequence[Join], overlay: Overlay) -> Iterator[Problem]:
    neighbours = _neighbours(overlay, {name for join in joins for name in (join.node, join.to)})
    children: dict[str, set[str]] = defaultdict(set)
    for join in joins:
        children[join.to].add(join.node)
    for i, join in enumerate(joins):
        if join.to not in neighbours[join.node]:
            near = ", ".join(neighbours[join.to]) or "none"
            message = f"the overlay has no link {join.node} - {join.to}; neighbours of {join.to}: {near}; add the link"
            yield Problem((*_PLACE, i, "to"), message)
            continue
        others = [name for name in neighbours[join.node] if name != join.to and name not in children[join.node]]
        if others:
            message = (
                f"joining node {join.node!r} has links to {', '.join(others)} as well; besides its join point it can"
                f" only have links to nodes that join through it: remove these links, or let them join to {join.node!r}"
            )
            yield Problem((*_PLACE, i, "node"), message)


def _neighbours(overlay: Overlay, names: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in names}
    for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True):
        for one, other in ((overlay.names[a], overlay.names[b]), (overlay.names[b], overlay.names[a])):
            if one in found:
                found[one].append(other)
    return found
