"""Functions that take nulls, lambdas or names: source of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from pyspark.sql.connect.proto import expressions_pb2 as proto

from pipelines.engines.rows.codes import Code, common_for_equality
from pipelines.engines.rows.functions import best, greatest_of, hashed, json_text, sorted_array
from pipelines.engines.rows.kinds import VOID, Kind, UnknownPlanError, common, is_array

Given = Sequence[proto.Expression]


class Values(Protocol):
    """Makes source of expressions (`expressions.Scope`)."""

    variables: dict[str, Code]

    def name(self) -> str:
        """Returns a name that is free."""

    def helper(self, function: Any) -> str:  # noqa: ANN401 - what the source calls or reads
        """Returns the name by which the source calls a function."""

    def value(self, expression: proto.Expression) -> Code:
        """Returns the source of a value."""

    def true(self, expression: proto.Expression) -> str:
        """Returns the source of a condition."""

    def logic(self, expression: proto.Expression, *, is_wanted: bool) -> str:
        """Returns the source of whether an expression is true, or whether it is false."""

    def strict(self, arguments: Sequence[Code], source: str | Callable[..., Any], kind: Kind) -> Code:
        """Returns a function's value, null where an argument is null."""

    def text(self, number: Code) -> Code:
        """Returns a whole number as text."""


def _equal(scope: Values, given: Given) -> Code:
    left, right = map(scope.value, given)
    common_for_equality(left.kind, right.kind)
    return scope.strict([left, right], "{0} == {1}", "boolean")


def _two_of_logic(name: str) -> Callable[[Values, Given], Code]:
    def make(scope: Values, given: Given) -> Code:
        called = proto.Expression.UnresolvedFunction(function_name=name, arguments=given)
        whole = proto.Expression(unresolved_function=called)
        yes, no = scope.logic(whole, is_wanted=True), scope.logic(whole, is_wanted=False)
        return Code(f"(True if {yes} else False if {no} else None)", "boolean")

    return make


def _not(scope: Values, given: Given) -> Code:
    return scope.strict([scope.value(given[0])], "not {0}", "boolean")


def _null(*, is_null: bool) -> Callable[[Values, Given], Code]:
    def make(scope: Values, given: Given) -> Code:
        text = f"({scope.value(given[0]).text} is {'' if is_null else 'not '}None)"
        return Code(text, "boolean", may_be_null=False)

    return make


def _coalesce(scope: Values, given: Given) -> Code:
    values = [*map(scope.value, given)]
    kind, text = common([value.kind for value in values]), values[-1].text
    for value in reversed(values[:-1]):
        if value.is_plain:
            text = f"({value.text} if {value.text} is not None else {text})"
        else:
            name = scope.name()
            text = f"({name} if ({name} := {value.text}) is not None else {text})"
    return Code(text, kind, may_be_null=all(value.may_be_null for value in values))


