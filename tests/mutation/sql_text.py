"""A mutation operator for the SQL in string literals, which the operators on Python's syntax do not change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cosmic_ray.operators.operator import Example, Operator
from parso.tree import Leaf

_SWAPS = (
    ("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"), ("=", "<>"), ("<>", "="), ("+", "-"), ("-", "+"),
    ("and", "or"), ("or", "and"), ("is null", "is not null"), ("is not null", "is null"), ("not", ""),
    ("true", "false"), ("false", "true"), ("desc", "asc"),
    *((f"{one}(", f"{other}(")
      for pair in (("max", "min"), ("greatest", "least"), ("bool_and", "bool_or"))
      for one, other in (pair, reversed(pair))),
)  # fmt: skip
_WHOLE = {"left_anti": "left_semi", "left_semi": "left_anti", "left": "inner"}
"""Replacements of join types, which are whole literals."""
_TOKEN = re.compile(
    r"""
    '[^']*'                                         # a string literal in SQL is not changed
    | (?<=[ ])(?:<=|>=|<>|<|>|=|\+|-)(?=[ ])
    | \bis\ not\ null\b | \bis\ null\b
    | \b(?:and|or|not|true|false|desc)\b
    | \b(?:max|min|greatest|least|bool_and|bool_or)\(
    | (?<!count\()(?<![\w.'{-])\d+(?![\w.'}])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BETWEEN = re.compile(r"\bbetween\s+\S+\s*$", re.IGNORECASE)
_BODY = re.compile(r"^([a-zA-Z]*)(\"\"\"|'''|\"|')(.*)\2$", re.DOTALL)
_DOTTED_LETTERS = re.compile(r"[A-Z][a-z]+ [a-z]+ [a-z]+ [a-z]+")


def _changes(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields the possible changes of a string: start, end, and the replacement."""
    if text in _WHOLE:
        yield 0, len(text), _WHOLE[text]
        return
    swaps = dict(_SWAPS)
    for found in _TOKEN.finditer(text):
        word = found[0].lower()
        if word.isdigit():
            yield *found.span(), str(int(word) + 1)
        elif word in swaps and not (word == "and" and _BETWEEN.search(text, 0, found.start())):
            yield *found.span(), swaps[word]


def _is_statement(node: Leaf) -> bool:
    """Returns whether a literal is a statement, for example a docstring."""
    while node.parent is not None and node.parent.type in ("strings", "fstring"):
        node = node.parent
    return node.parent is None or node.parent.type in ("simple_stmt", "file_input", "suite")


class SqlText(Operator):
    """Changes one token of the SQL in a literal: a comparison, and/or, null test, maximum, join type or number."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yields the position of a literal once for each possible change of the literal."""
        if node.type in ("string", "fstring_string") and not _is_statement(node):
            for _ in self._changed(node):
                yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Makes the change with number ``index``."""
        node.value = list(self._changed(node))[index]
        return node

    @staticmethod
    def _changed(node: Any) -> Iterator[str]:
        literal = node.value
        body = _BODY.match(literal) if node.type == "string" else None
        first, text = (body.start(3), body[3]) if body else (0, literal)
        if _DOTTED_LETTERS.search(text):
            return
        for start, end, by in _changes(text):
            yield literal[: first + start] + by + literal[first + end :]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Returns examples of lines before and after the change, for cosmic-ray."""
        return (
            Example("row.where('distance > 0')", "row.where('distance >= 0')"),
            Example("row.where('distance > 0')", "row.where('distance > 1')", occurrence=1),
            Example('one.join(other, "run_id", "left_anti")', 'one.join(other, "run_id", "left_semi")'),
            Example('"""Is not null and > 0."""', '"""Is not null and > 0."""'),
        )
