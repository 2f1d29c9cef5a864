"""Joins of rows: over columns of both sides, or over a condition that compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pyspark.sql.connect.proto import expressions_pb2, relations_pb2 as proto

from pipelines.engines.rows.codes import common_for_equality, understood
from pipelines.engines.rows.expressions import Scope
from pipelines.engines.rows.kinds import UnknownPlanError
from pipelines.engines.rows.operators import Rows
from pipelines.engines.rows.source import Node, index_of, made, places_text

_JOIN: Final = proto.Join.JoinType
_HALF: Final[dict[int, str]] = {_JOIN.JOIN_TYPE_LEFT_SEMI: "in", _JOIN.JOIN_TYPE_LEFT_ANTI: "not in"}


def join(left: Node, right: Node, of: proto.Join) -> Node:
    """Returns a join as a node.

    Raises:
        UnknownPlanError: Only an engine can make it.
    """
    if of.using_columns:
        return _using(left, right, [*of.using_columns], of.join_type)
    if of.HasField("join_condition"):
        return _over_condition(left, right, understood(of.join_condition), of.join_type)
    if of.join_type in (_JOIN.JOIN_TYPE_CROSS, _JOIN.JOIN_TYPE_INNER):
        return _cross(left, right)
    raise UnknownPlanError("a join of all rows")


def _places(node: Node, names: Sequence[str]) -> tuple[int, ...]:
    if any(node.names.count(name) != 1 for name in names):
        raise UnknownPlanError(f"columns {names}")
    return tuple(node.names.index(name) for name in names)


def _using(left: Node, right: Node, names: Sequence[str], kind: int) -> Node:
    here, there = _places(left, names), _places(right, names)
    for one, other in zip(here, there, strict=True):
        common_for_equality(left.kinds[one], right.kinds[other])
    if kind in _HALF:
        return _half(left, right, here, there, _HALF[kind])
    if kind not in (_JOIN.JOIN_TYPE_INNER, _JOIN.JOIN_TYPE_LEFT_OUTER):
        raise UnknownPlanError("a join of both sides")
    own = [*here, *(place for place in range(len(left.names)) if place not in here)]
    rest = [place for place in range(len(right.names)) if place not in there]
    made_names = (*(left.names[place] for place in own), *(right.names[place] for place in rest))
    kinds = (*(left.kinds[place] for place in own), *(right.kinds[place] for place in rest))
    row = f"({''.join(f'l[{place}], ' for place in own)}{''.join(f'r[{place}], ' for place in rest)})"
    run = _matched(row, here, there, len(right.names), is_outer=kind == _JOIN.JOIN_TYPE_LEFT_OUTER)
    return Node(made_names, kinds, lambda given: run(left.make(given), right.make(given)))


def _half(left: Node, right: Node, here: tuple[int, ...], there: tuple[int, ...], word: str) -> Node:
    """Returns the rows of one side that the other one has, or that it does not have; the key's columns come first."""
    order = [*here, *(place for place in range(len(left.names)) if place not in here)]
    row = "l" if order == sorted(order) else places_text("l", order)
    find = made(f"[{row} for l in rows if {places_text('l', here)} {word} keys]", Scope((), ()), "rows, keys")
    index = index_of(there)

    def run(given: Sequence[Rows]) -> Rows:
        rows = left.make(given).rows
        return Rows(find(rows, right.make(given).keys(index)) if rows else [])

    names, kinds = (tuple(of[place] for place in order) for of in (left.names, left.kinds))
    return Node(names, kinds, run)


