"""The commands of the first page, as a newcomer copies them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(language: str) -> list[str]:
    """Returns the fenced blocks of a language on the first page, in order."""
    page = (ROOT / "README.md").read_text("utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if name == language]


def test_the_example_with_own_files_prints_what_the_page_shows(tmp_path: Path) -> None:
    commands = next(block for block in blocks("bash") if "roundtable init" in block)
    [shown] = [block for block in blocks("") if block.startswith("what ") and "Oslo" in block]
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "roundtable").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipelines "$@"\n')
    (tools / "roundtable").chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    script = ["bash", "-euc", commands]
    ended = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert shown.removesuffix("...\n") in ended.stdout
