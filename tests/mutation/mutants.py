"""Creates the mutants of a module: one small change each, by an operator of cosmic-ray or by `sql_text`."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator

from mutation.sql_text import SqlText

ROOT = Path(__file__).parents[2]
_COMPARISONS = (
    "Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt",
    "Is_IsNot", "IsNot_Is",
)  # fmt: skip
_BINARY = (
    "Add_Sub", "Sub_Add", "Mul_Add", "FloorDiv_Mul", "Mod_Mul", "LShift_RShift", "RShift_LShift", "BitOr_BitAnd",
    "BitAnd_BitOr", "BitOr_Sub", "Sub_BitOr",
)  # fmt: skip
OPERATORS = (
    *(f"ReplaceComparisonOperator_{swap}" for swap in _COMPARISONS),
    *(f"ReplaceBinaryOperator_{swap}" for swap in _BINARY),
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd", "AddNot", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip
"""The operators of cosmic-ray that are used; of its replacements of an operator, only the likely typing errors."""
_SKIPPED = ("decorator", "raise_stmt", "import_from", "import_name")
"""The types of syntax nodes that are not mutated: decorators, raised errors and imports.

Annotations, docstrings, ``strict=`` and the zero in ``value or 0``, which only satisfies the type checker, are not
mutated either."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        module: The path of the module in the project.
        operator: The name of the operator that made the change.
        line: The line of the change.
        source: The source of the changed module.
    """

    module: str
    operator: str
    line: int
    source: str

    @property
    def key(self) -> str:
        """A hash of the module's path and the changed source, which identifies the mutant."""
        return hashlib.sha256(f"{self.module}\n{self.source}".encode()).hexdigest()[:20]

    @property
    def diff(self) -> str:
        """The change as a unified diff, without the lines that name the files."""
        before = (ROOT / self.module).read_text().splitlines()
        lines = difflib.unified_diff(before, self.source.splitlines(), lineterm="", n=1)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def mutants(module: str) -> list[Mutant]:
    """Returns all distinct mutants of a module that compile, in the order of lines."""
    text = (ROOT / module).read_text()
    found: dict[str, Mutant] = {text: Mutant(module, "none", 0, text)}
    for name, operator in _operators("pyspark" in text):
        for occurrence, line in _places(text, operator):
            source = mutate_code(text, operator, occurrence)
            if source is not None and source not in found and _compiles(source):
                found[source] = Mutant(module, name, line, source)
    del found[text]
    return sorted(found.values(), key=lambda one: (one.line, one.operator, one.key))


def _operators(has_sql: bool) -> Iterator[tuple[str, Operator]]:
    for name in OPERATORS:
        yield name, cosmic_ray.plugins.get_operator(f"core/{name}")()
    if has_sql:
        yield "SqlText", SqlText()


def _places(text: str, operator: Operator) -> Iterator[tuple[int, int]]:
    """Yields the number and the line of each occurrence of an operator that is not skipped (`_is_skipped`)."""
    occurrence = -1
    for node in ast_nodes(get_ast(text)):
        for (line, _), _ in operator.mutation_positions(node):
            occurrence += 1
            if not _is_skipped(node):
                yield occurrence, line


def _is_skipped(node: Any) -> bool:
    child = node
    while (parent := child.parent) is not None:
        is_annotation = (
            (parent.type == "annassign" and child is parent.children[1])
            or (parent.type == "tfpdef" and child is parent.children[-1])
            or (parent.type == "funcdef" and child is parent.annotation)
        )
        is_check = parent.type == "argument" and getattr(parent.children[0], "value", "") == "strict"
        is_fallback = parent.type == "or_test" and child is parent.children[-1] and getattr(child, "value", "") == "0"
        if is_annotation or is_check or is_fallback or parent.type in _SKIPPED:
            return True
        child = parent
    return False


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True
