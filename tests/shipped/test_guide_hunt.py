"""The guide's planted fault is found by the guide's own command, and the corpus is mended with the program."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from shipped.test_guide import GUIDE, ROOT, site

__all__ = ["site"]
SECONDS = 60


def commands() -> list[list[str]]:
    """Returns the words of the commands of the guide's section on hunts."""
    section = GUIDE.read_text("utf-8").partition("## 6. A hunt")[2]
    [text] = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines()]


def ran(site: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command where the guide's package is installed."""
    environment = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pipelines", *words[1:]] if words[0] == "roundtable" else words
    return subprocess.run(command, env=environment, cwd=site, capture_output=True, text=True, check=False)


def test_a_planted_fault_is_found_by_the_guides_own_command(site: Path) -> None:
    planted, hunted = commands()
    program = site / "flooding" / "program.py"
    whole = program.read_text("utf-8")
    assert ran(site, planted).returncode == 0
    assert program.read_text("utf-8") != whole
    start = time.monotonic()
    found = ran(site, hunted)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "reached_everybody" in found.stdout
    assert time.monotonic() - start < 5 * SECONDS  # a minute where nothing else runs
    kept = next((site / "corpus").glob("reached_everybody_*.yaml")).read_text("utf-8")
    assert kept.startswith("# Breaks reached_everybody: ")
    program.write_text(whole, "utf-8")
    assert ran(site, ["roundtable", "hunt", "ring", "--runs", "0", "--corpus", "corpus"]).returncode == 0
