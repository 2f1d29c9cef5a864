"""The values of a scenario file and of ``--set``, each with its source position, before validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pipelines.errors import ScenarioError

Path: TypeAlias = "tuple[str | int, ...]"
Scalar: TypeAlias = "str | int | float | bool | None"
Value: TypeAlias = "Scalar | list[ValueNode] | dict[str, ValueNode]"
_SHOWN = 60


class SourcePlace(NamedTuple):
    """Where a value was written.

    Attributes:
        rank: 0 for the file, 1 for the first ``--set``, and so on.
        line: From 1; 0 where the source has no lines.
        column: From 1, in characters.
        source: The file's name, or the text of ``--set``.
    """

    rank: int
    line: int
    column: int
    source: str

    def __str__(self) -> str:
        """Returns ``file:line:column``, or the ``--set`` alone."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(slots=True)
class ValueNode:
    """One value with its place.

    Attributes:
        value: A scalar, or the nodes of a list or a mapping.
        place: Where the value starts.
        raw: A scalar as it is written; None for lists and mappings.
        text_column: The column of a string's first character; None for a string with escapes, or over several lines.
        key_places: Where the keys of a mapping are.
    """

    value: Value
    place: SourcePlace
    raw: str | None = None
    text_column: int | None = None
    key_places: dict[str, SourcePlace] = field(default_factory=dict)

    def child(self, step: str | int) -> ValueNode | None:
        """Returns the value under a key or an index, or None."""
        if isinstance(self.value, dict) and isinstance(step, str):
            return self.value.get(step)
        if isinstance(self.value, list) and isinstance(step, int) and 0 <= step < len(self.value):
            return self.value[step]
        return None


class Complaint(NamedTuple):
    """One thing that is wrong, and where."""

    place: SourcePlace
    message: str


def scenario_error(complaints: Iterable[Complaint]) -> ScenarioError:
    """Returns the error of all complaints, each once, in the order of the file."""
    return ScenarioError(f"{place}: {message}" for place, message in sorted(set(complaints)))


def plain(node: ValueNode) -> object:
    """Returns a node's value without places, as dicts, lists and scalars."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def walk(root: ValueNode, path: Path) -> Iterator[tuple[str | int, ValueNode]]:
    """Yields the steps of a path that exist, with their nodes; steps that do not exist are passed over."""
    node = root
    for step in path:
        child = node.child(step)
        if child is not None:
            node = child
            yield step, node


def nearest_node(root: ValueNode, path: Path) -> ValueNode:
    """Returns the node at a path, or its nearest ancestor that exists."""
    node = root
    for step in path:
        child = node.child(step)
        if child is None:
            return node
        node = child
    return node


def replaced(root: ValueNode, path: Path, new: ValueNode) -> ValueNode:
    """Returns a tree with another node at a path; mappings on the way are made where there are none.

    Raises:
        LookupError: The path leads through a value that is no mapping, or to an item that a list does not have;
            the message says which.
    """
    if not path:
        return new
    step, rest = path[0], path[1:]
    child = root.child(step)
    if isinstance(root.value, list):
        if child is None or not isinstance(step, int):
            raise LookupError(
                f"{step!r} is no item of a list of {len(root.value)}; allowed: {_indices(len(root.value))}"
            )
        items = [*root.value]
        items[step] = replaced(child, rest, new)
        return ValueNode(items, root.place)
    if root.value is not None and not isinstance(root.value, dict):
        raise LookupError(f"{str(step)!r} would be inside {shown(root)}, which is no mapping; set the value above it")
    key = str(step)
    old = child if child is not None else ValueNode(None, new.place)
    return ValueNode(
        {**(root.value or {}), key: replaced(old, rest, new)},
        root.place,
        key_places={key: new.place, **root.key_places},
    )


def _indices(length: int) -> str:
    return f"0 to {length - 1}" if length else "none, the list is empty"


def shown(node: ValueNode) -> str:
    """Returns a value for a message: short, and as it is written."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "an empty list" if not node.value else f"a list of {len(node.value)}"
    if node.value is None:
        return "empty"
    text = node.raw if node.raw is not None else str(node.value)
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}... ({len(text)} characters)"
    return repr(text) if isinstance(node.value, str) else text
