"""Leaves out of a plan what is known to add nothing, before it is sent.

Most relations of a small round have no rows, and the program knows which (`inline.inlined`). A server that plans unions
with them, and joins against them, takes longer for that than for the rest.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.connect.proto import base_pb2, expressions_pb2, relations_pb2 as proto

_ONE_INPUT: Final = frozenset([
    "filter", "sort", "hint", "with_columns", "with_columns_renamed", "drop", "deduplicate", "limit",
    "subquery_alias",
])  # fmt: skip
_JOIN, _SET = proto.Join.JoinType, proto.SetOperation.SetOpType
_NEEDS_LEFT: Final = frozenset([
    _JOIN.JOIN_TYPE_INNER, _JOIN.JOIN_TYPE_LEFT_OUTER, _JOIN.JOIN_TYPE_LEFT_SEMI, _JOIN.JOIN_TYPE_LEFT_ANTI,
    _JOIN.JOIN_TYPE_CROSS,
])  # fmt: skip
_NEEDS_RIGHT: Final = frozenset([_JOIN.JOIN_TYPE_INNER, _JOIN.JOIN_TYPE_LEFT_SEMI, _JOIN.JOIN_TYPE_CROSS])
_ROW_BY_ROW: Final = frozenset([
    "+", "-", "*", "/", "%", "negative", "==", "<", "<=", ">", ">=", "and", "or", "not", "isNull", "isNotNull", "in",
    "when", "if", "coalesce", "greatest", "least", "concat", "array", "struct", "named_struct", "size", "get",
    "array_contains", "array_append", "array_union", "array_except", "array_intersect", "array_distinct", "array_sort",
    "slice", "flatten", "to_json", "get_json_object", "explode", "posexplode", "inline",
])  # fmt: skip
"""Functions that make nothing of no rows; an aggregate in a selection makes a row."""
_NOTHING: Final = proto.Relation(local_relation=proto.LocalRelation(schema="nothing bigint"))


def simplify(request: base_pb2.ExecutePlanRequest) -> None:
    """Simplifies in place what a request writes to Parquet files, whose columns are read by name.

    The rows stay what they were. Columns may come in another order, and types be narrower; without rows, no file is
    written.
    """
    write = request.plan.command.write_operation
    if write.source == "parquet" and _is_empty(write.input):
        write.input.CopyFrom(_NOTHING)


def _is_empty(relation: proto.Relation) -> bool:
    """Returns whether a relation is known to have no rows, and simplifies it."""
    kind = relation.WhichOneof("rel_type")
    if kind == "local_relation":
        return relation.local_relation.HasField("schema")
    if kind in _ONE_INPUT:
        return _is_empty(getattr(relation, kind).input)
    if kind == "project":
        return _is_empty(relation.project.input) and all(map(_is_row_by_row, relation.project.expressions))
    if kind == "aggregate":
        return _is_empty(relation.aggregate.input) and len(relation.aggregate.grouping_expressions) > 0
    if kind == "join":
        return _is_join_empty(relation)
    if kind == "set_op":
        return _is_union_empty(relation)
    return False


def _is_row_by_row(expression: expressions_pb2.Expression) -> bool:
    kind = expression.WhichOneof("expr_type")
    if kind in ("alias", "cast"):
        return _is_row_by_row(getattr(expression, kind).expr)
    if kind == "unresolved_function":
        called = expression.unresolved_function
        return called.function_name in _ROW_BY_ROW and all(map(_is_row_by_row, called.arguments))
    return kind in ("literal", "unresolved_attribute", "unresolved_star", "window")


def _is_join_empty(relation: proto.Relation) -> bool:
    join = relation.join
    left, right = _is_empty(join.left), _is_empty(join.right)
    if (left and join.join_type in _NEEDS_LEFT) or (right and join.join_type in _NEEDS_RIGHT):
        return True
    if right and join.join_type == _JOIN.JOIN_TYPE_LEFT_ANTI:
        _become(relation, join.left)
    return False


def _is_union_empty(relation: proto.Relation) -> bool:
    union = relation.set_op
    if union.set_op_type != _SET.SET_OP_TYPE_UNION or not union.by_name:
        return False
    left, right = _is_empty(union.left_input), _is_empty(union.right_input)
    if right and not left and not union.allow_missing_columns:
        _become(relation, union.left_input)
    return left and right


def _become(relation: proto.Relation, part: proto.Relation) -> None:
    kept = proto.Relation()
    kept.CopyFrom(part)
    relation.CopyFrom(kept)
