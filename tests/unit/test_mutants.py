"""The mutation operator for SQL text, and what is not mutated; needs the extra ``mutation``."""

from __future__ import annotations

import pytest

pytest.importorskip("cosmic_ray")

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from mutation.mutants import OPERATORS, ROOT, Mutant, mutants
from mutation.sql_text import SqlText


def changed(code: str) -> list[str]:
    """All that the operator makes of a line of code."""
    n_places = sum(len(list(SqlText().mutation_positions(node))) for node in ast_nodes(get_ast(code)))
    return [str(mutate_code(code, SqlText(), place)) for place in range(n_places)]


@pytest.mark.parametrize("example", SqlText.examples(), ids=lambda example: example.post_mutation_code)
def test_the_examples_of_the_operator_hold(example: object) -> None:
    code, place = example.pre_mutation_code, example.occurrence  # type: ignore[attr-defined]
    assert (mutate_code(code, SqlText(), place) or code) == example.post_mutation_code  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <= b", ["a < b"]),
        ("a is null or b", ["a is not null or b", "a is null and b"]),
        ("kind = 'max(1) and 2'", ["kind <> 'max(1) and 2'"]),
        ("max(round) as round", ["min(round) as round"]),
        ("filter(p, n -> n.a < 3)", ["filter(p, n -> n.a <= 3)", "filter(p, n -> n.a < 4)"]),
        ("count(1) as n_rows", []),
        ("a between 1 and b", ["a between 2 and b"]),
        ("left", ["inner"]),
        ("left_semi", ["left_anti"]),
        ("node_id", []),
        ("order by place desc", ["order by place asc"]),
    ],
)
def test_one_token_changes_at_a_time_and_text_within_sql_never(text: str, expected: list[str]) -> None:
    assert changed(f'f("{text}")') == [f'f("{one}")' for one in expected]


def test_sql_in_f_strings_changes_but_not_its_expressions() -> None:
    assert changed('f(f"{a if b else 3} > {n}")') == ['f(f"{a if b else 3} >= {n}")']


def test_mutants_differ_and_say_what_they_change() -> None:
    found = mutants("udfs/ginger/buffer.py")
    source = (ROOT / "udfs/ginger/buffer.py").read_text()
    assert len({one.source for one in found} | {source}) == len(found) + 1
    assert {one.operator for one in found} <= {*OPERATORS, "SqlText"}
    (is_total,) = (one for one in found if 'guarantee != "total"' in one.source)
    assert isinstance(is_total, Mutant)
    changes = [line for line in is_total.diff.splitlines() if line[0] in "+-"]
    assert changes == ['-        return self.guarantee == "total"', '+        return self.guarantee != "total"']
