"""What the model finds wrong, as complaints in plain words at the place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from pipelines.errors import InputError, PredicateError, Problem, nearest
from pipelines.scenario.shape import Schema, at_path, describe, keys
from pipelines.scenario.tree import Complaint, Node, Path, nearest_node, shown, walk

_NUMBERS = frozenset({"integer", "number"})


def complaints_of(error: ValidationError, root: Node) -> Iterator[Complaint]:
    """Yields the complaints of a validation of ``plain(root)``, at the places that the tree knows."""
    for detail in error.errors(include_url=False, include_input=False):
        location = detail["loc"]
        path = tuple(step for step, _ in walk(root, location))
        last = str(location[-1]) if location else ""
        context: Mapping[str, Any] = detail.get("ctx", {})
        match detail["type"]:
            case "missing" if isinstance(location[-1], str):
                yield _missing(root, path, last)
            case "extra_forbidden":
                yield _unknown(root, path[:-1], last)
            case "choice":
                yield _no_choice(root, path, context["key"])
            case "value_error":
                yield from _from_error(root, path, context["error"])
            case _:
                yield _mismatch(root, path)


def placed(problems: Iterable[Problem], root: Node) -> Iterator[Complaint]:
    """Yields problems with a path as complaints at the nearest place of that path."""
    for problem in problems:
        yield Complaint(nearest_node(root, problem.path).place, problem.message)


def _name(path: Path) -> str:
    return ".".join(map(str, path)) or "the scenario"


def _description(schemas: list[Schema]) -> str:
    texts = {schema["description"] for schema in schemas if "description" in schema and "pattern" not in schema}
    return f" ({texts.pop()})" if len(texts) == 1 and schemas[0].get("type") != "object" else ""


def _missing(root: Node, path: Path, key: str) -> Complaint:
    found = at_path((*path, key), root)
    message = f"{_name(path)} lacks the key {key!r}; write it with {describe(found)}{_description(found)}"
    return Complaint(nearest_node(root, path).place, message)


def _unknown(root: Node, path: Path, key: str) -> Complaint:
    names = keys(at_path(path, root))
    parent = nearest_node(root, path)
    message = f"{_name(path)} has no key {key!r};{nearest(key, names)} allowed: {', '.join(names)}"
    return Complaint(parent.key_places.get(key, parent.place), message)


def _no_choice(root: Node, path: Path, key: str) -> Complaint:
    node = nearest_node(root, path)
    if not isinstance(node.value, dict):
        names = describe(at_path((*path, key)))
        return Complaint(
            node.place, f"{_name(path)} is {shown(node)}; allowed: a mapping with the key {key!r}, {names}"
        )
    return _missing(root, path, key) if key not in node.value else _mismatch(root, (*path, key))


def _from_error(root: Node, path: Path, error: Exception) -> Iterator[Complaint]:
    node = nearest_node(root, path)
    if isinstance(error, InputError):
        for problem in error.problems:
            yield Complaint(nearest_node(root, (*path, *problem.path)).place, problem.message)
    elif (
        isinstance(error, PredicateError)
        and error.column is not None
        and node.text_column is not None
        and node.place.line
    ):
        yield Complaint(node.place._replace(column=node.text_column + error.column - 1), f"{path[-1]}: {error}")
    else:
        yield Complaint(node.place, f"{_name(path)}: {error}")


def _mismatch(root: Node, path: Path) -> Complaint:
    node = nearest_node(root, path)
    found = at_path(path, root)
    hint = _hint(node, found)
    return Complaint(
        node.place, f"{_name(path)} is {shown(node)};{hint} allowed: {describe(found)}{_description(found)}"
    )


def _hint(node: Node, schemas: list[Schema]) -> str:
    """Returns the likely cure: the nearest name, quotes for what YAML takes for something else, or no quotes."""
    kinds = {schema.get("type") for schema in schemas}
    names = [str(name) for schema in schemas for name in (schema.get("enum") or [schema.get("const")]) if name]
    if isinstance(node.value, str):
        return nearest(node.value, names) if names else _unquoted(node.value, kinds)
    if isinstance(node.value, bool) and "string" in kinds and not names:
        return f" YAML reads {node.raw} as {str(node.value).lower()}, so quote it: '{node.raw}';"
    if isinstance(node.value, (int, float)) and "string" in kinds and not kinds & _NUMBERS:
        return f" a number is no text here, so quote it: '{shown(node)}';"
    return ""


def _unquoted(text: str, kinds: set[Any]) -> str:
    try:
        float(text)
    except ValueError:
        return ""
    return " write the number without quotes;" if kinds & _NUMBERS else ""