def _matched(
    row: str, here: tuple[int, ...], there: tuple[int, ...], n_right: int, *, is_outer: bool
) -> Callable[[Rows, Rows], Rows]:  # fmt: skip
    """Returns what pairs rows with equal keys.

    The rows of one side are looked up: those that stay for several rounds if there are such, or else the fewer ones.
    """
    left_index, right_index, scope = index_of(here), index_of(there), Scope((), ())
    find, seek = places_text("l", here), places_text("r", there)
    by_right = made(f"[{row} for l in rows for r in get({find}, nothing)]", scope, "rows, get, nothing")
    by_left = made(f"[{row} for r in rows for l in get({seek}, ())]", scope, "rows, get")
    nulls = ((None,) * n_right,) if is_outer else ()

    def run(left: Rows, right: Rows) -> Rows:
        if not left.rows or not (right.rows or is_outer):
            return Rows([])
        is_left_larger = len(left.rows) > len(right.rows)
        if not is_outer and is_left_larger:
            known = left.found_again(left_index)
            if known is not None:
                return Rows(by_left(right.rows, known.get))
        if is_left_larger:
            return Rows(by_right(left.rows, right.found(right_index).get, nulls))
        known = right.found_again(right_index)
        if known is None and is_outer:
            known = right_index.found_of(right.rows, left.keys(left_index))
        if known is not None:
            return Rows(by_right(left.rows, known.get, nulls))
        return Rows(by_left(right.rows, left.found(left_index).get))

    return run


def _cross(left: Node, right: Node) -> Node:
    def run(given: Sequence[Rows]) -> Rows:
        others = right.make(given).rows
        return Rows([one + other for one in left.make(given).rows for other in others])

    return Node(left.names + right.names, left.kinds + right.kinds, run)


def _conjuncts(expression: expressions_pb2.Expression) -> Iterator[expressions_pb2.Expression]:
    called = expression.unresolved_function
    if called.function_name == "and":
        for part in called.arguments:
            yield from _conjuncts(understood(part))
    else:
        yield expression


def _over_condition(left: Node, right: Node, condition: expressions_pb2.Expression, kind: int) -> Node:
    """Returns a join over a condition: pairs with equal columns are found, and what else it says is asked of them."""
    if kind not in (_JOIN.JOIN_TYPE_INNER, _JOIN.JOIN_TYPE_LEFT_OUTER):
        raise UnknownPlanError("a join over a condition")
    names, kinds, n_left = left.names + right.names, left.kinds + right.kinds, len(left.names)
    scope = Scope(names, kinds)
    pairs, rest = [], []
    for part in _conjuncts(condition):
        pair = _pair(part, names, n_left)
        if pair is None:
            rest.append(scope.true(part))
        else:
            common_for_equality(kinds[pair[0]], kinds[n_left + pair[1]])
            pairs.append(pair)
    if not pairs:
        raise UnknownPlanError("a join without equal columns")
    here, there = (tuple(places) for places in zip(*pairs, strict=True))
    keep = made(f"[r for r in rows if {' and '.join(rest) or 'True'}]", scope)
    if kind == _JOIN.JOIN_TYPE_INNER:
        pairs_of = _matched("l + r", here, there, len(right.names), is_outer=False)
        return Node(names, kinds, lambda given: Rows(keep(pairs_of(left.make(given), right.make(given)).rows)))
    # The place of a row of the left side goes behind the pair: what has met nobody is found by it.
    row, nulls = f"(*l[:{n_left}], *r, l[{n_left}])", (None,) * len(right.names)
    placed_pairs_of = _matched(row, here, there, len(right.names), is_outer=False)

    def run(given: Sequence[Rows]) -> Rows:
        rows = left.make(given).rows
        places = Rows([(*row, place) for place, row in enumerate(rows)])
        found = keep(placed_pairs_of(places, right.make(given)).rows)
        met = {row[-1] for row in found}
        return Rows([
            *(row[:-1] for row in found), *(row + nulls for place, row in enumerate(rows) if place not in met)
        ])  # fmt: skip

    return Node(names, kinds, run)


def _pair(part: expressions_pb2.Expression, names: Sequence[str], n_left: int) -> tuple[int, int] | None:
    """Returns the columns of the two sides that a condition wants to be equal, if it does nothing else."""
    called = part.unresolved_function
    if called.function_name != "==":
        return None
    places = []
    for one in map(understood, called.arguments):
        name = one.unresolved_attribute.unparsed_identifier
        if names.count(name) != 1:
            return None
        places.append(names.index(name))
    first, second = sorted(places)
    return (first, second - n_left) if first < n_left <= second else None
