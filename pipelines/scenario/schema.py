"""The JSON Schema of scenario files, for editors: ``python -m pipelines.scenario.schema`` writes it."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from pipelines.files import installed_data
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.shape import scenario_schema
from pipelines.spec.latency import LATENCY_SOURCES

SCHEMA_FILE = installed_data() / "conf" / "scenario.schema.json"
_TIMES = (("round", "at_ms"), ("until", "until_ms"))
_OVERLAY_SOURCES = ("links", "file", "topohub", "generate", "nodes")


def schema_text() -> str:
    """Returns the schema file's text: the model's schema, and which keys exclude each other."""
    schema: dict[str, Any] = deepcopy(dict(scenario_schema()))
    definitions = schema["$defs"]
    definitions["OverlaySpec"]["oneOf"] = [{"required": [name]} for name in _OVERLAY_SOURCES]
    definitions["Latency"]["oneOf"] = [{"required": [name]} for name in LATENCY_SOURCES]
    definitions["Subscription"]["anyOf"] = [{"required": ["topic"]}, {"required": ["where"]}]
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


def main() -> None:
    """Writes the schema file."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
