"""Parses SQL expressions in the client instead of in the Sail server.

Sail 0.7 creates a parser for each expression and never frees it, even if the session closes. Each column of
``selectExpr`` takes about 40 KB, and half a minute of small rounds takes 1 GB. This program has few distinct
expressions. Therefore this module parses each expression once and sends the protocol buffer that PySpark sends for
``Column`` objects. Expressions outside the grammar of this module (window frames, decimal numbers ...) are sent as
strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message
from pyspark.sql.connect.proto import expressions_pb2 as proto
from pyspark.sql.connect.proto.types_pb2 import DataType

_TOKEN = re.compile(
    r"\s*(?:(\d+L?\b(?!\.))|('[^'\\]*')|([a-z_]\w*(?:\.[a-z_]\w*)*\b(?!\.)|`[^`]+`)|(<>|!=|<=|>=|->|[-+*/%=<>(),:]))",
    re.I,
)
_WORDS: Final = frozenset([
    "and", "or", "not", "in", "is", "null", "as", "case", "when", "then", "else", "end", "between", "like", "rlike",
    "ilike", "over", "filter", "within", "distinct", "true", "false", "interval", "date", "timestamp", "exists", "cast",
    "div", "all", "any", "some", "current_date", "current_timestamp",
])  # fmt: skip
_CALLED: Final = frozenset(["filter", "exists"])
"""Keywords that are also names of array functions."""
# The server parses calls of these functions: this program does not use them, or their arguments are not a plain list.
_OTHERS: Final = frozenset(["inline_outer", "posexplode_outer", "stack", "json_tuple", "extract", "trim"])
_TYPES: Final = {
    "bigint": DataType(long=DataType.Long()), "int": DataType(integer=DataType.Integer()),
    "string": DataType(string=DataType.String()), "double": DataType(double=DataType.Double()),
    "boolean": DataType(boolean=DataType.Boolean()),
}  # fmt: skip
_COMPARISONS: Final = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_Part = TypeVar("_Part")
_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1


class _OtherSyntaxError(Exception):
    """The expression is outside the grammar of this module, so the server parses it."""


@lru_cache(maxsize=20_000)
def parsed(text: str) -> proto.Expression | None:
    """Parses an argument of ``selectExpr``, ``where`` or ``expr``, with or without an alias.

    Returns:
        The message that PySpark sends for an equal ``Column``; None if the expression is outside the grammar.
    """
    if text.strip() == "*":
        return proto.Expression(unresolved_star=proto.Expression.UnresolvedStar())
    try:
        return _Parser(text).whole()
    except _OtherSyntaxError:
        return None


class SendParsed(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]  # untyped
    """A gRPC interceptor that replaces each SQL expression in a request by its parsed form."""

    def intercept_unary_unary(self, ask: Callable[..., Any], details: Any, request: Message) -> Any:  # noqa: ANN401
        """Replaces the SQL expressions in a request that asks the server to analyse a plan.

        `intercept_unary_stream` replaces the expressions in a request that asks the server to execute a plan.
        """
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


def _field(of: proto.Expression, name: str) -> proto.Expression:
    found = proto.Expression.UnresolvedExtractValue(child=of, extraction=_literal(string=name))
    return proto.Expression(unresolved_extract_value=found)


class _Parser:
    """A recursive-descent parser. Its precedence levels are or, and, not, comparison, sum, product, primary."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        self._variables: list[str] = []
        self._place = 0
        end = 0
        while match := _TOKEN.match(text, end):
            self._tokens.append(match[0].strip())
            end = match.end()
        if text[end:].strip() or "--" in text:
            raise _OtherSyntaxError

    def whole(self) -> proto.Expression:
        expression = self._or()
        if self._took("as"):
            names = self._names() if self._took("(") else [self._alias()]
            expression = proto.Expression(alias=proto.Expression.Alias(expr=expression, name=names))
        if self._place < len(self._tokens):
            raise _OtherSyntaxError
        return expression

    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next()
        self._place += 1
        return token

    def _took(self, *words: str) -> str | None:
        word = self._next().lower()
        if word not in words:
            return None
        self._place += 1
        return word

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise _OtherSyntaxError

    def _name(self) -> str:
        name = self._take()
        if not re.fullmatch(r"[a-zA-Z_]\w*", name) or name.lower() in _WORDS:
            raise _OtherSyntaxError
        return name

    def _alias(self) -> str:
        """Reads the alias after a whole expression. The alias may be a keyword."""
        name = self._take()
        if not re.fullmatch(r"[a-zA-Z_]\w*|`[^`]+`", name):
            raise _OtherSyntaxError
        return name.strip("`")

    def _separated(self, part: Callable[[], _Part]) -> list[_Part]:
        """Calls `part`, which reads one item, for each item of a comma-separated list, and returns the results."""
        parts = [part()]
        while self._took(","):
            parts.append(part())
        return parts

    def _names(self) -> list[str]:
        names = self._separated(self._name)
        self._expect(")")
        return names

    def _chain(self, part: Callable[[], proto.Expression], *operators: str) -> proto.Expression:
        left = part()
        while operator := self._took(*operators):
            left = _call(operator, left, part())
        return left

    def _or(self) -> proto.Expression:
        return self._chain(self._and, "or")

    def _and(self) -> proto.Expression:
        return self._chain(self._not, "and")

    def _not(self) -> proto.Expression:
        return _call("not", self._not()) if self._took("not") else self._comparison()

    def _comparison(self) -> proto.Expression:
        left = self._sum()
        if operator := self._took(*_COMPARISONS):
            return _call(_COMPARISONS[operator], left, self._sum())
        if self._took("<>", "!="):
            return _call("not", _call("==", left, self._sum()))
        if self._took("is"):
            name = "isNotNull" if self._took("not") else "isNull"
            self._expect("null")
            return _call(name, left)
        is_negated = self._took("not")
        if self._took("in"):
            self._expect("(")
            found = _call("in", left, *self._list())
        elif self._took("between"):
            low = self._sum()
            self._expect("and")
            found = _call("and", _call(">=", left, low), _call("<=", left, self._sum()))
        elif is_negated:
            raise _OtherSyntaxError
        else:
            return left
        return _call("not", found) if is_negated else found

    def _sum(self) -> proto.Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> proto.Expression:
        return self._chain(self._primary, "*", "/", "%", "div")

    def _list(self) -> list[proto.Expression]:
        """Reads arguments up to the closing parenthesis."""
        if self._took(")"):
            return []
        items = self._separated(self._argument)
        self._expect(")")
        return items

    def _argument(self) -> proto.Expression:
        if self._place + 1 < len(self._tokens) and self._tokens[self._place + 1] == "->":
            return self._lambda()
        value = self._or()
        if not self._took("as"):
            return value
        return proto.Expression(alias=proto.Expression.Alias(expr=value, name=[self._name()]))

    def _lambda(self) -> proto.Expression:
        name = self._name()
        self._expect("->")
        self._variables.append(name)
        body = self._or()
        self._variables.pop()
        function = proto.Expression.LambdaFunction(
            function=body, arguments=[proto.Expression.UnresolvedNamedLambdaVariable(name_parts=[name])]
        )
        return proto.Expression(lambda_function=function)

    def _primary(self) -> proto.Expression:
        if self._took("("):
            items = self._list()
            if len(items) != 1:
                raise _OtherSyntaxError
            return items[0]
        if self._took("-"):
            return self._number(-1) if self._next()[:1].isdigit() else _call("negative", self._primary())
        if self._next()[:1].isdigit():
            return self._number(1)
        if self._next().startswith("'"):
            return _literal(string=self._take()[1:-1])
        if self._took("null"):
            return _literal(null={"null": {}})
        if word := self._took("true", "false"):
            return _literal(boolean=word == "true")
        if self._took("case"):
            return self._case()
        if self._took("cast"):
            return self._cast()
        return self._reference()

    def _number(self, sign: int) -> proto.Expression:
        digits, is_long = self._take(), False
        if digits[-1:] in ("L", "l"):
            digits, is_long = digits[:-1], True
        if not digits.isdigit() or int(digits) > _LARGEST_LONG:
            raise _OtherSyntaxError
        kind = "integer" if int(digits) <= _LARGEST_INT and not is_long else "long"
        return _literal(**{kind: sign * int(digits)})

    def _case(self) -> proto.Expression:
        subject = None if self._next().lower() == "when" else self._or()
        parts: list[proto.Expression] = []
        while self._took("when"):
            condition = self._or()
            self._expect("then")
            parts += [condition if subject is None else _call("==", subject, condition), self._or()]
        if self._took("else"):
            parts.append(self._or())
        self._expect("end")
        return _call("when", *parts)

    def _cast(self) -> proto.Expression:
        self._expect("(")
        value = self._or()
        self._expect("as")
        kind = self._type()
        self._expect(")")
        if value.literal.HasField("null") and kind in _TYPES.values():
            return proto.Expression(literal=proto.Expression.Literal(null=kind))
        if value.literal.HasField("integer") and kind.HasField("long"):
            return _literal(long=value.literal.integer)
        return proto.Expression(cast=proto.Expression.Cast(expr=value, type=kind))

    def _type(self) -> DataType:
        name = self._take().lower()
        if name in _TYPES:
            return _TYPES[name]
        self._expect("<")
        if name == "array":
            kind = DataType(array=DataType.Array(element_type=self._type(), contains_null=True))
        elif name == "struct":
            kind = DataType(struct=DataType.Struct(fields=self._separated(self._struct_field)))
        else:
            raise _OtherSyntaxError
        self._expect(">")
        return kind

    def _struct_field(self) -> DataType.StructField:
        name = self._name()
        self._expect(":")
        return DataType.StructField(name=name, data_type=self._type(), nullable=True)

    def _reference(self) -> proto.Expression:
        name = self._take()
        is_called = self._next() == "(" and name.lower() in _CALLED
        if not re.fullmatch(r"[a-zA-Z_][\w.]*", name) or (name.lower() in _WORDS | _OTHERS and not is_called):
            raise _OtherSyntaxError
        if self._took("("):
            called = _call(name, *self._list())
            return self._window(called) if self._took("over") else called
        first, *fields = name.split(".")
        if first in self._variables:
            variable = proto.Expression.UnresolvedNamedLambdaVariable(name_parts=[first])
            return reduce(_field, fields, proto.Expression(unresolved_named_lambda_variable=variable))
        return proto.Expression(unresolved_attribute=proto.Expression.UnresolvedAttribute(unparsed_identifier=name))

    def _window(self, function: proto.Expression) -> proto.Expression:
        self._expect("(")
        self._expect("partition")
        self._expect("by")
        parts, orders = self._separated(self._or), list[proto.Expression.SortOrder]()
        if self._took("order"):
            self._expect("by")
            orders = self._separated(self._order)
        self._expect(")")
        window = proto.Expression.Window(window_function=function, partition_spec=parts, order_spec=orders)
        return proto.Expression(window=window)

    def _order(self) -> proto.Expression.SortOrder:
        value, kind = self._or(), proto.Expression.SortOrder
        if self._took("desc"):
            direction, nulls = kind.SORT_DIRECTION_DESCENDING, kind.SORT_NULLS_LAST
        else:
            direction, nulls = kind.SORT_DIRECTION_ASCENDING, kind.SORT_NULLS_FIRST
        if self._took("nulls"):
            nulls = kind.SORT_NULLS_LAST if self._took("last") else kind.SORT_NULLS_FIRST
            if nulls == kind.SORT_NULLS_FIRST:
                self._expect("first")
        return kind(child=value, direction=direction, null_ordering=nulls)
