"""The calls that a scenario lists, and the contents of publications.

A content is a JSON object in the history, and has one row per attribute for matching.

No protocol hands a subscriber over from one node to another. A move therefore ends subscriptions at one node and begins
subscriptions with the same predicates at another node (protocol ``delta``, rule R37). The application loses the
publications between the end of the old subscriptions and the confirmation of the new subscriptions.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.predicate import MAX_WHOLE_DOUBLE, canonical, parse_predicates, value_columns
from pipelines.contract.run_inputs import (
    ATTRIBUTE,
    JOIN,
    OTHER_CALL,
    PUBLICATION,
    SUBSCRIPTION,
    Ints,
    Overlay,
    table_of,
)
from pipelines.errors import InputError, KeyPath, PredicateError, Problem, plural, raise_problems
from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.build import choose_nodes, graph_of, ids_by_name
from pipelines.scenario.workload import GeneratedJoins, Join, ListedPublication, ListedSubscription, Move, OtherCall

SUBSCRIPTIONS: KeyPath = ("workload", "subscriptions")
PUBLICATIONS: KeyPath = ("workload", "publications")
_MOVES: KeyPath = ("workload", "moves")
_SHOWN_MOVES = 3
_JOINS: KeyPath = ("workload", "joins")
_JOIN_PURPOSE = "workload.joins"
NO_CONTENT = "{}"
"""The JSON of a publication without attributes."""


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
    rows = [(ids[item.at], item.round, item.until, text) for item, text in zip(listed, texts, strict=True)]
    return table_of(rows, SUBSCRIPTION)


def listed_publications(listed: Sequence[ListedPublication], overlay: Overlay) -> tuple[pa.Table, pa.Table]:
    """Returns the listed publications as tables `PUBLICATION` and `ATTRIBUTE`."""
    ids = ids_by_name(overlay)
    rows = [(ids[p.at], p.round, p.topic, to_json(p.content), p.guarantee, p.keys or None) for p in listed]
    attributes = [row for i, item in enumerate(listed) for row in _attributes(i, item)]
    return table_of(rows, PUBLICATION), table_of(attributes, ATTRIBUTE)


def _attributes(row: int, item: ListedPublication) -> Iterator[tuple[int, str, float | None, int | None, str | None]]:
    if item.topic is not None:
        yield row, "topic", *value_columns(item.topic)
    for name in sorted(item.content):
        value = item.content[name]
        yield row, name, *value_columns(str(value).lower() if isinstance(value, bool) else value)


def listed_calls(listed: Sequence[OtherCall], overlay: Overlay) -> pa.Table:
    """Returns the calls in `listed`, for example register and leave, as table `OTHER_CALL`."""
    ids = ids_by_name(overlay)
    rows = [
        {**call.model_dump(), "node_id": ids[call.at], "peer": ids.get(getattr(call, "peer", ""))} for call in listed
    ]
    return pa.Table.from_pylist(rows, OTHER_CALL)


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
    """Returns sentences on the losses of the first three moving subscribers, and on the number of the other moves."""
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
    return table_of([(ids[join.node], ids[join.to], join.round) for join in joins], JOIN)


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
    rounds = np.sort(order[: spec.count] + first).tolist()
    return table_of([(*row, round_) for row, round_ in zip(reversed(rows), rounds, strict=True)], JOIN)


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


def to_json(value: object) -> str:
    """Returns `value` as JSON with sorted keys and without spaces. Characters beyond ASCII are not escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def publication_rows(
    node: Ints, round_: Ints, topic: pa.Array, content: pa.Array,
    guarantee: pa.Array | None = None, keys: pa.Array | None = None,
) -> pa.Table:  # fmt: skip
    """Returns a table of schema `PUBLICATION`; without `guarantee` or `keys`, its column is null."""
    given = {"guarantee": guarantee, "keys": keys}
    others = [
        pa.nulls(len(node), PUBLICATION.field(name).type) if rows is None else rows for name, rows in given.items()
    ]
    return pa.table([pa.array(node), pa.array(round_), topic, content, *others], schema=PUBLICATION)


def json_rows(columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Returns an array of `rows` JSON objects, the contents of publications.

    Each of `columns` is an attribute of type int64, finite float64, bool or string. Null means that a publication lacks
    the attribute.
    """
    if not columns:
        return pa.repeat(pa.scalar(NO_CONTENT, pa.string()), rows)
    # Arrow's null_handling="skip" drops a row whose parts are all null. So each part starts with its own comma, and a
    # null part becomes an empty string.
    parts = [
        pc.fill_null(pc.binary_join_element_wise(f",{to_json(name)}:", _json_values(columns[name]), ""), "")
        for name in sorted(columns)
    ]
    listed = pc.binary_join_element_wise(*parts, "")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(listed, 1), "}", "")


def _json_values(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return pc.cast(column, pa.string())
    encoded = column.dictionary_encode()
    quoted = pa.array([to_json(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return quoted.take(encoded.indices)


def attribute_rows(topic: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Returns a table of schema `ATTRIBUTE`: for each publication its topic, then its attributes ordered by name.

    Null means that a publication lacks the topic or the attribute. `columns` are those of `json_rows`.
    """
    named = {"topic": topic, **{name: columns[name] for name in sorted(columns)}}
    rows, width = len(topic), len(named)
    present = np.stack([column.is_valid().to_numpy(zero_copy_only=False) for column in named.values()], axis=1).ravel()
    flat = np.flatnonzero(present)
    place = pa.array(flat % width * rows + flat // width)
    attribute = pa.DictionaryArray.from_arrays(pa.array((flat % width).astype(np.int32)), pa.array(list(named)))
    values = [pa.concat_arrays(parts).take(place) for parts in zip(*map(_values, named.values()), strict=True)]
    return pa.table([pa.array(flat // width), attribute.dictionary_decode(), *values], schema=ATTRIBUTE)


def parsed_numbers(texts: pa.Array) -> tuple[pa.Array | None, str | None]:
    """Parses all of `texts` as int64, or all of them as float64.

    Returns:
        A pair. The first item is an array of the numbers, or None if a string is not a number. The second item is the
        first string with a whole number that its double does not represent exactly, or None if all are exact.
    """
    for kind in (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            numbers = pc.cast(texts, kind)
            return numbers, None if kind == pa.int64() else _inexact_whole(texts, numbers)
    return None, None


def _inexact_whole(texts: pa.Array, numbers: pa.Array) -> str | None:
    is_large = pc.and_(pc.greater_equal(pc.abs(numbers), float(2**53)), pc.match_substring_regex(texts, r"^[+-]?\d+$"))
    large = pc.indices_nonzero(pc.fill_null(is_large, False))
    pairs = zip(texts.take(large).to_pylist(), numbers.take(large).to_pylist(), strict=True)
    return next((text for text, number in pairs if int(text) != number), None)


def _values(column: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    no_numbers, no_wholes, no_texts = (pa.nulls(len(column), of) for of in (pa.float64(), pa.int64(), pa.string()))
    if column.type in (pa.string(), pa.bool_()):
        return no_numbers, no_wholes, pc.cast(column, pa.string())
    numbers = pc.cast(column, pa.float64(), safe=False)
    if column.type == pa.int64():
        return pc.min_element_wise(numbers, MAX_WHOLE_DOUBLE, skip_nulls=False), column, no_texts
    # Doubles that are whole numbers are compared as whole numbers.
    is_whole = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), MAX_WHOLE_DOUBLE))
    return numbers, pc.cast(pc.if_else(is_whole, column, no_numbers), pa.int64()), no_texts
