"""Measures the time in which a store answers the queries of the SQL cookbook, and a query of view ``comparison``.

    python tests/perf/questions.py STORE [--engine local] [--repeat 3]

A row is a query in `pipelines/sql/README.md`, named by its heading; a query that the store cannot answer, for example
because it belongs to a protocol that the store does not contain, has its error in the row. Columns: rows of the answer;
wall seconds of the first execution in this process; wall seconds of the fastest execution; CPU seconds of this process
in the fastest execution.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from rich.console import Console
from rich.table import Table
from support.cookbook import COOKBOOK, recipes

import pipelines as rt
from pipelines.errors import QueryError
from pipelines.result import Result

_HEADING = re.compile(r"^## (?P<question>.*)$", re.MULTILINE)
_OWN = ("comparison", "SELECT * FROM comparison ORDER BY run_id")


class _Answer(NamedTuple):
    n_rows: int
    seconds: float
    cpu_seconds: float


def questions(text: str) -> Iterator[tuple[str, str]]:
    """Yields pairs of a heading of a cookbook and a statement below it."""
    parts = _HEADING.split(text)[1:]
    for heading, part in zip(parts[::2], parts[1::2], strict=True):
        for statement, _ in recipes(part):
            yield heading, statement


def _asked(result: Result, statement: str) -> _Answer:
    start, cpu = time.perf_counter(), time.process_time()
    rows = result.sql(statement).toArrow()
    return _Answer(rows.num_rows, time.perf_counter() - start, time.process_time() - cpu)


def main() -> None:
    """Executes each query ``--repeat`` times and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    table = Table(*("question", "rows", "first s", "least s", "CPU s"), title=options.store)
    with rt.open_store(options.store, engine=options.engine) as result:
        for question, statement in [*questions(COOKBOOK.read_text("utf-8")), _OWN]:
            try:
                found = [_asked(result, statement) for _ in range(options.repeat)]
            except QueryError as error:
                table.add_row(question, str(error).splitlines()[0][:60])
                continue
            least = min(found, key=lambda one: one.seconds)
            table.add_row(question, str(least.n_rows), *(f"{s:.2f}" for s in (found[0].seconds, *least[1:])))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
