"""The JSON Schema of scenario files and page KEYS.md; ``python -m pipelines.scenario.pages`` writes both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipelines.files import installed_data
from pipelines.protocols import OWN_PACKAGE, PACKAGES, PROTOCOLS
from pipelines.scenario.load import load_scenario, shipped
from pipelines.scenario.model import Scenario
from pipelines.scenario.overlay import LATENCY_SOURCES, OVERLAY_SOURCES
from pipelines.scenario.shape import branches, describe, scenario_schema

SCHEMA_FILE = installed_data() / "conf" / "scenario.schema.json"
_TIMES = (("round", "at_ms"), ("until", "until_ms"))
PAGE = installed_data() / "conf" / "KEYS.md"
_LONGEST = 60
_HEAD = """# Keys of a scenario
Each section lists the keys of one part of a scenario file. A scenario with any other key is rejected. The example of a
key is the shortest value of the key in the installed scenarios; if none of them has the key, it is the default.

A description may begin with another key, or with a value of a key, and a colon. The described key then applies only
together with this key or value. For example, the description `count: minimum and maximum number of rounds` of key
`down` states that `down` applies only together with key `count`. The description of a setting may begin with the name
of the setting in the protocol's paper, for example `T_p:`.

`python -m pipelines.scenario.pages` generates this page from the model that validates scenario files.
`roundtable schema` prints the model as JSON Schema. An editor completes and checks keys if the first line of a scenario
is `# yaml-language-server: $schema=...` with the path of that schema.
"""


def schema_text() -> str:
    """Returns the content of ``scenario.schema.json``.

    This is the JSON Schema of model `Scenario`, with additional rules for keys that require or exclude each other. The
    model checks these rules in Python code, which pydantic does not translate to JSON Schema.
    """
    schema: dict[str, Any] = deepcopy(dict(scenario_schema()))
    definitions = schema["$defs"]
    definitions["OverlaySpec"]["oneOf"] = [{"required": [name]} for name in OVERLAY_SOURCES]
    definitions["Latency"]["oneOf"] = [{"required": [name]} for name in LATENCY_SOURCES]
    definitions["ListedSubscription"]["anyOf"] = [{"required": ["topic"]}, {"required": ["where"]}]
    for timed in (one for one in definitions.values() if "at_ms" in one.get("properties", {})):
        needed = [name for name in timed.get("required", ()) if name not in ("round", "until")]
        both = [[{"required": [name]} for name in pair] for pair in _TIMES if pair[0] in timed.get("required", ())]
        timed["required"] = needed
        if both:
            timed["allOf"] = [{"anyOf": one} for one in both]
    for spec in PROTOCOLS.values():
        definitions[spec.settings.__name__]["required"] = ["name"]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Roundtable scenario"}
    return json.dumps({**schema, **head}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def page_text() -> str:
    """Returns the content of KEYS.md."""
    lines = [_HEAD]
    for model in _models(Scenario, set()):
        lines.append(f"## {'scenario' if model is Scenario else f'`{model.__name__}`'}\n")
        if model.__doc__:
            lines.append(f"{' '.join(model.__doc__.split())}\n")
        lines.append("| key | allowed | default | what | example |\n|---|---|---|---|---|")
        lines += [_row(model, field.alias or name, field) for name, field in model.model_fields.items()]
        lines.append("")
    return "\n".join(lines) + "\n"


def _models(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    foreign = {spec.settings for name, spec in PROTOCOLS.items() if PACKAGES[name] != OWN_PACKAGE}
    if model in seen or model in foreign:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        for inner in _inside(field.annotation):
            yield from _models(inner, seen)


def _inside(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - any type
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _inside(part)


def _row(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    schema: Mapping[str, Any] = scenario_schema()
    definition = schema if model is Scenario else schema["$defs"][model.__name__]
    inner = [f"[`{one.__name__}`](#{one.__name__.lower()})" for one in dict.fromkeys(_inside(field.annotation))]
    allowed = ", ".join(inner) or describe(branches(definition["properties"][key], None))
    default = "needed" if field.is_required() else _shown(definition["properties"][key].get("default"))
    example = _examples().get((model.__name__, key), definition["properties"][key].get("default"))
    cells = f"`{key}`", allowed, default, field.description or "", _shown(example)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: object) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}`"


@cache
def _examples() -> Mapping[tuple[str, str], object]:
    # Maps (model, key) to the shortest value of the key in the installed scenarios.
    found: dict[tuple[str, str], object] = {}
    for path in shipped().values():
        for key, value in _values(load_scenario(path).scenario):
            if key not in found or len(_shown(value)) < len(_shown(found[key])):
                found[key] = value
    return found


def _values(value: object) -> Iterator[tuple[tuple[str, str], object]]:
    if isinstance(value, BaseModel):
        plain = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for name in value.model_fields_set:
            key = type(value).model_fields[name].alias or name
            yield (type(value).__name__, key), plain[key]
            yield from _values(getattr(value, name))
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _values(item)


def main() -> None:
    """Writes the schema file and the page."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    PAGE.write_text(page_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
