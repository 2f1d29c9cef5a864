"""Parses SQL expressions in the client instead of in the Sail server.

Sail 0.7 creates a parser for each expression and never frees it, even if the session closes. Each column of
``selectExpr`` takes about 40 KB, and half a minute of small rounds takes 1 GB. This program has few distinct
expressions. Therefore this module parses each expression once and sends the protocol buffer that PySpark sends for
``Column`` objects. Expressions that this module does not convert (window frames, decimal numbers ...) are sent as
strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from pyspark.sql.connect.proto import expressions_pb2 as proto
from pyspark.sql.connect.proto.types_pb2 import DataType
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

_KIND: Final = exp.DataType.Type
_TYPES: Final = {
    _KIND.BIGINT: DataType(long=DataType.Long()), _KIND.INT: DataType(integer=DataType.Integer()),
    _KIND.TEXT: DataType(string=DataType.String()), _KIND.DOUBLE: DataType(double=DataType.Double()),
    _KIND.BOOLEAN: DataType(boolean=DataType.Boolean()),
}  # fmt: skip
_OPERATORS: Final[Mapping[type[exp.Expr], str]] = {
    exp.Or: "or", exp.And: "and", exp.EQ: "==", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.Add: "+",
    exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
}  # fmt: skip
_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1


class _PlainCalls(Spark):
    """Spark's dialect, in which each function is called by the name and with the arguments that the SQL contains."""

    class Parser(Spark.Parser):  # type: ignore[valid-type, misc]  # an alias of a class
        FUNCTIONS = dict[str, Any]()  # noqa: RUF012 - as in the base
        FUNCTION_PARSERS = {"CAST": Spark.Parser.FUNCTION_PARSERS["CAST"]}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012


_DIALECT: Final = _PlainCalls()


class _OtherSyntaxError(Exception):
    """This module does not convert the expression, so the server parses it."""


@lru_cache(maxsize=20_000)
def parsed(text: str) -> proto.Expression | None:
    """Parses an argument of ``selectExpr``, ``where`` or ``expr``, with or without an alias.

    Returns:
        The message that PySpark sends for an equal ``Column``; None if this module does not convert the expression.
    """
    if text.strip() == "*":
        return proto.Expression(unresolved_star=proto.Expression.UnresolvedStar())
    if "\\" in text:
        return None
    try:
        trees = _DIALECT.parse(text)
        return _converted(trees[0]) if len(trees) == 1 else None
    except (SqlglotError, _OtherSyntaxError):
        return None


class SendParsed(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]  # untyped
    """A gRPC interceptor that replaces each SQL expression in a request by its parsed form."""

    def intercept_unary_unary(self, ask: Callable[..., Any], details: Any, request: Message) -> Any:  # noqa: ANN401
        """Replaces the SQL expressions in a request that analyses a plan; the other method: that executes a plan."""
        _rewrite(request)
        return ask(details, request)

    intercept_unary_stream = intercept_unary_unary


def _rewrite(message: Message) -> None:
    if isinstance(message, proto.Expression) and message.HasField("expression_string"):
        found = parsed(message.expression_string.expression)
        if found is not None:
            message.MergeFrom(found)
        return
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE or field.message_type.GetOptions().map_entry:
            continue
        for part in value if field.is_repeated else (value,):
            _rewrite(part)


def _call(name: str, *arguments: proto.Expression) -> proto.Expression:
    function = proto.Expression.UnresolvedFunction(function_name=name, arguments=arguments)
    return proto.Expression(unresolved_function=function)


def _literal(**value: Any) -> proto.Expression:  # noqa: ANN401 - one of the kinds of literal
    return proto.Expression(literal=proto.Expression.Literal(**value))


def _converted(node: exp.Expr | None) -> proto.Expression:  # noqa: C901 - one case for each type of node
    match node:
        case exp.Paren():
            return _converted(node.this)
        case exp.Column() | exp.Dot() | exp.Identifier():
            return _reference(node)
        case exp.Anonymous(this=str(name), expressions=values):
            if name.lower() != "struct" and any(isinstance(one, exp.Alias) for one in values):
                raise _OtherSyntaxError  # in a call of another function than struct, a type stands after ``as``
            return _call(name, *map(_converted, values))
        case exp.Literal() | exp.Neg(this=exp.Literal()):
            return _constant(node)
        case exp.Null():
            return _literal(null={"null": {}})
        case exp.Boolean():
            return _literal(boolean=node.this)
        case exp.Neg():
            return _call("negative", _converted(node.this))
        case exp.Not(this=exp.Is(expression=exp.Null())):
            return _call("isNotNull", _converted(node.this.this))
        case exp.Is(expression=exp.Null()):
            return _call("isNull", _converted(node.this))
        case exp.Not():
            return _call("not", _converted(node.this))
        case exp.NEQ():
            return _call("not", _call("==", _converted(node.left), _converted(node.right)))
        case exp.In() if node.expressions:
            return _call("in", _converted(node.this), *map(_converted, node.expressions))
        case exp.Between():
            value, low, high = (_converted(node.args[name]) for name in ("this", "low", "high"))
            return _call("and", _call(">=", value, low), _call("<=", value, high))
        case exp.Case():
            return _case(node)
        case exp.Cast():
            return _cast(node)
        case exp.Lambda():
            names = [proto.Expression.UnresolvedNamedLambdaVariable(name_parts=[one.name]) for one in node.expressions]
            function = proto.Expression.LambdaFunction(function=_converted(node.this), arguments=names)
            return proto.Expression(lambda_function=function)
        case exp.Window():
            return _window(node)
        case exp.Alias():
            return _named(node.this, [node.args["alias"]])
        case exp.Aliases():
            return _named(node.this, node.expressions)
    if type(node) in _OPERATORS and isinstance(node, exp.Binary):
        return _call(_OPERATORS[type(node)], _converted(node.left), _converted(node.right))
    raise _OtherSyntaxError


