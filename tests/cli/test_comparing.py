"""``roundtable compare`` ranks protocols by what is wanted, and says what each breaks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pipelines
from pipelines.cli.app import app
from pipelines.comparing.compare import measures

CRASH = """name: crash
protocol: {name: delta}
overlay: {links: [[A, B], [B, C], [C, D]]}
workload:
  subscriptions: [{at: D, topic: t}]
  publications: [{at: A, round: 15, topic: t}, {at: A, round: 40, topic: t}]
faults: [{kind: crash, node: C, round: 14, until: 22}]
time: {rounds: 70, round_ms: 5}
runs: {grid: {protocol: [{name: forwarding}, {name: delta, delta: 1}]}}
engine: local
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "crash.yaml"
    path.write_text(CRASH)
    return path


def compare(*arguments: str | Path) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    return found.exit_code, found.stdout


def test_protocols_are_ranked_with_what_they_break(file: Path, tmp_path: Path) -> None:
    """A crash loses the publication for forwarding; delta brings it later, which costs messages and time."""
    code, told = compare(file, "--quiet", "--json", "--store", tmp_path / "store")
    first, second = [json.loads(line) for line in told.splitlines()]
    assert (code, first["protocol"], first["settings"], first["broken"]) == (0, "delta", {"delta": 1}, {})
    assert (second["protocol"], second["broken"], second["n_beyond"]) == ("forwarding", {"exactly_once": 1}, 1)
    assert first["messages_per_delivery"] > 0


def test_exit_code_1_where_nobody_does_what_is_wanted(file: Path, tmp_path: Path) -> None:
    """What nobody does is no reason to rank one below the other; what only one breaks is."""
    code, told = compare(file, "--quiet", "--want", "exactly_once, max < 5 ms", "--store", tmp_path / "store")
    _, _, delta, forwarding = [line.split() for line in told.splitlines()]
    assert (code, delta[:5], forwarding[:5]) == (
        1,
        ["1", "delta", "delta=1", "0", "of"],
        ["2", "forwarding", "0", "of", "1"],
    )
    assert "exactly_once in 1, max < 5 ms in 1" in told


def test_compare_from_python(file: Path, tmp_path: Path) -> None:
    """Forwarding delivers nothing, so there is no latency to measure, and no want of it holds."""
    found = pipelines.compare(str(file), "max <= 60 ms", "max", store=tmp_path / "store")
    assert [(one.protocol, one.keeps_all, dict(one.broken), one.measure) for one in found.ranked] == [
        ("delta", True, {}, 40.0), ("forwarding", False, {"max <= 60 ms": 1}, None),
    ]  # fmt: skip
    assert found.measure == "latency_ms_max"
    with pipelines.open_store(found.store) as result:
        numeric = {name for name, type_ in result.table("comparison").dtypes if type_ in ("bigint", "int", "double")}
    assert numeric - {"run_id", "seed"} == {*measures()}


def test_wants_are_read_before_anything_runs(file: Path, tmp_path: Path) -> None:
    assert compare(file, "--want", "exactly_onec", "--store", tmp_path / "store") == (64, "")
    assert not (tmp_path / "store").exists()
