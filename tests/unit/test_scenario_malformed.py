"""Every malformed scenario is refused with the place of the error and its cure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.malformed.case import LINKS, Case
from support.malformed.cases import CASES

from pipelines.errors import InputError, Problem, ScenarioError
from pipelines.scenario.load import expand, load_scenario, to_scenario_error

JARGON = re.compile(r"pydantic|Input should|type=|https?:|constrained|union|\bNone\b|Traceback|<\w+>|errors\.")
CHECKED = [case for case in CASES if not case.needs_build]


def problems_of(path: Path, case: Case) -> tuple[str, ...]:
    path.write_bytes(case.data)
    with pytest.raises(ScenarioError) as caught:
        expand(load_scenario(path, case.overrides))
    return caught.value.problems


def test_the_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case.name)
def test_an_error_names_its_place_and_its_cure(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    place = case.place if case.place.startswith("--set") else f"{path}:{case.place}" if case.place else str(path)
    (problem,) = problems_of(path, case)
    assert problem.startswith(f"{place}: ")
    assert [word for word in case.words if word not in problem] == []
    assert JARGON.search(problem) is None
    assert len(problem) < 700


@pytest.mark.parametrize("case", [case for case in CASES if case.needs_build], ids=lambda case: case.name)
def test_what_only_a_build_can_find_is_well_formed(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(case.data)
    assert case.place
    assert len(expand(load_scenario(path))) == 1


def test_all_errors_of_a_file_come_at_once_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        LINKS + "workload:\n  subscriptions:\n    - {at: X, topic: a}\n    - {at: A, tpic: a}\n"
        "    - {at: A, where: a}\ntime: {rounds: 1, round_ms: 0}\ntime: {}\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path, ["engine=fast", "overlay.generat.nodes=4"])
    assert [problem.split(": ")[0].removeprefix(f"{path}:") for problem in caught.value.problems] == [
        "6:12", "7:15", "8:23", "9:29", "10:1", "--set engine=fast", "--set overlay.generat.nodes=4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"), [("none.yaml", "does not exist"), (".", "a directory"), ("a\0b", "cannot be read")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        load_scenario(tmp_path / name)
    assert caught.value.problems[0].startswith(str(tmp_path))


def test_problems_of_builders_get_the_places_of_their_values(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(LINKS + "workload:\n  joins:\n    - {node: A, to: B, round: 3}\n")
    loaded = load_scenario(path, ["time.rounds=7"])
    found = InputError(
        Problem(("workload", "joins", 0, "round"), "late"),
        Problem(("overlay", "links", 1), "slow"),
        Problem(("time", "rounds"), "short"),
        Problem(("workload", "publications", 0), "none"),
    )
    assert to_scenario_error(loaded, found).problems == (
        f"{path}:3:27: slow",
        f"{path}:5:3: none",
        f"{path}:6:31: late",
        "--set time.rounds=7: short",
    )
