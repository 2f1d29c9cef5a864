"""Lint, format and types are part of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", [("ruff", "check"), ("ruff", "format", "--check"), ("mypy",)], ids=" ".join)
def test_nothing_to_complain_about(command: tuple[str, ...]) -> None:
    found = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("word", ["Gives", "Tells"])
def test_docstrings_say_what_is_returned(word: str) -> None:
    files = [file for folder in ("pipelines", "udfs", "tests") for file in (ROOT / folder).rglob("*.py")]
    start = f'"""{word} '
    assert [str(file.relative_to(ROOT)) for file in files if start in file.read_text("utf-8")] == []


def test_no_module_is_longer_than_400_lines() -> None:
    files = [file for folder in ("pipelines", "udfs") for file in (ROOT / folder).rglob("*.py")]
    assert {str(f.relative_to(ROOT)): n for f in files if (n := len(f.read_text("utf-8").splitlines())) > 400} == {}
