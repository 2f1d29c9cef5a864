"""The allowed keys and values at each path of a scenario, derived from the model's JSON Schema.

Error messages use it to list allowed keys and values. The check of paths in ``--set`` and ``runs.grid`` also uses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, TypeAlias

from pipelines.errors import KeyPath, listed, nearest
from pipelines.files import installed_data
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.model import Scenario
from pipelines.scenario.overlay import LATENCY_SOURCES, OVERLAY_SOURCES
from pipelines.scenario.yaml_text import ValueNode

Schema: TypeAlias = "Mapping[str, Any]"
SCHEMA_FILE = installed_data() / "conf" / "scenario.schema.json"
_TIMES = (("round", "at_ms"), ("until", "until_ms"))
_MAX_NAMES = 30


@cache
def scenario_schema() -> Schema:
    """Returns the JSON Schema of a scenario."""
    return Scenario.model_json_schema()


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


def branches(schema: Schema, node: ValueNode | None) -> Iterator[Schema]:
    """Yields the alternatives of `schema` that fit the scenario value `node`, except null.

    An object schema fits a mapping if the mapping has all constants and at least one required key of the schema. Any
    other value fits all alternatives. If no alternative fits, or if `node` is `None`, all alternatives are yielded.
    """
    if "$ref" in schema:
        target = scenario_schema()["$defs"][schema["$ref"].rpartition("/")[2]]
        yield from branches({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, node)
    elif "anyOf" in schema or "oneOf" in schema:
        inherited = {k: schema[k] for k in ("description",) if k in schema}
        found = [
            b for option in schema.get("anyOf") or schema["oneOf"] for b in branches({**option, **inherited}, node)
        ]
        fitting = [branch for branch in found if _fits(branch, node)]
        yield from fitting or found
    elif schema.get("type") != "null":
        yield schema


def _fits(schema: Schema, node: ValueNode | None) -> bool:
    if node is None or not isinstance(node.value, dict):
        return True
    if schema.get("type") != "object":
        return False
    properties = schema.get("properties", {})
    constants = [(name, option["const"]) for name, option in properties.items() if "const" in option]
    required = schema.get("required", ())
    if required and not any(name in node.value for name in required):
        return False
    return all(name in node.value and node.value[name].value == constant for name, constant in constants)


def at_path(path: KeyPath, root: ValueNode | None = None) -> list[Schema]:
    """Returns the schemas at `path`.

    Where a schema has alternatives, only those that fit the values of the scenario `root` are searched (see
    `branches`). Without `root`, all alternatives are searched.
    """
    found: list[Schema] = list(branches(scenario_schema(), root))
    node = root
    for step in path:
        node = node.child(step) if node is not None else None
        found = [branch for schema in found for option in _inside(schema, step) for branch in branches(option, node)]
    return found


def _inside(schema: Schema, step: str | int) -> Iterator[Schema]:
    if isinstance(step, int):
        fixed = schema.get("prefixItems", [])
        if step < len(fixed):
            yield fixed[step]
        elif isinstance(schema.get("items"), Mapping):
            yield schema["items"]
    elif step in schema.get("properties", {}):
        yield schema["properties"][step]
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield schema["additionalProperties"]


def keys(schemas: Iterable[Schema]) -> list[str]:
    """Returns the distinct keys that a mapping can have according to at least one of `schemas`."""
    return list(dict.fromkeys(name for schema in schemas for name in schema.get("properties", {})))


def unknown_step(path: KeyPath) -> str | None:
    """Returns the error message for the first step of `path` that the model lacks; None if the model has all steps."""
    # Most paths are settings of protocols. For them, this check saves the 0.3 CPU seconds of deriving the schema.
    if any(path == ("protocol", name) for one in PROTOCOLS.values() for name in one.settings.model_fields):
        return None
    for length, step in enumerate(path):
        if at_path(path[: length + 1]):
            continue
        above = at_path(path[:length])
        where = ".".join(map(str, path[:length])) or "a scenario"
        names = keys(above)
        if names:
            return f"{where} has no key {str(step)!r};{nearest(str(step), names)} allowed: {listed(names, _MAX_NAMES)}"
        if any(schema.get("type") == "array" for schema in above):
            return f"{where} is a list, and {step!r} is not an item of it; allowed: a number from 0"
        return f"{where} has nothing inside, so not {str(step)!r}; allowed: {describe(above)}"
    return None


def parse_path(text: str) -> KeyPath:
    """Returns the steps of a dotted path; a step of digits becomes a list index."""
    return tuple(int(step) if step.isdecimal() and len(step) < 10 else step for step in text.split("."))


def describe(schemas: Iterable[Schema]) -> str:
    """Returns an English phrase for the values that the schemas allow, for example ``a whole number from 0 to 10``."""
    options = list(schemas)
    if len(keys(options)) > _MAX_NAMES and (key := _selector(options)) is not None:
        return f"a mapping with the key {key}: {describe(option['properties'][key] for option in options)}"
    names = [name for schema in options for name in _constants(schema)]
    words = [f"one of {', '.join(map(str, names))}" if len(names) > 1 else str(names[0])] if names else []
    words += [_described(schema) for schema in options if not _constants(schema)]
    return ", or ".join(dict.fromkeys(words)) or "any value"


def _selector(schemas: Iterable[Schema]) -> str | None:
    """Returns the key whose constant distinguishes several mappings, or None if they have no such key."""
    constants = [{key for key, one in schema.get("properties", {}).items() if "const" in one} for schema in schemas]
    return min(set.intersection(*constants), default=None) if len(constants) > 1 else None


def _constants(schema: Schema) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _described(schema: Schema) -> str:
    match schema.get("type"):
        case "integer":
            return "a whole number" + _bounds(schema)
        case "number":
            return "a number" + _bounds(schema)
        case "boolean":
            return "true or false"
        case "string":
            return "a string" + _length(schema)
        case "array":
            return _described_list(schema)
        case "object":
            return _described_mapping(schema)
        case _:
            return "any value"


def _bounds(schema: Schema) -> str:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high = schema.get("maximum")
    words = [f"from {low:.12g}" if isinstance(low, float) else f"from {low}"] if low is not None else []
    words += [f"above {above:g}"] if above is not None else []
    if high is not None:
        words.append(f"{'to' if low is not None else 'up to'} {high:.12g}" if isinstance(high, float) else f"to {high}")
    return "".join(f" {word}" for word in words)


def _length(schema: Schema) -> str:
    if "pattern" in schema:
        return f" of {schema.get('description', 'the right form')}"
    low, high = schema.get("minLength"), schema.get("maxLength")
    if low and high:
        return f" of {low} to {high} characters"
    if high:
        return f" of at most {high} characters"
    return " that is not empty" if low else ""


def _described_list(schema: Schema) -> str:
    if "prefixItems" in schema:
        return "[" + ", ".join(describe(branches(item, None)) for item in schema["prefixItems"]) + "]"
    if schema.get("maxItems") == 0:
        return "an empty list"
    some = "a list of one or more: " if schema.get("minItems") else "a list of: "
    return some + describe(branches(schema.get("items", {}), None))


def _described_mapping(schema: Schema) -> str:
    names = list(schema.get("properties", {}))
    if not names:
        return "a mapping of names to: " + describe(branches(schema.get("additionalProperties", {}), None))
    return f"a mapping with the {'keys' if len(names) > 1 else 'key'} {', '.join(names)}"
