"""Rules that are broken on purpose: each change still fits the module that it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from perf.broken_rules import by_undecided, of_error, unchanged

ROOT = Path(__file__).parents[2]
MUTATION = ROOT / "tests" / "mutation"
BROKEN: dict[str, list[dict[str, Any]]] = yaml.safe_load((MUTATION / "broken_rules.yaml").read_text("utf-8"))


@pytest.mark.parametrize("protocol", BROKEN)
def test_each_change_fits_its_module_once(protocol: str) -> None:
    for row in BROKEN[protocol]:
        text = (ROOT / row["module"]).read_text("utf-8")
        assert text.count(row["was"]) == 1, row
        compile(text.replace(row["was"], row["is"]), row["module"], "exec")
        assert (MUTATION / "hunted" / f"{row.get('scenario', protocol)}.yaml").exists()


@pytest.mark.parametrize("protocol", BROKEN)
def test_each_rule_is_in_the_readme(protocol: str) -> None:
    text = (ROOT / "pipelines" / "protocols" / protocol / "README.md").read_text("utf-8")
    assert {row["rule"] for row in BROKEN[protocol] if f"- **{row['rule']}** " not in text} == set()


ROWS: list[dict[str, Any]] = [
    {"rule": "K1", "what": "slow"},
    {"rule": "K2", "what": "fast"},
    {"rule": "K3", "what": "found"},
    {"rule": "K4", "what": "elsewhere", "scenario": "other"},
]


def outcome(n_undecided: int, *findings: list[Any]) -> dict[str, Any]:
    return {"n_played": 10, "n_undecided": n_undecided, "findings": list(findings), "seconds": 1}


def test_undecided_schedules_detect_a_change_that_leaves_half_of_them_open() -> None:
    """Not if the unchanged program leaves some open in the same scenario, and not beside a finding."""
    whole, other = unchanged("ring", ROWS)
    assert [(one["rule"], one["module"], one["scenario"]) for one in (whole, other)] == [
        ("-", None, "ring"),
        ("-", None, "other"),
    ]
    done = {
        ("-", whole["what"]): outcome(0),
        ("-", other["what"]): outcome(1),
        ("K1", "slow"): outcome(5),
        ("K2", "fast"): outcome(4),
        ("K3", "found"): outcome(9, ["closure", "it changed", 3]),
        ("K4", "elsewhere"): outcome(9),
    }
    assert by_undecided("ring", ROWS, done) == {("K1", "slow")}
    assert by_undecided("ring", ROWS, done | {("-", other["what"]): outcome(0)}) == {
        ("K1", "slow"),
        ("K4", "elsewhere"),
    }
    del done["-", whole["what"]]
    assert by_undecided("ring", ROWS, done) == set()


@pytest.mark.parametrize(
    ("said", "is_found"),
    [
        ("pipelines.errors.QueryError: the scenario breaks closure as it is; shrink that run first", True),
        ("pipelines.errors.NodeProgramError: protocol skipring, run 7, node 0, round 1: KeyError: 1", True),
        ("pipelines.errors.ProtocolError: protocol skipring: SkipRing.order names 'timers' twice or wrongly", False),
        ("ImportError: cannot import name 'Keyed'", False),
    ],
)
def test_a_program_that_cannot_start_detects_no_change(said: str, is_found: bool) -> None:
    found = of_error(said)
    assert bool(found["findings"]) is is_found
    assert found.get("refused") == (None if is_found else said)
