"""Source of expressions, and what it takes no scope to tell of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.connect.proto import expressions_pb2 as proto

from pipelines.engines.rows.kinds import VOID, Kind, UnknownPlanError, common, is_whole, kind_sent
from pipelines.engines.sail_plans.expressions import parsed


@dataclass(frozen=True)
class Code:
    """Source of an expression.

    Attributes:
        text: It makes a value of the row ``r``.
        kind: The kind of the values.
        is_plain: Whether it costs nothing: a column or a literal.
        may_be_null: Whether it may be null.
    """

    text: str
    kind: Kind
    is_plain: bool = False
    may_be_null: bool = True


def understood(expression: proto.Expression) -> proto.Expression:
    """Returns an expression whose text is parsed.

    Raises:
        UnknownPlanError: Only a server can parse it.
    """
    if expression.WhichOneof("expr_type") != "expression_string":
        return expression
    found = parsed(expression.expression_string.expression)
    if found is None:
        raise UnknownPlanError(expression.expression_string.expression)
    return found


def common_for_equality(left: Kind, right: Kind) -> None:
    """Checks that values of two kinds are equal where SQL says so.

    Raises:
        UnknownPlanError: They have to be converted first.
    """
    if not (left == "double" and is_whole(right)) and not (right == "double" and is_whole(left)):
        common([left, right])


def kind_with_null(rule: Callable[[Sequence[Kind]], Kind], kinds: Sequence[Kind]) -> Kind:
    """Returns the kind of a function an argument of which is the literal null: that of the others."""
    known = next((kind for kind in kinds if kind != VOID), VOID)
    return VOID if known == VOID else rule([known if kind == VOID else kind for kind in kinds])


def literal_code(literal: proto.Expression.Literal) -> Code:
    """Returns the source of a literal.

    Raises:
        UnknownPlanError: It is of a kind that no rows here have.
    """
    match literal.WhichOneof("literal_type"):
        case "null":
            kind = kind_sent(literal.null)
            return Code("None", kind, is_plain=True)
        case "integer":
            return Code(f"({literal.integer})", "int", is_plain=True, may_be_null=False)
        case "long":
            return Code(f"({literal.long})", "bigint", is_plain=True, may_be_null=False)
        case "double":
            return Code(f"({literal.double!r})", "double", is_plain=True, may_be_null=False)
        case "string":
            return Code(repr(literal.string), "string", is_plain=True, may_be_null=False)
        case "boolean":
            return Code(repr(literal.boolean), "boolean", is_plain=True, may_be_null=False)
        case other:
            raise UnknownPlanError(f"literal {other}")
