"""The SQL cookbook gives the answers that it shows, and the page of all tables says what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.cookbook import COOKBOOK, SCENARIO, answer, recipes
from support.reference import TABLES, tables_page

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.result import Result

RECIPES = recipes(COOKBOOK.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def result(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """The store that the cookbook names."""
    sail.activate()
    with rt.run(SCENARIO, sail.spark, tmp_path_factory.mktemp("cookbook") / "store") as ran:
        yield ran


def test_each_statement_shows_an_answer() -> None:
    assert len(RECIPES) == COOKBOOK.read_text(encoding="utf-8").count("```sql") >= 10
    assert all(shown.count("\n") >= 2 for _, shown in RECIPES)


@pytest.mark.parametrize(("statement", "shown"), RECIPES, ids=[str(place) for place in range(len(RECIPES))])
def test_the_answer_is_the_one_that_is_shown(result: Result, statement: str, shown: str) -> None:
    assert answer(result, statement) == shown, "run: python tests/support/cookbook.py"


def test_the_page_of_tables_is_up_to_date(sail: Session) -> None:
    assert TABLES.read_text(encoding="utf-8") == tables_page(sail), "run: python -m support.reference"


def test_the_page_names_every_table_of_a_store(result: Result) -> None:
    text = TABLES.read_text(encoding="utf-8")
    for name in result.reader.tables():
        assert f"\n### {name}\n" in text, name


BLOCKS = re.findall(r"```python\n(.*?)```", COOKBOOK.read_text(encoding="utf-8"), re.DOTALL)
EXPECTED = (
    ("deltalake", "select run_id, max(latency_rounds) as n from delivery group by run_id order by run_id"),
    ("duckdb", "select subscriber_name, count(1) as n from delivery_detail group by subscriber_name order by 1"),
    ("polars", "select kind, count(1) as n from message where src <> dst group by kind order by kind"),
    ("jinja2", "select measure, mean from result_summary where mean is not null"),
    ("great_tables", "select measure, mean from result_summary where mean is not null"),
)


@pytest.mark.parametrize(
    ("block", "expected"), list(zip(BLOCKS, EXPECTED, strict=True)), ids=[name for name, _ in EXPECTED]
)
def test_other_tools_answer_as_the_store_does(result: Result, block: str, expected: tuple[str, str]) -> None:
    tool, query = expected
    pytest.importorskip(tool)
    variables: dict[str, Any] = {"store": str(result.store), "result": result}
    exec(compile(block, tool, "exec"), variables)  # noqa: S102 - the page's own text
    answer = variables["answer"]
    rows = [tuple(row) for row in result.sql(query).collect()]
    assert rows
    if isinstance(answer, str):
        shown = answer.replace("\\_", "_")
        assert all(measure in shown for measure, _ in rows)
    else:
        assert (list(answer.items()) if tool == "deltalake" else answer) == rows
