"""The JSON Schema that editors use says what the model says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml
from support.example import EXAMPLE
from support.reference import KEYS, keys_page

from pipelines.cli.template import SCHEMA_LINE
from pipelines.scenario.model import Scenario
from pipelines.scenario.shape import SCHEMA_FILE, parse_path, schema_text, unknown_step

VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text()))


def test_the_file_is_up_to_date() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run: python -m support.reference"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))
    assert json.loads(schema_text())["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_example_is_right_by_schema_and_model() -> None:
    data = yaml.safe_load(EXAMPLE)
    VALIDATOR.validate(data)
    assert Scenario.model_validate(data).name == "figure5"


@pytest.mark.parametrize(
    "overlay",
    [
        {"file": {"path": "datasets/zoo/Abilene.graphml", "tree": "shortest_path", "root": "Chicago"}},
        {"topohub": {"name": "topozoo/Geant2012", "tree": "minimum"}},
        {"generate": {"kind": "random_tree", "nodes": 100, "max_degree": 4}, "latency": {"uniform": [1, 3]}},
    ],
)
def test_the_other_overlays_are_right_by_schema_and_model(overlay: dict[str, Any]) -> None:
    data = {"name": "t", "protocol": {"name": "forwarding"}, "overlay": overlay}
    VALIDATOR.validate(data)
    assert Scenario.model_validate(data).overlay.model_dump(exclude_unset=True)[next(iter(overlay))]


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": {"name": "detla"}},
        {"protocol": {"delta": 1}},
        {"protocol": {"name": "forwarding", "delta": 1}},
        {"overlay": {}},
        {"overlay": {"links": [["A", "B"]], "generate": {"kind": "line", "nodes": 3}}},
        {"overlay": {"links": [["A", "B", 0]]}},
        {"workload": {"subscriptions": [{"at": "S1"}]}},
        {"workload": {"subscriptions": {"generate": {"kind": "topic"}}}},
        {"time": {"rounds": "5"}},
        {"tiem": {}},
    ],
)
def test_schema_and_model_refuse_the_same(change: dict[str, Any]) -> None:
    data = {**yaml.safe_load(EXAMPLE), **change}
    assert not VALIDATOR.is_valid(data)
    with pytest.raises(ValueError, match="Scenario"):
        Scenario.model_validate(data)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("protocol.delta", None),
        ("overlay.links.2.2", None),
        ("workload.publications.0.content.price", None),
        ("workload.subscriptions.generate.zipf", None),
        ("protocl", "did you mean 'protocol'?"),
        ("overlay.generate.nods", "did you mean 'nodes'?"),
        ("overlay.links.0.3", None),
        ("overlay.links.0.4", "allowed"),
        ("name.x", "nothing inside"),
    ],
)
def test_paths_are_known_or_their_first_wrong_step_is_named(path: str, words: str | None) -> None:
    wrong = unknown_step(parse_path(path))
    assert wrong is None if words is None else words in str(wrong)


def test_every_value_has_a_description_for_editors() -> None:
    definitions = json.loads(schema_text())["$defs"]
    bare = [
        f"{name}.{key}"
        for name, definition in definitions.items()
        for key, option in definition.get("properties", {}).items()
        if "description" not in option and "$ref" not in option and "const" not in option
    ]
    assert bare == []


def test_the_page_of_keys_is_that_of_the_model() -> None:
    assert KEYS.read_text("utf-8") == keys_page(), "python -m support.reference writes it"
    rows = [line for line in keys_page().splitlines() if line.startswith("| `")]
    with_example = [row for row in rows if row.rstrip(" |").endswith("`")]
    assert len(rows) > 200
    assert len(with_example) > 0.7 * len(rows)


def test_every_shipped_scenario_names_the_schema_for_editors() -> None:
    for path in (SCHEMA_FILE.parent / "scenarios").glob("*.yaml"):
        first = path.read_text("utf-8").partition("\n")[0]
        assert first.startswith(SCHEMA_LINE), path
        assert (path.parent / first.removeprefix(SCHEMA_LINE)).resolve() == SCHEMA_FILE.resolve()
        VALIDATOR.validate(yaml.safe_load(path.read_text("utf-8")))
