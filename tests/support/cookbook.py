"""Reads the statements and answers of the SQL cookbook; ``python tests/support/cookbook.py`` updates the answers."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pipelines as rt
from pipelines.cli.printing import write_rows
from pipelines.engines.session import open_session
from pipelines.result import Result

PROJECT = Path(__file__).parents[2]
COOKBOOK = PROJECT / "pipelines" / "sql" / "README.md"
SCENARIO = PROJECT / "conf" / "scenarios" / "beyond_delta.yaml"
_RECIPE = re.compile(r"```sql\n(?P<statement>.*?)\n```\n(?:```\n(?P<answer>.*?)\n```\n)?", re.DOTALL)


def recipes(text: str) -> list[tuple[str, str]]:
    """Returns pairs of a statement in ``text`` and its answer, which is the output of ``roundtable sql``."""
    return [(found["statement"], found["answer"] or "") for found in _RECIPE.finditer(text)]


def answer(result: Result, statement: str) -> str:
    """Returns the output of ``roundtable sql`` for a statement."""
    printed = io.StringIO()
    write_rows(result.sql(statement).toArrow(), "table", printed)
    return printed.getvalue().rstrip("\n")


def with_answers(text: str, ask: Callable[[str], str]) -> str:
    """Returns the cookbook ``text`` in which ``ask`` returns the answer to each statement."""

    def answered(found: re.Match[str]) -> str:
        statement = found["statement"]
        return f"```sql\n{statement}\n```\n```\n{ask(statement)}\n```\n"

    return _RECIPE.sub(answered, text)


def main() -> None:
    """Runs the scenario and writes the answers into the cookbook."""
    text = COOKBOOK.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, open_session("local") as sail:
        result = rt.run(SCENARIO, sail.spark, Path(folder, "store"))
        COOKBOOK.write_text(with_answers(text, lambda statement: answer(result, statement)), encoding="utf-8")


if __name__ == "__main__":
    main()
