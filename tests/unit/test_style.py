"""Lint, format and types are part of the tests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLUMNS = 120


@pytest.mark.parametrize("command", [("ruff", "check"), ("ruff", "format", "--check"), ("mypy",)], ids=" ".join)
def test_nothing_to_complain_about(command: tuple[str, ...]) -> None:
    found = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yields the numbered lines of a page that are no code, no row of a table, and no bare link."""
    is_code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and not re.match(r"\s*(\||<?https?://\S+>?$)", line):
            yield number, line


def test_pages_wrap_at_120_columns() -> None:
    pages = [
        page for page in ROOT.rglob("*.md") if not any(part.startswith(".") for part in page.relative_to(ROOT).parts)
    ]
    assert len(pages) > 10
    long = [f"{page.relative_to(ROOT)}:{n}" for page in pages for n, line in prose(page) if len(line) > COLUMNS]
    assert long == []


def test_no_module_is_longer_than_500_lines() -> None:
    files = [file for folder in ("pipelines", "udfs") for file in (ROOT / folder).rglob("*.py")]
    assert {str(f.relative_to(ROOT)): n for f in files if (n := len(f.read_text("utf-8").splitlines())) > 500} == {}
