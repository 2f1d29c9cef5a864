"""Expressions of plans as Python source over a row ``r``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.connect.proto import expressions_pb2 as proto

from pipelines.engines.rows.codes import Code, common_for_equality, kind_with_null, literal_code, understood
from pipelines.engines.rows.functions import FUNCTIONS
from pipelines.engines.rows.kinds import VOID, Kind, UnknownPlanError, holds, is_struct, is_whole, kind_sent
from pipelines.engines.rows.special import SPECIAL

GENERATORS: Final = frozenset(["explode", "posexplode", "inline"])


@dataclass
class Scope:
    """What names stand for.

    Attributes:
        columns: The columns of ``r``, in their order.
        kinds: Their kinds.
        slots: What is worked out beforehand: a column of ``r`` by the text of the expression.
        helpers: What the source calls, by name.
        variables: What the variables of lambdas stand for.
    """

    columns: Sequence[str]
    kinds: Sequence[Kind]
    slots: dict[bytes, Code] = field(default_factory=dict)
    helpers: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Code] = field(default_factory=dict)
    _n_names: int = 0

    def name(self) -> str:
        """Returns a name that is free."""
        self._n_names += 1
        return f"v{self._n_names}"

    def helper(self, function: Any) -> str:  # noqa: ANN401 - what the source calls or reads
        """Returns the name by which the source calls a function."""
        for name, known in self.helpers.items():
            if known is function:
                return name
        name = f"f{len(self.helpers)}"
        self.helpers[name] = function
        return name

    def column(self, name: str) -> Code:
        """Returns a column, or a field of one that holds structs.

        Raises:
            UnknownPlanError: There is no such column, or more than one.
        """
        places = [place for place, known in enumerate(self.columns) if known == name]
        if len(places) == 1:
            return Code(f"r[{places[0]}]", self.kinds[places[0]], is_plain=True)
        before, dot, after = name.rpartition(".")
        if places or not dot:
            raise UnknownPlanError(f"column {name}")
        return self.member(self.column(before), after)

    def member(self, of: Code, name: str) -> Code:
        """Returns a field of structs."""
        if not is_struct(of.kind) or of.kind[1].count(name) != 1:
            raise UnknownPlanError(f"field {name} of {of.kind}")
        place = of.kind[1].index(name)
        return self.strict([of], f"{{0}}[{place}]", of.kind[2][place])

    def strict(self, arguments: Sequence[Code], source: str | Callable[..., Any], kind: Kind) -> Code:
        """Returns a function's value, null where an argument is null."""
        checks, texts = [], []
        for argument in arguments:
            if argument.kind == VOID:
                return Code("None", kind, is_plain=True)
            text = argument.text
            if not argument.may_be_null:
                texts.append(text)
                continue
            if argument.is_plain:
                checks.append(f"{text} is None")
            else:
                text = self.name()
                checks.append(f"({text} := {argument.text}) is None")
            texts.append(text)
        made = source.format(*texts) if isinstance(source, str) else f"{self.helper(source)}({', '.join(texts)})"
        if not checks:
            return Code(f"({made})", kind, may_be_null=not isinstance(source, str))
        return Code(f"(None if {' or '.join(checks)} else {made})", kind)

    def value(self, expression: proto.Expression) -> Code:
        """Returns the source of an expression's value.

        Raises:
            UnknownPlanError: Only an engine can work it out.
        """
        expression = understood(expression)
        if self.slots and (slot := self.slots.get(expression.SerializeToString(deterministic=True))):
            return slot
        match expression.WhichOneof("expr_type"):
            case "unresolved_attribute":
                attribute = expression.unresolved_attribute
                if attribute.HasField("plan_id"):
                    raise UnknownPlanError("a column of a plan")
                return self.column(attribute.unparsed_identifier.replace("`", ""))
            case "literal":
                return literal_code(expression.literal)
            case "unresolved_named_lambda_variable":
                (name,) = expression.unresolved_named_lambda_variable.name_parts
                return self.variables[name]
            case "unresolved_extract_value":
                extracted = expression.unresolved_extract_value
                return self.member(self.value(extracted.child), extracted.extraction.literal.string)
            case "alias":
                return self.value(expression.alias.expr)
            case "cast":
                return self._cast(expression.cast)
            case "unresolved_function":
                return self._call(expression.unresolved_function)
            case other:
                raise UnknownPlanError(str(other))

    def true(self, expression: proto.Expression) -> str:
        """Returns the source of a condition: true where the expression is."""
        return self.logic(understood(expression), is_wanted=True)

    def logic(self, expression: proto.Expression, *, is_wanted: bool) -> str:
        """Returns the source of whether an expression is true, or whether it is false."""
        called = expression.unresolved_function
        name, arguments = called.function_name, [understood(one) for one in called.arguments]
        match name, len(arguments):
            case "not", 1:
                return self.logic(arguments[0], is_wanted=not is_wanted)
            case (("and" | "or"), 2):
                word = name if is_wanted else {"and": "or", "or": "and"}[name]
                return f"({f' {word} '.join(self.logic(one, is_wanted=is_wanted) for one in arguments)})"
            case (("isNull" | "isNotNull"), 1):
                is_null = (name == "isNull") == is_wanted
                return f"({self.value(arguments[0]).text} is {'' if is_null else 'not '}None)"
            case "==", 2 if is_wanted:
                left, right = map(self.value, arguments)
                common_for_equality(left.kind, right.kind)
                if not (left.may_be_null and right.may_be_null) and VOID not in (left.kind, right.kind):
                    return f"({left.text} == {right.text})"
        return f"({self.value(expression).text} is {is_wanted})"

    def _call(self, called: proto.Expression.UnresolvedFunction) -> Code:
        name, given = called.function_name.lower(), [understood(one) for one in called.arguments]
        if called.is_distinct:
            raise UnknownPlanError(f"distinct {name}")
        special = SPECIAL.get(name)
        if special is not None:
            return special(self, given)
        function = FUNCTIONS.get(name)
        if function is None or function.n_arguments not in (None, len(given)):
            raise UnknownPlanError(f"{name} of {len(given)}")
        arguments = [*map(self.value, given)]
        kinds = [argument.kind for argument in arguments]
        known = [kind for kind in kinds if kind != VOID]
        kind = function.kind(kinds) if len(known) == len(kinds) else kind_with_null(function.kind, kinds)
        return self.strict(arguments, function.source, kind)

    def text(self, number: Code) -> Code:
        """Returns a whole number as text."""
        if not is_whole(number.kind):
            raise UnknownPlanError(f"text of {number.kind}")
        return self.strict([number], "str({0})", "string")

    def _cast(self, cast: proto.Expression.Cast) -> Code:
        if cast.type_str:
            raise UnknownPlanError(cast.type_str)
        value, kind = self.value(cast.expr), kind_sent(cast.type)
        if holds(kind, value.kind):
            return Code(value.text, kind, value.is_plain, value.may_be_null)
        match value.kind, kind:
            case (("int" | "bigint"), "string"):
                return self.strict([value], "str({0})", kind)
            case (("int" | "bigint"), "double"):
                return self.strict([value], "float({0})", kind)
            case (("double" | "boolean"), ("int" | "bigint")):
                return self.strict([value], "int({0})", kind)
        raise UnknownPlanError(f"cast of {value.kind} to {kind}")
