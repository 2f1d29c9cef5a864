"""What the command line makes of runs that tested nothing, and of losses beyond the bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import cli
from typer.testing import Result

LINKS = "overlay: {links: [[P, B], [B, S]]}\n"
UNTESTED = (
    "name: untested\nprotocol: {name: delta}\n" + LINKS + "workload:\n"
    "  subscriptions: [{at: S, round: 10, topic: a}]\n"
    "time: {rounds: 100}\nengine: local\n"
    "runs:\n  grid:\n    workload.publications:\n"
    "      - [{at: P, round: 30, topic: a}]\n"  # S gets it
    "      - [{at: P, round: 30, topic: b}, {at: P, round: 31, topic: c}]\n"
    "      - [{at: P, round: 5, topic: a}]\n"
    "      - [{at: P, round: 11, topic: a}]\n"  # the subscription is on its way to B, and confirmed later
)
# B is down for good when P publishes for the second time; nothing excuses the loss but that it is beyond δ = 0.
BEYOND = (
    "name: beyond\nprotocol: {name: delta, delta: 0}\noverlay: {file: {path: net.csv, latency: ms}}\nworkload:\n"
    "  subscriptions: [{at: S, round: 0, topic: a}]\n"
    "  publications: [{at: P, round: 20, topic: a}, {at: P, round: 40, topic: a}]\n"
    "faults: [{kind: crash, node: B, round: 30}]\n"
    "time: {rounds: 200}\nengine: local\n"
)


@pytest.fixture(scope="module")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A store with a loss beyond the bound, and what its run printed."""
    folder = tmp_path_factory.mktemp("beyond")
    (folder / "net.csv").write_text("src,dst,ms\nP,B,1\nB,S,1\nX,Y,1\n")
    (folder / "s.yaml").write_text(BEYOND)
    return folder / "store", cli("run", folder / "s.yaml", "--store", folder / "store")


