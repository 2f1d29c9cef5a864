"""Every malformed scenario ends with 64, its place and its cure, without a traceback, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.malformed.case import Case
from support.malformed.cases import CASES
from typer.testing import CliRunner

from pipelines.cli.app import app

FROM_FILE = [case for case in CASES if not case.overrides]
SAMPLE = [case for case in CASES if case.needs_build or case.overrides][::2] + FROM_FILE[::12]


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the scenario goes; the working directory is an empty one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "s.yaml"


def refused(path: Path, case: Case, *command: str) -> str:
    path.write_bytes(case.data)
    for name, data in case.files:
        (path.parent / name).write_bytes(data)
    result = CliRunner().invoke(app, list(command))
    assert result.exit_code == 64
    assert "Traceback" not in result.output
    assert list(Path.cwd().iterdir()) == []
    return result.stderr


@pytest.mark.parametrize("case", FROM_FILE, ids=lambda case: case.name)
def test_validate_names_place_and_cure(case: Case, scenario: Path) -> None:
    place = f"{scenario}:{case.place}: " if case.place else f"{scenario}: "
    lines = refused(scenario, case, "validate", str(scenario)).splitlines()
    [line] = [line for line in lines if line.startswith(place)]
    assert [word for word in case.words if word not in line] == []


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_run_writes_nothing(case: Case, scenario: Path) -> None:
    changes = [part for text in case.overrides for part in ("--set", text)]
    for option in ((), ("--store", "new/store"), ("--json",)):
        stderr = refused(scenario, case, "run", str(scenario), *changes, *option)
        assert [word for word in case.words if word not in stderr] == []


def test_what_a_protocol_refuses_of_some_settings_is_found_by_every_command(scenario: Path) -> None:
    scenario.write_text(
        "name: t\nprotocol: {name: ginger}\noverlay: {links: [[A, B, 3], [B, C, 3]]}\n"
        "faults: [{kind: crash, node: C, round: 20}]\ntime: {rounds: 50}\n"
        "runs: {grid: {protocol.timer_rounds: [200, 1]}}\n",
        "utf-8",
    )
    for command in ("validate", "plan", "run"):
        result = CliRunner().invoke(app, [command, str(scenario)])
        assert (command, result.exit_code) == (command, 64)
        assert "with protocol.timer_rounds = 1: 1 rounds are less than the time for an answer" in result.stderr
