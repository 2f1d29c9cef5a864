"""Converts the Databricks notebooks to Jupyter notebooks.

``PYTHONPATH=tests python -m support.ipynb`` writes each Jupyter notebook beside its Databricks notebook.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "pipelines" / "notebooks"
SOURCE = "# Databricks notebook source\n"
_CELL = "# COMMAND ----------\n"
_MAGIC = "# MAGIC"


def notebooks() -> list[Path]:
    """Returns the paths of the Databricks notebooks, sorted."""
    return sorted(path for path in NOTEBOOKS.glob("*.py") if path.read_text("utf-8").startswith(SOURCE))


def converted(path: Path) -> str:
    """Returns the content of the Jupyter notebook for a Databricks notebook."""
    cells = [
        _cell(*part) for block in path.read_text("utf-8").removeprefix(SOURCE).split(_CELL) for part in _parts(block)
    ]
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"


def _parts(block: str) -> Iterator[tuple[bool, str]]:
    """Splits a block into Markdown and code; yields pairs: whether the part is Markdown, and its text."""
    for is_markdown, lines in groupby(block.splitlines(), lambda line: line.startswith(_MAGIC)):
        plain = (line.removeprefix(_MAGIC).removeprefix(" ") if is_markdown else line for line in lines)
        text = "\n".join(line for line in plain if line != "%md").strip()
        if text:
            yield is_markdown, text


def _cell(is_markdown: bool, text: str) -> Any:
    return nbformat.v4.new_markdown_cell(text) if is_markdown else nbformat.v4.new_code_cell(text)


def main() -> None:
    """Writes the Jupyter notebooks."""
    for path in notebooks():
        path.with_suffix(".ipynb").write_text(converted(path), "utf-8")


if __name__ == "__main__":
    main()