def test_runs_that_tested_nothing_are_unknown_and_told(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(UNTESTED)
    result = cli("run", tmp_path / "s.yaml", "--store", tmp_path / "store")
    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert [line for line in lines if "tested nothing" in line] == [
        "run 1 tested nothing: none of 2 publications satisfies any of 1 subscription",
        "run 2 tested nothing: every publication that satisfies a subscription was issued before the subscription "
        "was confirmed, or after its end",
        "run 3 tested nothing: every publication that satisfies a subscription was issued before the subscription "
        "was confirmed, or after its end",
    ]
    assert lines[-1].startswith("unknown: 3 of 4 runs not decided: nothing was tested; history in ")
    rows = json.loads(cli("sql", tmp_path / "store", "select run_id, verdict from run", "--format", "json").stdout)
    assert {row["run_id"]: row["verdict"] for row in rows} == {0: "valid", 1: "unknown", 2: "unknown", 3: "unknown"}


def test_without_confirmations_only_deliveries_show_that_a_run_tested_something(tmp_path: Path) -> None:
    calls = "  subscriptions: [{at: S, round: 0, topic: a}]\n  publications: [{at: P, round: 20, topic: a}]\n"
    faults = "faults: [{kind: pause, node: S, round: 5}]\ntime: {rounds: 60}\nengine: local\n"
    text = f"name: silent\nprotocol: {{name: flooding}}\n{LINKS}workload:\n{calls}{faults}"
    (tmp_path / "s.yaml").write_text(text)
    lines = cli("run", tmp_path / "s.yaml", "--store", tmp_path / "store").stdout.splitlines()
    told = (
        "run 0 tested nothing: nothing was delivered, and only a delivery shows from when on a subscription is active"
    )
    assert told in lines


def test_a_run_beyond_the_bound_that_tested_nothing_is_unknown(tmp_path: Path) -> None:
    mistyped = BEYOND.replace("P, round: 20, topic: a", "P, round: 20, topic: b").replace(
        "40, topic: a", "40, topic: b"
    )
    (tmp_path / "net.csv").write_text("src,dst,ms\nP,B,1\nB,S,1\n")
    (tmp_path / "s.yaml").write_text(mistyped)
    result = cli("run", tmp_path / "s.yaml", "--store", tmp_path / "store")
    lines = result.stdout.splitlines()
    assert "run 0 tested nothing: none of 2 publications satisfies any of 1 subscription" in lines
    assert lines[-1].startswith("unknown: 1 of 1 run not decided: nothing was tested")
    assert result.exit_code == 2


def test_a_run_tells_what_became_of_its_overlay(beyond: tuple[Path, Result]) -> None:
    note = "overlay: 2 of 5 nodes are left out, which the largest component does not reach: X, Y"
    assert note in beyond[1].stderr.splitlines()


def test_the_last_line_counts_what_was_delivered_beyond_the_bound(beyond: tuple[Path, Result]) -> None:
    _, result = beyond
    assert result.exit_code == 0, result.stderr
    last = result.stdout.splitlines()[-1]
    assert last.startswith("valid: no run within the bound; beyond it 1 run, 1 of 2 wanted deliveries lost, excused (")
    assert "exactly_once once" in last


def test_the_last_line_separates_runs_within_and_beyond_the_bound(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("src,dst,ms\nP,B,1\nB,S,1\n")
    (tmp_path / "s.yaml").write_text(BEYOND + "runs: {grid: {protocol.delta: [0, 1]}}\n")
    lines = cli("run", tmp_path / "s.yaml", "--store", tmp_path / "store").stdout.splitlines()
    assert "within the bound 1 run, all guarantees hold; beyond it 1 run, 1 of 2 wanted deliveries lost" in lines[-1]


def test_the_last_line_names_the_excuses_of_missing_deliveries(tmp_path: Path) -> None:
    """S is down when P publishes for the second time, which δ = 1 bears: nobody owes S that publication."""
    (tmp_path / "net.csv").write_text("src,dst,ms\nP,B,1\nB,S,1\n")
    text = BEYOND.replace("delta: 0", "delta: 1").replace("node: B, round: 30", "node: S, round: 30, until: 60")
    (tmp_path / "s.yaml").write_text(text)
    last = cli("run", tmp_path / "s.yaml", "--store", tmp_path / "store").stdout.splitlines()[-1]
    assert last.startswith("valid: 1 run, all guarantees hold; 1 wanted delivery missing (subscriber_down 1); history")


def test_beyond_the_bound_is_explained_where_it_is_printed(beyond: tuple[Path, Result]) -> None:
    lines = beyond[1].stdout.splitlines()
    assert lines[2].endswith("valid, beyond the bound")
    assert lines[3].startswith("beyond the bound: the faults exceed the protocol's fault model")
    assert "run 0 went beyond the bound in round 30: 1 node not OPERATIONAL (B), δ is 0" in lines


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("beyond", "failed: beyond, 1 run beyond the bound"),
        ("missing", "failed: missing, 1 of 2 wanted deliveries did not happen"),
    ],
)
def test_a_check_may_fail_on_what_is_no_broken_guarantee(beyond: tuple[Path, Result], cause: str, words: str) -> None:
    result = cli("audit", beyond[0], "--fail-on", cause)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("valid: ")
    assert words in result.stdout.splitlines()[-1]


def test_a_finished_store_is_audited_again_where_it_may_fail(beyond: tuple[Path, Result]) -> None:
    result = cli("resume", beyond[0], "--fail-on", "excused", "--fail-on", "beyond", "--json")
    assert result.exit_code == 1
    last = json.loads(result.stdout.splitlines()[-1])
    assert (last["wanted"], last["wanted_delivered"], last["runs_beyond_bound"]) == (2, 1, 1)
    assert last["failed"][-1] == "beyond, 1 run beyond the bound"


def test_an_unknown_cause_is_refused_with_the_nearest() -> None:
    wrong = cli("audit", "d", "--fail-on", "mising")
    assert wrong.exit_code == 64
    assert "did you mean 'missing'?" in wrong.stderr


def test_a_publication_without_topic_and_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("src,dst,ms\nP,B,1\nB,S,1\n")
    (tmp_path / "s.yaml").write_text(BEYOND.replace("{at: P, round: 20, topic: a}", "{at: P, round: 20}"))
    result = cli("validate", tmp_path / "s.yaml")
    assert result.exit_code == 64
    assert "s.yaml:6:18: the publication has neither topic nor content" in result.stderr
    (tmp_path / "p.csv").write_text("node,round,topic\nP,20,a\nP,21,\n")
    file = "publications: {file: {path: p.csv, node: node, round: round, topic: topic}}"
    text = BEYOND.replace("publications: [{at: P, round: 20, topic: a}, {at: P, round: 40, topic: a}]", file)
    (tmp_path / "s.yaml").write_text(text)
    result = cli("validate", tmp_path / "s.yaml")
    assert result.exit_code == 64
    assert "row 2 has neither topic nor content" in result.stderr
