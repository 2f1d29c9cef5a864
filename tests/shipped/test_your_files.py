"""The page of users' files: each example on it is read, and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.experiment.build import build_run
from pipelines.experiment.plan import check
from pipelines.experiment.prepared import prepare_given

PAGE = (Path(__file__).parents[2] / "conf" / "FILES.md").read_text("utf-8")
FILES = dict(re.findall(r"File `([^`]+)`.*?```text\n(.*?)```", PAGE, re.DOTALL))
EXAMPLES: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
CITIES = {"links": [["Oslo", "Bergen"], ["Bergen", "Narvik"]]}


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Overlay, Workload, Faults]]:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    base = {"name": "t", "protocol": {"name": "forwarding"}, "overlay": CITIES, "time": {"rounds": 1000, "round_ms": 1}}
    found = []
    for example in EXAMPLES:
        prepared = prepare_given({**base, **example})
        check(prepared)
        found.append(build_run(prepared.runs[0], None))
    return found


def test_each_example_is_read(examples: list[tuple[Overlay, Workload, Faults]]) -> None:
    edges, network, pairs, calls, outages = examples
    assert edges[0].names == ("Oslo", "Bergen", "Narvik")
    assert edges[0].latency_rounds.tolist() == [8, 18]
    assert network[0].names == ("Oslo", "Bergen")
    assert network[0].latency_rounds.tolist() == [8]
    assert pairs[0].directed_rounds.tolist() == [8, 10, 13, 10]
    assert calls[1].publication["round"].to_pylist() == [500, 525]
    assert outages[2].crash.select(["round", "end_round"]).to_pylist() == [
        {"round": 40, "end_round": 60},
        {"round": 200, "end_round": None},
    ]
