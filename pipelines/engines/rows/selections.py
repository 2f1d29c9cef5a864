"""Selections: columns, windows over them, generators, and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pyspark.sql.connect.proto import expressions_pb2 as proto

from pipelines.engines.rows.codes import Code, understood
from pipelines.engines.rows.expressions import GENERATORS, Scope
from pipelines.engines.rows.functions import AGGREGATES, best, value_at
from pipelines.engines.rows.kinds import Kind, Row, UnknownPlanError, is_array, is_struct, ordered, sort_key
from pipelines.engines.rows.operators import Rows, numbered
from pipelines.engines.rows.source import Node, groups, made

_Column = Callable[[Sequence[Row]], list[Any]]

_ORDER: Final = proto.Expression.SortOrder
_BEST: Final = ("max", "min")
_AT: Final = ("min_by", "max_by")
_AGGREGATES: Final = frozenset([*AGGREGATES, *_BEST, *_AT])
_NUMBERS: Final = ("row_number", "rank", "dense_rank")


def project(node: Node, expressions: Sequence[proto.Expression]) -> Node:
    """Returns a selection as a node; one with an aggregate is of one row.

    Raises:
        UnknownPlanError: Only an engine can make it.
    """
    wanted = [understood(one) for one in expressions]
    if any(_found(one, _is_aggregate) for one in wanted):
        return aggregate(node, [], wanted)
    scope = Scope(node.names, node.kinds)
    windows = _windows(scope, wanted)
    names: list[str] = []
    codes: list[Code] = []
    generators: list[str] = []
    for one in wanted:
        kind = one.WhichOneof("expr_type")
        inner = understood(one.alias.expr) if kind == "alias" else one
        if inner.unresolved_function.function_name in GENERATORS:
            columns, each = _generated(scope, inner.unresolved_function, [*one.alias.name])
            names += columns
            codes += columns.values()
            generators.append(each)
        elif kind == "unresolved_star":
            shown = _shown(scope, one.unresolved_star.unparsed_target)
            names += shown
            codes += shown.values()
        else:
            names.append(_name(one))
            codes.append(scope.value(one))
    if len(generators) > 1:
        raise UnknownPlanError("two generators")
    kinds = tuple(code.kind for code in codes)
    text = "".join(f"{code.text}, " for code in codes)
    if not windows and not generators and [code.text for code in codes] == [f"r[{n}]" for n in range(len(node.names))]:
        return Node(tuple(names), kinds, node.make)
    select = made(f"[({text}) for r in rows{''.join(generators)}]", scope)

    def run(given: Sequence[Rows]) -> Rows:
        rows = node.make(given).rows
        if rows and windows:
            columns = [window(rows) for window in windows]
            rows = [row + more for row, more in zip(rows, zip(*columns, strict=True), strict=True)]
        return Rows(select(rows))

    return Node(tuple(names), kinds, run)


def _shown(scope: Scope, target: str) -> dict[str, Code]:
    """Returns what a star stands for: all columns, or the fields of one."""
    if not target:
        return {name: scope.column(name) for name in scope.columns}
    of = scope.column(target.removesuffix(".*"))
    if not is_struct(of.kind):
        raise UnknownPlanError(f"fields of {of.kind}")
    return {name: scope.member(of, name) for name in of.kind[1]}


def _name(expression: proto.Expression) -> str:
    match expression.WhichOneof("expr_type"):
        case "alias" if len(expression.alias.name) == 1:
            return str(expression.alias.name[0])
        case "unresolved_attribute":
            return str(expression.unresolved_attribute.unparsed_identifier).replace("`", "").rpartition(".")[2]
        case "unresolved_function":  # nobody asks for such a column by its name
            return f"{expression.unresolved_function.function_name}()"
    raise UnknownPlanError("a column without a name")


def _found(
    expression: proto.Expression, wanted: Callable[[proto.Expression], bool]
) -> Iterator[proto.Expression] | list[proto.Expression]:
    """Returns the parts of an expression that are wanted, not those within them."""
    expression = understood(expression)
    if wanted(expression):
        return [expression]
    match expression.WhichOneof("expr_type"):
        case "alias":
            return _found(expression.alias.expr, wanted)
        case "cast":
            return _found(expression.cast.expr, wanted)
        case "unresolved_function":
            return [part for one in expression.unresolved_function.arguments for part in _found(one, wanted)]
    return []


def _is_aggregate(expression: proto.Expression) -> bool:
    return expression.unresolved_function.function_name.lower() in _AGGREGATES


def _is_window(expression: proto.Expression) -> bool:
    return expression.WhichOneof("expr_type") == "window"


def _windows(scope: Scope, wanted: Sequence[proto.Expression]) -> list[_Column]:
    """Returns what works out the windows of a selection, as columns behind those of the rows."""
    found = [window for one in wanted for window in _found(one, _is_window)]
    makers: list[_Column] = []
    n_columns = len(scope.columns)
    for text, window in {one.SerializeToString(deterministic=True): one.window for one in found}.items():
        make, kind = _window(scope, window)
        scope.slots[text] = Code(f"r[{n_columns + len(makers)}]", kind, is_plain=True)
        makers.append(make)
    return makers


def _window(scope: Scope, window: proto.Expression.Window) -> tuple[_Column, Kind]:
    called = understood(window.window_function).unresolved_function
    name = called.function_name.lower()
    if window.HasField("frame_spec"):
        raise UnknownPlanError("a frame of a window")
    source = _tuple(scope.value(one).text for one in window.partition_spec)
    key: Any = made(source, scope, "r")
    if name in _NUMBERS and window.order_spec:
        order, falling = _order(scope, window.order_spec)
        return lambda rows: numbered(rows, key, order, falling, name), "int"
    if name in _AGGREGATES and not window.order_spec:
        value, kind, work = _worked(scope, called)
        values, together = made(value, scope, "g"), groups(source, scope)

        def run(rows: Sequence[Row]) -> list[Any]:
            answers = {one: work(values(group)) for one, group in together([*rows]).items()}
            return [answers[key(row)] for row in rows]

        return run, kind
    raise UnknownPlanError(f"window of {name}")


def _order(scope: Scope, spec: Sequence[proto.Expression.SortOrder]) -> tuple[Callable[[Row], Any], list[bool]]:
    """Returns what sorts rows, and which parts of it fall."""
    parts, falling = [], []
    for one in spec:
        falls = one.direction == _ORDER.SORT_DIRECTION_DESCENDING
        is_null_first = one.null_ordering == _ORDER.SORT_NULLS_FIRST
        code = scope.value(one.child)
        key = f"{scope.helper(sort_key(code.kind))}({{0}})" if not ordered(code.kind) else "{0}"
        least = "(0, 0)" if is_null_first != falls else "(2, 0)"
        value, name = code.text, scope.name()
        parts.append(f"({least} if ({name} := {value}) is None else (1, {key.format(name)}))")
        falling.append(falls)
    return made(_tuple(parts), scope, "r"), falling


def _tuple(texts: Iterator[str] | Sequence[str]) -> str:
    return f"({''.join(f'{text}, ' for text in texts)})"


def _generated(
    scope: Scope, called: proto.Expression.UnresolvedFunction, names: list[str]
) -> tuple[dict[str, Code], str]:  # fmt: skip
    """Returns the columns that a generator makes, of its element ``e`` and place ``p``, and the loop through it."""
    given = scope.value(called.arguments[0])
    if not is_array(given.kind):
        raise UnknownPlanError(f"elements of {given.kind}")
    element = Code("e", given.kind[1], is_plain=True)
    made_names, codes = ["col"], [element]
    if called.function_name == "inline":
        if not is_struct(element.kind):
            raise UnknownPlanError(f"fields of {element.kind}")
        made_names = [*element.kind[1]]
        codes = [scope.member(element, name) for name in made_names]
    elif called.function_name == "posexplode":
        made_names, codes = ["pos", "col"], [Code("p", "int"), element]
    if names and len(names) != len(codes):
        raise UnknownPlanError("names of other columns")
    array = given.text
    if ":=" in array:  # what a comprehension goes through may not name anything
        array = f"{scope.helper(made(array, scope, 'r'))}(r)"
    return dict(zip(names or made_names, codes, strict=True)), f" for p, e in enumerate({array} or ())"


def aggregate(
    node: Node, grouping: Sequence[proto.Expression], aggregates: Sequence[proto.Expression]
) -> Node:  # fmt: skip
    """Returns groups and what aggregates say of them as a node; without columns to group by, it is one row.

    Raises:
        UnknownPlanError: Only an engine can make it.
    """
    scope = Scope(node.names, node.kinds)
    keys, wanted = [understood(one) for one in grouping], [understood(one) for one in aggregates]
    key_names, key_codes = [_name(one) for one in keys], [scope.value(one) for one in keys]
    together = groups(_tuple(code.text for code in key_codes), scope)
    calls = {one.SerializeToString(deterministic=True): one for each in wanted for one in _found(each, _is_aggregate)}
    after = Scope(key_names, [code.kind for code in key_codes])
    texts: list[str] = []
    for text, call in calls.items():
        value, kind, work = _worked(scope, call.unresolved_function)
        after.slots[text] = Code(f"r[{len(keys) + len(texts)}]", kind, is_plain=True)
        texts.append(f"{scope.helper(work)}({value})")
    gather = made(f"[(*k, {''.join(f'{text}, ' for text in texts)}) for k, g in rows]", scope)
    codes = [*map(after.column, key_names), *map(after.value, wanted)]
    select = made(f"[{_tuple(code.text for code in codes)} for r in rows]", after)
    is_one = not keys

    def run(given: Sequence[Rows]) -> Rows:
        rows = node.make(given).rows
        parts: Any = [((), rows)] if is_one else together(rows).items()
        return Rows(select(gather(parts)))

    names = (*key_names, *map(_name, wanted))
    return Node(names, tuple(code.kind for code in codes), run)


def _worked(
    scope: Scope, called: proto.Expression.UnresolvedFunction
) -> tuple[str, Kind, Callable[[list[Any]], Any]]:  # fmt: skip
    """Returns the source of an aggregate's values of the rows ``g``, the kind of its answer, and what finds it."""
    name = called.function_name.lower()
    if name in _AT and len(called.arguments) == 2:
        value, by = map(scope.value, called.arguments)
        pairs = f"[({value.text}, {by.text}) for r in g]"
        return pairs, value.kind, value_at([value.kind, by.kind], is_least=name == "min_by")
    if len(called.arguments) != 1 or called.is_distinct:
        raise UnknownPlanError(f"{name} of several")
    argument = understood(called.arguments[0])
    is_star = argument.WhichOneof("expr_type") == "unresolved_star"
    code = Code("1", "int", may_be_null=False) if is_star else scope.value(argument)
    values = f"[{code.text} for r in g]"
    if name not in _BEST:
        kind, work = AGGREGATES[name]
        return values, kind([code.kind]), work
    find = best(code.kind, is_least=name == "min")
    return values, code.kind, lambda found: find(*found)