def _named(value: exp.Expr, names: list[exp.Identifier]) -> proto.Expression:
    return proto.Expression(alias=proto.Expression.Alias(expr=_converted(value), name=[one.name for one in names]))


def _reference(node: exp.Expr) -> proto.Expression:
    """Converts the name of a column. In a lambda function, an identifier outside a column is a variable."""
    if isinstance(node, exp.Identifier):
        variable = proto.Expression.UnresolvedNamedLambdaVariable(name_parts=[node.name])
        return proto.Expression(unresolved_named_lambda_variable=variable)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        field = _literal(string=node.expression.name)
        found = proto.Expression.UnresolvedExtractValue(child=_reference(node.this), extraction=field)
        return proto.Expression(unresolved_extract_value=found)
    if not isinstance(node, exp.Column) or not all(isinstance(part, exp.Identifier) for part in node.parts):
        raise _OtherSyntaxError
    name = ".".join(f"`{part.name}`" if part.args["quoted"] else part.name for part in node.parts)
    return proto.Expression(unresolved_attribute=proto.Expression.UnresolvedAttribute(unparsed_identifier=name))


def _constant(node: exp.Expr) -> proto.Expression:
    literal, sign = (node.this, -1) if isinstance(node, exp.Neg) else (node, 1)
    text: str = literal.this
    if literal.is_string and sign > 0 and "'" not in text:  # engines differ in the meaning of two quotes
        return _literal(string=text)
    if literal.is_string or not text.isdigit() or int(text) > _LARGEST_LONG:
        raise _OtherSyntaxError
    return _literal(**{"integer" if int(text) <= _LARGEST_INT else "long": sign * int(text)})


def _case(node: exp.Case) -> proto.Expression:
    parts: list[proto.Expression] = []
    for branch in node.args["ifs"]:
        condition = _converted(branch.this)
        is_value = condition if node.this is None else _call("==", _converted(node.this), condition)
        parts += [is_value, _converted(branch.args["true"])]
    if node.args.get("default") is not None:
        parts.append(_converted(node.args["default"]))
    return _call("when", *parts)


def _cast(node: exp.Cast) -> proto.Expression:
    value, kind = _converted(node.this), _type(node.to)
    if value.literal.HasField("null") and kind in _TYPES.values():
        return proto.Expression(literal=proto.Expression.Literal(null=kind))
    if value.literal.HasField("integer") and kind.HasField("long"):
        return _literal(long=value.literal.integer)
    return proto.Expression(cast=proto.Expression.Cast(expr=value, type=kind))


def _type(node: exp.DataType) -> DataType:
    if node.this in _TYPES:
        return _TYPES[node.this]
    if node.this == _KIND.ARRAY and node.expressions:
        return DataType(array=DataType.Array(element_type=_type(node.expressions[0]), contains_null=True))
    if node.this == _KIND.STRUCT:
        fields = [
            DataType.StructField(name=one.name, data_type=_type(one.args["kind"]), nullable=True)
            for one in node.expressions
        ]
        return DataType(struct=DataType.Struct(fields=fields))
    raise _OtherSyntaxError


def _window(node: exp.Window) -> proto.Expression:
    if node.args.get("spec") is not None or node.args.get("alias") is not None:
        raise _OtherSyntaxError
    order, parts = node.args.get("order"), node.args.get("partition_by") or ()
    window = proto.Expression.Window(
        window_function=_converted(node.this), partition_spec=map(_converted, parts),
        order_spec=[] if order is None else map(_order, order.expressions),
    )  # fmt: skip
    return proto.Expression(window=window)


def _order(node: exp.Ordered) -> proto.Expression.SortOrder:
    kind = proto.Expression.SortOrder
    return kind(
        child=_converted(node.this),
        direction=kind.SORT_DIRECTION_DESCENDING if node.args.get("desc") else kind.SORT_DIRECTION_ASCENDING,
        null_ordering=kind.SORT_NULLS_FIRST if node.args.get("nulls_first") else kind.SORT_NULLS_LAST,
    )
