"""Scenario files that are right: what they say, and what can be set from outside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from support.example import EXAMPLE

from pipelines.errors import ScenarioError
from pipelines.experiment.prepared import prepare
from pipelines.scenario.load import LoadedScenario, load_scenario
from pipelines.scenario.yaml_text import nearest_node


def load(folder: Path, text: str, *overrides: str) -> LoadedScenario:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return load_scenario(path, overrides)


def test_a_file_reads_as_its_model(tmp_path: Path) -> None:
    scenario = load(tmp_path, EXAMPLE).scenario
    assert scenario.model_dump(exclude_unset=True) == {
        "name": "figure5",
        "protocol": {"name": "delta", "delta": 1},
        "overlay": {"links": [("P1", "N1"), ("N1", "N2", 3), ("N2", "S1"), ("N2", "S4")]},
        "workload": {
            "subscriptions": [
                {"at": "S1", "round": 1, "topic": "news"},
                {"at": "S4", "round": 1, "where": "price > 10 and symbol prefix A", "until": 60},
            ],
            "publications": [{"at": "P1", "round": 10, "topic": "news", "content": {"price": 12.5, "symbol": "AAPL"}}],
        },
        "time": {"rounds": 200, "round_ms": 10.0},
        "runs": {"seeds": [0, 1, 2], "grid": {"protocol.delta": [0, 1, 2]}},
        "engine": "spark",
    }


@pytest.mark.parametrize(
    ("override", "path", "expected"),
    [
        ("protocol.delta=2", ("protocol", "delta"), 2),
        ("time.rounds = 300", ("time", "rounds"), 300),
        ("overlay.links.1.2=7", ("overlay", "links", 1), ("N1", "N2", 7)),
        ("workload.subscriptions.0.until=9", ("workload", "subscriptions", 0, "until"), 9),
        ("workload.publications.0.content.price=1e-3", ("workload", "publications", 0, "content", "price"), 0.001),
        ("workload.publications.0.content.note='a=b'", ("workload", "publications", 0, "content", "note"), "a=b"),
        ("overlay.latency={uniform: [1, 4]}", ("overlay", "latency", "uniform"), (1, 4)),
        ("overlay.latency.rounds=4", ("overlay", "latency", "rounds"), 4),
        ("runs.seeds=[5]", ("runs", "seeds"), [5]),
        ("runs.grid.protocol.delta=[0, 1]", ("runs", "grid", "protocol.delta"), [0, 1]),
        ("protocol={name: forwarding}", ("protocol", "name"), "forwarding"),
        ("name=2nd", ("name",), "2nd"),
    ],
)
def test_any_value_can_be_set_from_outside(
    tmp_path: Path, override: str, path: tuple[str | int, ...], expected: object
) -> None:
    text = EXAMPLE.replace(", grid: {protocol.delta: [0, 1, 2]}", "")
    loaded = load(tmp_path, text, override)
    value: object = loaded.scenario
    for step in path:
        value = getattr(value, step) if hasattr(value, str(step)) else value[step]  # type: ignore[index,arg-type]
    assert value == expected
    assert str(nearest_node(loaded.root, path).place) == f"--set {override}" or isinstance(expected, tuple)


def test_the_last_of_two_settings_counts(tmp_path: Path) -> None:
    loaded = load(
        tmp_path, EXAMPLE, "time={rounds: 50, round_ms: 3}", "time.rounds=70", "workload.subscriptions.1.until=70"
    )
    assert (loaded.scenario.time.rounds, loaded.scenario.time.round_ms) == (70, 3.0)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), "1:1"),
        (("overlay", "links", 1, 2), "6:30"),
        (("overlay", "links", 9), "6:10"),
        (("overlay", "file", "path"), "6:3"),
        (("workload", "publications", 0, "content", "price"), "12:57"),
        (("runs", "grid", "protocol.delta", 2), "14:56"),
    ],
)
def test_values_are_found_in_the_file(tmp_path: Path, path: tuple[str | int, ...], place: str) -> None:
    assert str(nearest_node(load(tmp_path, EXAMPLE).root, path).place) == f"{tmp_path / 's.yaml'}:{place}"


def test_yaml_is_read_as_its_users_mean_it(tmp_path: Path) -> None:
    text = (
        "\ufeffname: t\nprotocol: &p {name: forwarding}\noverlay: {links: [&l ['1', 'NO'], [1:30, 'NO', 0x10]]}\n"
        "workload:\n  publications: [{at: '1', topic: '5', content: {a: 1e3, b: 1_000, c: yes, d: é, e: .5}}]\n"
    )
    scenario = load(tmp_path, text).scenario
    assert scenario.overlay.links == [("1", "NO"), ("1:30", "NO", 16)]
    publications = scenario.workload.publications
    assert isinstance(publications, list)
    content = publications[0].content
    assert content == {"a": 1000.0, "b": 1000, "c": True, "d": "é", "e": 0.5}
    assert [type(value) for value in content.values()] == [float, int, bool, str, float]


def test_aliases_repeat_values(tmp_path: Path) -> None:
    text = (
        "name: t\nprotocol: {name: delta}\noverlay: {links: [[A, B]]}\nworkload:\n"
        "  subscriptions: [{at: A, topic: &t news}]\n  publications: [{at: B, topic: *t}]\n"
    )
    workload = load(tmp_path, text).scenario.workload
    assert isinstance(workload.publications, list)
    assert workload.publications[0].topic == "news"


def test_a_dict_keeps_its_strings_and_may_have_paths_ranges_and_numbers_of_numpy() -> None:
    given = yaml.safe_load(EXAMPLE)
    given["workload"]["publications"][0] |= {
        "topic": "1e5",
        "round": np.int64(7),
        "content": {"price": np.float64(0.1)},
    }
    given |= {"runs": {"seeds": range(3)}, "overlay": {"file": {"path": Path("a/b 1.csv")}}, "faults": []}
    scenario = prepare(given).scenario
    (publication,) = scenario.model_dump(exclude_unset=True)["workload"]["publications"]
    assert publication == {"at": "P1", "round": 7, "topic": "1e5", "content": {"price": 0.1}}
    assert scenario.runs.seeds == [0, 1, 2]
    assert scenario.overlay.file is not None
    assert scenario.overlay.file.path == "a/b 1.csv"


@pytest.mark.parametrize(("value", "words"), [(object(), "has the type object, which YAML lacks"), ([], "itself")])
def test_a_dict_with_values_that_yaml_lacks_is_refused(value: object, words: str) -> None:
    if isinstance(value, list):
        value.append(value)
    with pytest.raises(ScenarioError, match=words):
        prepare({"name": "t", "protocol": value})
