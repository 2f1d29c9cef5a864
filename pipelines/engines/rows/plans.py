"""Plans as functions of the rows that they read: what a plan does is worked out once for all rounds.

Understood are the parts of plans that rounds are made of; anything else raises `UnknownPlanError`, and an engine makes
the plan. The rows are those that an engine makes, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.connect.proto import relations_pb2 as proto

from pipelines.engines.rows.codes import Code, understood
from pipelines.engines.rows.expressions import Scope
from pipelines.engines.rows.joins import join
from pipelines.engines.rows.kinds import VOID, Kind, UnknownPlanError, common
from pipelines.engines.rows.operators import Rows, most_rows
from pipelines.engines.rows.selections import aggregate, project
from pipelines.engines.rows.source import Node, made, picked

LEAF: Final = "leaf "
Leaf = tuple[Sequence[str], Sequence[Kind]]
"""Names and kinds of the columns of a relation that plans read."""


def compiled(plan: proto.Relation, leaves: Sequence[Leaf]) -> Node:
    """Returns what makes a plan's rows of those that it reads.

    Args:
        plan: The plan; where it reads a relation it has a local one, whose schema is `LEAF` and a number.
        leaves: What is read.

    Raises:
        UnknownPlanError: Only an engine can make it.
    """
    kind: Any = plan.WhichOneof("rel_type")
    if kind in _OF_ONE:
        of = getattr(plan, kind)
        return _OF_ONE[kind](compiled(of.input, leaves), of)
    match kind:
        case "local_relation":
            return _leaf(plan.local_relation.schema, leaves)
        case "range":
            return _range(plan.range)
        case "join":
            return join(compiled(plan.join.left, leaves), compiled(plan.join.right, leaves), plan.join)
        case "set_op":
            return _union(plan.set_op, leaves)
    raise UnknownPlanError(str(kind))


def _leaf(name: str, leaves: Sequence[Leaf]) -> Node:
    if not name.startswith(LEAF):
        raise UnknownPlanError("rows of another program")
    number = int(name.removeprefix(LEAF))
    names, kinds = leaves[number]
    return Node(tuple(names), tuple(kinds), lambda given: given[number])


def _range(of: proto.Range) -> Node:
    numbers = range(of.start, of.end, of.step)
    if len(numbers) > most_rows():
        raise UnknownPlanError("many rows")
    rows = Rows([(number,) for number in numbers])
    return Node(("id",), ("bigint",), lambda given: rows)


def _filter(node: Node, of: proto.Filter) -> Node:
    scope = Scope(node.names, node.kinds)
    keep = made(f"[r for r in rows if {scope.true(of.condition)}]", scope)
    return Node(node.names, node.kinds, lambda given: Rows(keep(node.make(given).rows)))


def _union(of: proto.SetOperation, leaves: Sequence[Leaf]) -> Node:
    """Returns a union; one of many parts is a union of a union, and so on."""
    inputs, is_by_name, may_lack = [], of.by_name, of.allow_missing_columns
    while True:
        if of.set_op_type != proto.SetOperation.SET_OP_TYPE_UNION or not of.is_all:
            raise UnknownPlanError("a set operation")
        inputs.append(of.right_input)
        inner = of.left_input.set_op
        if of.left_input.WhichOneof("rel_type") != "set_op" or inner.by_name != is_by_name:
            break
        of, may_lack = inner, may_lack or inner.allow_missing_columns
    parts = [compiled(one, leaves) for one in [of.left_input, *reversed(inputs)]]
    if is_by_name:
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        parts = [_with_names(part, names, may_lack=may_lack) for part in parts]
    if len({len(part.names) for part in parts}) > 1:
        raise UnknownPlanError("a union of other columns")
    kinds = tuple(map(common, zip(*(part.kinds for part in parts), strict=True)))

    def run(given: Sequence[Rows]) -> Rows:
        found = [rows for part in parts if (rows := part.make(given)).rows]
        return found[0] if len(found) == 1 else Rows([row for rows in found for row in rows.rows])

    return Node(parts[0].names, kinds, run)


def _with_names(node: Node, names: tuple[str, ...], *, may_lack: bool) -> Node:
    """Returns a node with columns in an order; those that it lacks are null."""
    if node.names == names:
        return node
    if len({*node.names}) < len(node.names) or not (may_lack or {*names} == {*node.names}):
        raise UnknownPlanError("a union of other columns")
    places = {name: place for place, name in enumerate(node.names)}
    values = [f"r[{places[name]}]" if name in places else "None" for name in names]
    pick = made(f"[({', '.join(values)},) for r in rows]", Scope((), ()))
    kinds = tuple(node.kinds[places[name]] if name in places else VOID for name in names)
    return Node(names, kinds, lambda given: Rows(pick(node.make(given).rows)))


def _aggregate(node: Node, of: proto.Aggregate) -> Node:
    if of.group_type != proto.Aggregate.GROUP_TYPE_GROUPBY:
        raise UnknownPlanError("groups of groups")
    return aggregate(node, of.grouping_expressions, of.aggregate_expressions)


def _distinct(node: Node, of: proto.Deduplicate) -> Node:
    if {*of.column_names} not in (set(), {*node.names}):
        raise UnknownPlanError("one row of many")
    return Node(node.names, node.kinds, lambda given: Rows([*dict.fromkeys(node.make(given).rows)]))


def _drop(node: Node, of: proto.Drop) -> Node:
    dropped = {*of.column_names, *(one.unresolved_attribute.unparsed_identifier for one in of.columns)}
    return picked(node, [place for place, name in enumerate(node.names) if name not in dropped])


def _renamed(node: Node, of: proto.WithColumnsRenamed) -> Node:
    new = {**of.rename_columns_map, **{one.col_name: one.new_col_name for one in of.renames}}
    return replace(node, names=tuple(new.get(name, name) for name in node.names))


def _with_columns(node: Node, of: proto.WithColumns) -> Node:
    scope = Scope(node.names, node.kinds)
    new: dict[str, Code] = {one.name[0]: scope.value(understood(one.expr)) for one in of.aliases}
    codes = {name: new.get(name) or scope.column(name) for name in dict.fromkeys([*node.names, *new])}
    select = made(f"[({', '.join(code.text for code in codes.values())},) for r in rows]", scope)
    kinds = tuple(code.kind for code in codes.values())
    return Node(tuple(codes), kinds, lambda given: Rows(select(node.make(given).rows)))


_OF_ONE: Final[Mapping[str, Callable[[Node, Any], Node]]] = {
    "hint": lambda node, of: node,
    "subquery_alias": lambda node, of: node,
    "project": lambda node, of: project(node, of.expressions),
    "filter": _filter,
    "aggregate": _aggregate,
    "deduplicate": _distinct,
    "drop": _drop,
    "with_columns": _with_columns,
    "with_columns_renamed": _renamed,
    "to_df": lambda node, of: replace(node, names=tuple(of.column_names)),
}
"""Parts of plans with one input: what they do to it."""
