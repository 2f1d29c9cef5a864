"""The calls that a scenario lists: subscriptions, publications, joins, moves and other calls.

No protocol hands a subscriber over from one node to another. A move therefore ends subscriptions at one node and begins
subscriptions with the same predicates at another node (protocol ``delta``, rule R37). The application loses the
publications between the end of the old subscriptions and the confirmation of the new subscriptions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.contract.predicate import canonical, parse_predicates, value_columns
from pipelines.contract.run_inputs import ATTRIBUTE, JOIN, OTHER_CALL, SUBSCRIPTION, Overlay
from pipelines.errors import InputError, KeyPath, PredicateError, Problem, plural, raise_problems
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.nodes import choose_nodes, graph_of, ids_by_name
from pipelines.inputs.workload.contents import publication_rows, to_json
from pipelines.scenario.workload import GeneratedJoins, Join, ListedPublication, ListedSubscription, Move, OtherCall

SUBSCRIPTIONS: KeyPath = ("workload", "subscriptions")
PUBLICATIONS: KeyPath = ("workload", "publications")
_MOVES: KeyPath = ("workload", "moves")
_SHOWN_MOVES = 3
_JOINS: KeyPath = ("workload", "joins")
_JOIN_PURPOSE = "workload.joins"


@lru_cache(maxsize=100_000)
def canonical_text(topic: str | None, where: str | None, *, is_mqtt: bool = False) -> str:
    """Returns the canonical form of a topic and a predicate. With `is_mqtt` the topic may be an MQTT filter."""
    return canonical(parse_predicates(topic, where, is_mqtt=is_mqtt))


def listed_subscriptions(listed: Sequence[ListedSubscription], overlay: Overlay, *, is_mqtt: bool) -> pa.Table:
    """Returns the listed subscriptions as table `SUBSCRIPTION`. With `is_mqtt` topics may be MQTT filters."""
    ids = ids_by_name(overlay)
    problems, texts = list[Problem](), list[str]()
    for index, item in enumerate(listed):
        try:
            texts.append(canonical_text(item.topic, item.where, is_mqtt=is_mqtt))
        except PredicateError as error:
            key = "where" if item.topic is None else "topic"
            problems.append(Problem((*SUBSCRIPTIONS, index, key), str(error)))
    raise_problems(problems)
    columns = [[ids[s.at] for s in listed], [s.round for s in listed], [s.until for s in listed], texts]
    return pa.table(columns, schema=SUBSCRIPTION)


def listed_publications(listed: Sequence[ListedPublication], overlay: Overlay) -> tuple[pa.Table, pa.Table]:
    """Returns the listed publications as tables `PUBLICATION` and `ATTRIBUTE`."""
    ids = ids_by_name(overlay)
    publication = publication_rows(
        np.array([ids[p.at] for p in listed], dtype=np.int64),
        np.array([p.round for p in listed], dtype=np.int64),
        pa.array([p.topic for p in listed], pa.string()),
        pa.array([to_json(p.content) for p in listed], pa.string()),
        pa.array([p.guarantee for p in listed], pa.string()),
        pa.array([p.keys or None for p in listed], pa.list_(pa.string())),
    )
    rows = [row for i, item in enumerate(listed) for row in _attributes(i, item)]
    columns = list(zip(*rows, strict=True)) or [()] * len(ATTRIBUTE)
    return publication, pa.table([list(column) for column in columns], schema=ATTRIBUTE)


def _attributes(row: int, item: ListedPublication) -> Iterator[tuple[int, str, float | None, int | None, str | None]]:
    if item.topic is not None:
        yield row, "topic", *value_columns(item.topic)
    for name in sorted(item.content):
        value = item.content[name]
        yield row, name, *value_columns(str(value).lower() if isinstance(value, bool) else value)


def listed_calls(listed: Sequence[OtherCall], overlay: Overlay) -> pa.Table:
    """Returns the calls in `listed`, for example register and leave, as table `OTHER_CALL`."""
    if not listed:
        return OTHER_CALL.empty_table()
    ids = ids_by_name(overlay)
    rows = [
        {**call.model_dump(), "node_id": ids[call.at], "peer": ids.get(getattr(call, "peer", ""))} for call in listed
    ]
    return pa.table({name: [row.get(name) for row in rows] for name in OTHER_CALL.names}, schema=OTHER_CALL)


def moved_subscriptions(subscription: pa.Table, moves: Sequence[Move], overlay: Overlay, horizon: int) -> pa.Table:
    """Applies all moves, in the order of their rounds, and returns the subscriptions of the run.

    A move sets ``end_round`` of the subscriptions at its old node to the round of the move. The moved subscriptions
    begin at the new node after ``away`` rounds, and their rows are appended to `subscription`. Subscriptions that end
    by this round are not moved.
    """
    if not moves:
        return subscription
    ids = ids_by_name(overlay)
    problems: list[Problem] = []
    rows: list[dict[str, Any]] = subscription.to_pylist()
    for index, move in sorted(enumerate(moves), key=lambda one: one[1].round):
        if (back := move.round + move.away) > horizon:
            late = f"round {back} is after the horizon of {horizon} rounds; give at most {horizon}"
            problems.append(Problem((*_MOVES, index, "away"), f"{late}, or raise time.rounds"))
        taken = [
            row for row in rows if row["node_id"] == ids[move.at]
            and row["round"] < move.round and (row["end_round"] is None or row["end_round"] > move.round)
        ]  # fmt: skip
        if not taken:
            message = f"{move.at} has no subscription in round {move.round} that it could take along"
            problems.append(Problem((*_MOVES, index, "round"), f"{message}; allowed: a round in which one stands"))
        for row in taken:
            end, row["end_round"] = row["end_round"], move.round
            if end is None or end > back:
                rows.append(row | {"node_id": ids[move.to], "round": back, "end_round": end})
    raise_problems(problems)
    return pa.Table.from_pylist(rows, SUBSCRIPTION)


def move_notes(moves: Sequence[Move]) -> list[str]:
    """Returns sentences on the publications that moving subscribers lose.

    Each of the first three moves has a sentence. The last sentence counts the other moves.
    """
    told = [
        f"{move.at} moves to {move.to}: it misses publications from round {move.round} until its subscriptions of "
        f"round {move.round + move.away} are confirmed at {move.to}, because no protocol transfers subscriptions"
        for move in moves[:_SHOWN_MOVES]
    ]
    n_more = len(moves) - _SHOWN_MOVES
    return told + ([f"the same applies to {plural(n_more, 'other move')}"] if n_more > 0 else [])


def listed_joins(joins: Sequence[Join], overlay: Overlay) -> pa.Table:
    """Returns the listed joins as table `JOIN`.

    A joining node has no link before it joins. It may have links only to its join point and to nodes that later join
    through it. In each round, the nodes that have joined are therefore connected.
    """
    if not joins:
        return JOIN.empty_table()
    ids = ids_by_name(overlay)
    raise_problems([*_untimely(joins)] or _unlinked(joins, overlay))
    columns = [[ids[join.node] for join in joins], [ids[join.to] for join in joins], [join.round for join in joins]]
    return pa.table(columns, schema=JOIN)


def generated_joins(spec: GeneratedJoins, overlay: Overlay, seed: int) -> pa.Table:
    """Returns drawn joins as table `JOIN`.

    The last node to join is a drawn leaf of the overlay. The node that joins before it is a drawn leaf of the remaining
    overlay, and so on. Each node joins at its only remaining neighbour.
    """
    first, last = spec.rounds
    if spec.count > last - first + 1:
        message = f"{spec.count} joins do not fit in rounds {first} to {last}, one a round; give more rounds or fewer"
        raise InputError(Problem((*_JOINS, "generate", "count"), message))
    graph = graph_of(overlay)
    chosen = choose_nodes(spec.nodes, overlay, seed, f"{_JOIN_PURPOSE}.nodes", (*_JOINS, "generate", "nodes")).tolist()
    ends = {node for node in chosen if node < overlay.n_brokers and graph.degree(node) == 1}
    allowed, rows = {node for node in chosen if node < overlay.n_brokers}, list[tuple[int, int]]()
    while len(rows) < spec.count:
        if not ends or len(graph) < 2:
            message = f"{spec.count} nodes are to join, and {len(rows)} can: each needs one link when it joins"
            raise InputError(Problem((*_JOINS, "generate", "count"), f"{message}; give fewer, or another overlay"))
        ordered = sorted(ends)
        node = ordered[int(draws_numpy.integers(seed, f"{_JOIN_PURPOSE}.node", 0, len(ordered) - 1, len(rows)))]
        (point,) = graph.neighbors(node)
        rows.append((node, point))
        graph.remove_node(node)
        ends.discard(node)
        ends = ends | {point} if point in allowed and graph.degree(point) == 1 else ends - {point}
    order = np.argsort(draws_numpy.bits(seed, f"{_JOIN_PURPOSE}.round", np.arange(first, last + 1)), kind="stable")
    rounds = np.sort(order[: spec.count] + first)
    nodes, points = np.array(rows[::-1], dtype=np.int64).T
    return pa.table([pa.array(nodes), pa.array(points), pa.array(rounds.astype(np.int64))], schema=JOIN)


def _untimely(joins: Sequence[Join]) -> Iterator[Problem]:
    rounds = {join.node: join.round for join in joins}
    for i, join in enumerate(joins):
        if (joined := rounds.get(join.to, -1)) >= join.round:
            message = f"node {join.node!r} joins in round {join.round} through {join.to!r}, which itself joins in round"
            yield Problem((*_JOINS, i, "round"), f"{message} {joined}; give a round after {joined}")


def _unlinked(joins: Sequence[Join], overlay: Overlay) -> Iterator[Problem]:
    ids, graph = ids_by_name(overlay), graph_of(overlay)
    children: dict[str, set[str]] = defaultdict(set)
    for join in joins:
        children[join.to].add(join.node)
    for i, join in enumerate(joins):
        around = [overlay.names[node] for node in graph[ids[join.node]]]
        others = [name for name in around if name != join.to and name not in children[join.node]]
        if others:
            message = (
                f"joining node {join.node!r} has links to {', '.join(others)} as well; besides its join point it can"
                f" only have links to nodes that join through it: remove these links, or let them join to {join.node!r}"
            )
            yield Problem((*_JOINS, i, "node"), message)
