"""The page of users' files: each example on it is read, and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.experiment.build import build_run
from pipelines.experiment.mapping import Mapped
from pipelines.experiment.plan import check
from pipelines.experiment.prepared import prepare

PAGE = (Path(__file__).parents[2] / "conf" / "FILES.md").read_text("utf-8")
FILES = dict(re.findall(r"File `([^`]+)`.*?```text\n(.*?)```", PAGE, re.DOTALL))
EXAMPLES: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
CITIES = {"links": [["Oslo", "Bergen"], ["Bergen", "Narvik"]]}


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mapped]:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    base = {"name": "t", "protocol": {"name": "forwarding"}, "overlay": CITIES, "time": {"rounds": 1000, "round_ms": 1}}
    found = []
    for example in EXAMPLES:
        prepared = prepare({**base, **example})
        check(prepared)
        found.append(build_run(prepared.runs[0], None))
    return found


def test_each_example_is_read(examples: list[Mapped]) -> None:
    zoo, edges, untitled, network, pairs, matrix, by_round, filters, calls, outages, profile, trace = examples
    assert (zoo[0].names, zoo[0].latency_rounds.tolist()) == (("Oslo", "Bergen"), [2])
    for overlay, *_ in (edges, untitled):
        assert (overlay.names, overlay.latency_rounds.tolist()) == (("Oslo", "Bergen", "Narvik"), [8, 18])
    assert (network[0].names, network[0].latency_rounds.tolist()) == (("Oslo", "Bergen"), [8])
    assert pairs[0].directed_rounds.tolist() == [8, 10, 13, 10]
    assert matrix[0].latency_rounds.tolist() == [8, 18]
    subscriptions = by_round[1].subscription.to_pylist()
    assert [(row["round"], row["end_round"]) for row in subscriptions] == [(1, None), (1, 60)]
    assert subscriptions[0]["predicate"] == "topic = 'temp' and value > 21.6"
    assert filters[1].subscription["predicate"].to_pylist() == ["topic filter 'sensors/+/temp'"]
    assert calls[1].publication["round"].to_pylist() == [500, 525]
    crashes = {
        name: [(row["round"], row["end_round"]) for row in built[2].crash.to_pylist()]
        for name, built in (("outages", outages), ("profile", profile), ("trace", trace))
    }
    assert crashes == {"outages": [(40, 60), (200, None)], "profile": [(40, 60), (140, None)], "trace": [(10, 12)]}


def test_each_file_of_the_page_is_used_by_an_example() -> None:
    used = PAGE.split("```yaml")
    assert [name for name in FILES if not any(f"path: {name}" in one or f": {name}" in one for one in used)] == []
