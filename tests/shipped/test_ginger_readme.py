"""The README of ginger shows commands with their output: every one of them, played again, prints it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import cli
from support.pages import commands as shown

ROOT = Path(__file__).parents[2]
README = ROOT / "pipelines" / "protocols" / "ginger" / "README.md"
SCENARIOS = {
    "The lock table as SQL": "total_order", "One total-order message, row by row": "total_order",
    "A broker that recovers, step by step": "broker_returns",
}  # fmt: skip
"""The scenario that the commands of a section are about."""


def commands() -> Iterator[tuple[str, str, str]]:
    """Yields the scenario, the command and its output."""
    for section in README.read_text("utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        for command, output in shown(text):
            yield SCENARIOS[title], command, output


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The stores of the scenarios; that of `total_order` has a version of the state for every second round.

    A version for each round shows the same rows in the rounds of the commands, and takes 4 CPU seconds more.
    """
    folder = tmp_path_factory.mktemp("readme")
    found = {name: folder / name for name in SCENARIOS.values()}
    for name, store in found.items():
        path = ROOT / "conf" / "scenarios" / f"{name}.yaml"
        every = ["--commit-every", "2"] if name == "total_order" else []
        done = cli("run", path, "--engine", "local", "--store", store, *every)
        assert done.exit_code == 0, done.output
    return found


def test_each_section_has_commands() -> None:
    n_commands = {name: sum(1 for scenario, *_ in commands() if scenario == name) for name in SCENARIOS.values()}
    assert n_commands == {"total_order": 8, "broker_returns": 3}


@pytest.mark.parametrize(("scenario", "command", "output"), [*commands()])
def test_commands_print_what_the_readme_shows(
    stores: dict[str, Path], scenario: str, command: str, output: str
) -> None:
    arguments = shlex.split(command.replace(" DIR", f" {stores[scenario]}", 1))
    done = cli(*arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert [line.rstrip() for line in done.stdout.splitlines()] == [line.rstrip() for line in output.splitlines()]
