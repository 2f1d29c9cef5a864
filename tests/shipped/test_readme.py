"""The commands of the first page and of the page on crashes, as a newcomer copies them, print what the pages show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.commands import cli
from support.pages import blocks, commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
CRASHES = (ROOT / "pipelines" / "docs" / "crashes.md").read_text("utf-8")


@cache
def printed(command: str) -> str:
    """Executes a command once: both pages run the scenario ``beyond_delta``, in one folder."""
    done = cli(*shlex.split(command), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return compared(done.output)


def compared(output: str) -> str:
    """Returns an output without blanks at the ends of lines, without the place of the store, which has the time."""
    output = re.sub(r"; history in \S+$| +$", "", output, flags=re.MULTILINE)
    return re.sub(r"/\d{8}T\d{6}Z(-\d+)?", "/latest", output)


def assert_shows(output: str, shown: str) -> None:
    """Checks that an output has the lines that a page shows; a line ``...`` stands for any lines."""
    end = 0
    for part in compared(shown).split("...\n"):
        assert part in output[end:], (part, output)
        end = output.index(part, end) + len(part)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory: a folder with the scenarios, in which the commands of the page on crashes have run."""
    path = tmp_path_factory.mktemp("pages")
    (path / "conf").symlink_to(ROOT / "conf")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield path


def test_the_page_on_crashes_shows_what_its_commands_print(folder: Path) -> None:
    shown = [*commands(CRASHES)]
    assert [command.split()[0] for command, _ in shown] == ["run", "sql", "why", "run", "compare-node"]
    for command, output in shown:
        assert_shows(printed(command), output)
    assert {path.name for path in (folder / "runs").iterdir()} == {"beyond_delta", "single_crash"}


def test_the_first_page_shows_what_its_commands_print(folder: Path) -> None:
    for name in ("beyond_delta", "quickstart"):
        output = printed(f"run conf/scenarios/{name}.yaml --engine local")
    tables = [block for block in blocks(README) if block.startswith("run   seed   protocol.delta")]
    [shown] = [block for block in tables if "119/194" in block]
    assert_shows(output, shown)
    found = [*commands(README)]
    assert [command.split()[0] for command, _ in found] == ["why", "sql"]
    for command, expected in found:
        assert_shows(printed(command), expected)
    assert (folder / "runs" / "quickstart" / "latest").is_symlink()


def test_the_example_with_own_files_prints_what_the_page_shows(tmp_path: Path) -> None:
    commands = next(block for block in blocks(README, "bash") if "roundtable init" in block)
    [shown] = [block for block in blocks(README) if block.startswith("what ") and "Oslo" in block]
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "roundtable").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipelines "$@"\n')
    (tools / "roundtable").chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    script = ["bash", "-euc", commands]
    ended = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert shown.removesuffix("...\n") in ended.stdout
