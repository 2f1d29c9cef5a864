"""Short names for what a grid gives to runs: of a value with parts, those in which it differs from the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NAMING = ("name", "kind")


def labelled(parameters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns parameters as tables and messages show them.

    Args:
        parameters: Those of several combinations of a grid, path to value.

    Returns:
        The same; where the values of a path are objects, texts with the parts in which one differs from the others:
        ``random_tree nodes 100``. A path that a combination lacks, it lacks here.
    """
    found: list[dict[str, Any]] = [dict(values) for values in parameters]
    for path in dict.fromkeys(path for values in parameters for path in values):
        having = [values for values in found if path in values]
        for values, label in zip(having, _labels([values[path] for values in having]), strict=True):
            values[path] = label
    return found


def _labels(values: Sequence[Any]) -> Sequence[Any]:
    objects = {json.dumps(value, sort_keys=True): dict(_leaves(value)) for value in values if isinstance(value, dict)}
    if not objects:
        return values
    first = next(iter(objects.values()))
    shared = {path for path, leaf in first.items() if all(of.get(path, ...) == leaf for of in objects.values())}
    told = {
        text: _label({path: leaf for path, leaf in of.items() if path not in shared}) for text, of in objects.items()
    }
    if "" in told.values() or len({*told.values()}) < len(told):
        told = {text: text for text in told}
    return [told[json.dumps(value, sort_keys=True)] if isinstance(value, dict) else value for value in values]


def _leaves(value: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _leaves(part, (*above, name))
        else:
            yield (*above, name), part


def _label(leaves: Mapping[tuple[str, ...], Any]) -> str:
    """Returns the leaves as a text: names and kinds first, then other texts, then all else with what it is called."""

    def place(path: tuple[str, ...]) -> tuple[bool, bool]:
        return path[-1] not in _NAMING, not isinstance(leaves[path], str)

    return " ".join(
        leaves[path] if isinstance(leaves[path], str) else f"{path[-1]} {json.dumps(leaves[path])}"
        for path in sorted(leaves, key=place)
    )