def _when(scope: Values, given: Given) -> Code:
    pairs, rest = [*zip(given[::2], given[1::2], strict=False)], given[len(given) // 2 * 2 :]
    otherwise = [scope.value(one) for one in rest]
    values = [scope.value(value) for _, value in pairs]
    text = otherwise[0].text if otherwise else "None"
    for (condition, _), value in zip(reversed(pairs), reversed(values), strict=True):
        text = f"({value.text} if {scope.true(condition)} else {text})"
    kind = common([value.kind for value in [*values, *otherwise]])
    return Code(text, kind, may_be_null=not otherwise or any(one.may_be_null for one in [*values, *otherwise]))


def _in(scope: Values, given: Given) -> Code:
    first, *others = map(scope.value, given)
    for other in others:
        common_for_equality(first.kind, other.kind)
    if any(other.may_be_null for other in others):
        raise UnknownPlanError("a list with nulls")
    return scope.strict([first], f"{{0}} in ({', '.join(other.text for other in others)},)", "boolean")


def _array(scope: Values, given: Given) -> Code:
    values = [*map(scope.value, given)]
    kind = common([value.kind for value in values]) if values else VOID
    return Code(f"({''.join(f'{value.text}, ' for value in values)})", ("array", kind), may_be_null=False)


def _repeated(scope: Values, given: Given) -> Code:
    value, count = map(scope.value, given)
    repeat = scope.helper(lambda one, times: (one,) * times)
    return scope.strict([count], f"{repeat}({value.text}, {{0}})", ("array", value.kind))


def _named_struct(scope: Values, given: Given) -> Code:
    names = [one.literal.string for one in given[::2]]
    return _structure(scope, names, given[1::2])


def _struct(scope: Values, given: Given) -> Code:
    names = []
    for place, one in enumerate(given):
        match one.WhichOneof("expr_type"):
            case "alias":
                names.append(one.alias.name[0])
            case "unresolved_attribute":
                names.append(one.unresolved_attribute.unparsed_identifier.rpartition(".")[2])
            case "unresolved_named_lambda_variable":
                names.append(one.unresolved_named_lambda_variable.name_parts[0])
            case "unresolved_extract_value":
                names.append(one.unresolved_extract_value.extraction.literal.string)
            case _:
                names.append(f"col{place + 1}")
    return _structure(scope, names, given)


def _structure(scope: Values, names: Sequence[str], given: Given) -> Code:
    values = [*map(scope.value, given)]
    kind = ("struct", tuple(names), tuple(value.kind for value in values))
    return Code(f"({''.join(f'{value.text}, ' for value in values)})", kind, may_be_null=False)


def _best(*, is_least: bool) -> Callable[[Values, Given], Code]:
    def make(scope: Values, given: Given) -> Code:
        values = [*map(scope.value, given)]
        kind = common([value.kind for value in values])
        find = scope.helper(best(kind, is_least=is_least))
        return Code(f"{find}({', '.join(value.text for value in values)})", kind)

    return make


def _sorted(scope: Values, given: Given) -> Code:
    if len(given) != 1:
        raise UnknownPlanError("array_sort with a comparator")
    value = scope.value(given[0])
    return Code(f"{scope.helper(sorted_array(value.kind))}({value.text})", value.kind)


def _json(scope: Values, given: Given) -> Code:
    if len(given) != 1:
        raise UnknownPlanError("to_json with options")
    value = scope.value(given[0])
    return Code(f"{scope.helper(json_text(value.kind))}({value.text})", "string")


def _failing(scope: Values, given: Given) -> Code:
    def fail(text: str) -> None:
        raise UnknownPlanError(text)

    return Code(f"{scope.helper(fail)}({scope.value(given[0]).text})", VOID)


def _joined(scope: Values, given: Given) -> Code:
    """Returns texts or arrays put together; whole numbers become texts."""
    values = [*map(scope.value, given)]
    if any(value.kind == "string" for value in values):
        texts = [value if value.kind == "string" else scope.text(value) for value in values]
        return scope.strict(texts, lambda *parts: "".join(parts), "string")
    kind = common([value.kind for value in values])
    if not is_array(kind):
        raise UnknownPlanError(f"concat of {kind}")
    return scope.strict(values, lambda *arrays: sum(arrays, ()), kind)


def _array_text(scope: Values, given: Given) -> Code:
    array, between = map(scope.value, given)
    if array.kind != ("array", "string") or between.kind != "string":
        raise UnknownPlanError("array_join of no texts")
    return scope.strict([array, between], "{1}.join(e for e in {0} if e is not None)", "string")


def _hash(scope: Values, given: Given) -> Code:
    values = [*map(scope.value, given)]
    name = scope.helper(hashed([value.kind for value in values]))
    return Code(f"{name}({', '.join(value.text for value in values)})", "bigint", may_be_null=False)


def _greatest_of(scope: Values, given: Given) -> Code:
    value = scope.value(given[0])
    if not is_array(value.kind):
        raise UnknownPlanError("array_max of no array")
    return Code(f"{scope.helper(greatest_of(value.kind))}({value.text})", value.kind[1])


def _each(source: str, kind: Callable[[Kind, Kind], Kind], *, is_value: bool) -> Callable[[Values, Given], Code]:
    """Returns what makes a function of an array and a lambda.

    Args:
        source: Python source over the array ``{0}``, its element ``{1}``, and what the lambda says of it ``{2}``.
        kind: Returns the kind of the function, for those of the array and of the lambda.
        is_value: Whether the lambda makes a value; otherwise it is a condition.
    """

    def make(scope: Values, given: Given) -> Code:
        array, function = scope.value(given[0]), given[1].lambda_function
        if not is_array(array.kind) or len(function.arguments) != 1:
            raise UnknownPlanError("a lambda of several arguments")
        name, element = function.arguments[0].name_parts[0], scope.name()
        before = dict(scope.variables)
        scope.variables[name] = Code(element, array.kind[1], is_plain=True)
        body = scope.value(function.function)
        said = body.text if is_value else scope.true(function.function)
        scope.variables = before
        return scope.strict([array], source.format("{0}", element, said), kind(array.kind, body.kind))

    return make


SPECIAL: Final[dict[str, Callable[[Values, Given], Code]]] = {
    "==": _equal, "and": _two_of_logic("and"), "or": _two_of_logic("or"), "not": _not,
    "isnull": _null(is_null=True), "isnotnull": _null(is_null=False), "coalesce": _coalesce, "when": _when,
    "if": _when, "in": _in, "array": _array, "array_repeat": _repeated, "named_struct": _named_struct,
    "struct": _struct, "greatest": _best(is_least=False), "least": _best(is_least=True), "array_sort": _sorted,
    "to_json": _json, "raise_error": _failing, "concat": _joined, "array_join": _array_text, "xxhash64": _hash,
    "array_max": _greatest_of,
    "filter": _each("tuple({1} for {1} in {0} if {2})", lambda array, _: array, is_value=False),
    "exists": _each("any({2} for {1} in {0})", lambda *_: "boolean", is_value=False),
    "transform": _each("tuple({2} for {1} in {0})", lambda _, made: ("array", made), is_value=True),
}  # fmt: skip
