"""Each audit of each protocol has a test that plants a violation of its guarantee.

The test reads the source of test modules, so it needs no engine. A module plants violations in functions and tables
that mention one of `PLANTING`, and names there the guarantee that must report the violation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.audits.run import GENERAL
from pipelines.protocols import PROTOCOLS

TESTS = Path(__file__).parents[1]
PLANTING = frozenset({"Plant", "added", "case", "copied", "plant", "planted", "removed", "replaced"})
MODULES = {
    "": ("store/test_audits.py",),
    "delta": ("store/test_audits_crashes.py", "store/test_audits_delta.py", "store/test_audits_delta_messages.py"),
    "epidemic": ("store/test_audits_epidemic.py",),
    "flooding": ("store/test_audits_flooding.py",),
    "ginger": ("store/test_audits_ginger.py", "store/test_audits_ginger_messages.py"),
    "gossipsub": ("store/test_audits_gossipsub.py", "store/test_audits_gossipsub_mesh.py"),
    "repository": ("store/test_audits_repository.py", "store/test_audits_repository_messages.py"),
    "skipring": (
        "store/test_audits_skipring.py", "store/test_audits_skipring_messages.py",
        "store/test_audits_skipring_structure.py",
    ),
}  # fmt: skip
"""The modules that plant violations of a protocol's guarantees; the general guarantees have an empty name."""


def names(node: ast.AST) -> Iterator[str]:
    """Yields the names of variables, attributes and called functions in a syntax tree."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def is_empty(node: ast.AST) -> bool:
    """Returns whether an expression is an empty list, set or dictionary."""
    match node:
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Call(func=ast.Name(id="set"), args=[]):
            return True
    return False


def strings(node: ast.AST) -> Iterator[str]:
    """Yields the string literals in a syntax tree, except in comparisons with an empty result."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Compare(ops=[ast.Eq()], comparators=[other]) if is_empty(other):
            return
    for child in ast.iter_child_nodes(node):
        yield from strings(child)


def planted(source: str) -> set[str]:
    """Returns the string literals in the functions and tables of a module that plant violations."""
    return {
        text
        for node in ast.parse(source).body
        if not isinstance(node, ast.Import | ast.ImportFrom) and not PLANTING.isdisjoint(names(node))
        for text in strings(node)
    }


@pytest.mark.parametrize("protocol", ["", *PROTOCOLS])
def test_each_guarantee_has_a_planted_violation(protocol: str) -> None:
    audits = PROTOCOLS[protocol].audits if protocol else GENERAL
    modules = MODULES.get(protocol, ())
    found = {text for module in modules for text in planted((TESTS / module).read_text("utf-8"))}
    assert {audit.name for audit in audits} - found == set()


def test_a_comparison_with_an_empty_result_plants_nothing() -> None:
    planting = 'def test_a(store):\n    [copy] = yield [Plant(store)]\n    assert copy.found("level_1") {}\n'
    assert "level_1" in planted(planting.format("== [(0, 'A')]"))
    assert "level_1" not in planted(planting.format("== []"))
    assert "level_1" not in planted(planting.format("== [(0, 'A')]").replace("Plant", "read"))
