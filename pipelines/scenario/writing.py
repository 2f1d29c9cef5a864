"""Scenarios as text: what `pipelines.scenario.reading` reads back as the same values, an entry of a list a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_ENDLESS = 2**31


def scenario_text(parts: Mapping[str, Any], heading: Sequence[str] = ()) -> str:
    """Returns a scenario as YAML.

    Args:
        parts: The scenario, as YAML has it.
        heading: Lines that come first, as comments.
    """
    return "".join(f"{line}\n" for line in (*(f"# {line}" for line in heading), *_lines(parts, "")))


def _lines(parts: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in parts.items():
        head = f"{indent}{_flow(key)}:"
        if isinstance(value, Mapping) and any(_is_block(part) for part in value.values()):
            yield head
            yield from _lines(value, f"{indent}  ")
        elif _is_block(value):
            yield head
            yield from (f"{indent}  - {_flow(item)}" for item in value)
        else:
            yield f"{head} {_flow(value)}"


def _is_block(value: Any) -> bool:  # noqa: ANN401 - any value of YAML
    """Whether a value is a list of lists or mappings, which gets a line an entry."""
    return isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple, Mapping)) for item in value)


def _flow(value: Any) -> str:  # noqa: ANN401 - any value of YAML
    """Returns a value in one line; texts are in quotes unless they are plain words."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        is_word = _BARE.fullmatch(value) and value.lower() not in _RESERVED
        return value if is_word else _dumped(value, default_style='"')
    return _dumped(value)


def _dumped(value: Any, default_style: str | None = None) -> str:  # noqa: ANN401 - a text, a number or a truth value
    text = yaml.safe_dump(value, default_style=default_style, allow_unicode=True, width=_ENDLESS)
    return text.removesuffix("\n").removesuffix("\n...")
