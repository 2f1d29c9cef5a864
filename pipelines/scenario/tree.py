"""The unvalidated values of a scenario file and of ``--set``, each with its position in the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pipelines.errors import KeyPath, ScenarioError

Scalar: TypeAlias = "str | int | float | bool | None"
Value: TypeAlias = "Scalar | list[ValueNode] | dict[str, ValueNode]"
_SHOWN = 60


class SourcePlace(NamedTuple):
    """The position of a value in the scenario file, or the ``--set`` that sets the value.

    Attributes:
        rank: 0 for the file, n for the n-th ``--set``.
        line: From 1; 0 if the source has no lines.
        column: In characters, from 1.
        source: The name of the file, or the argument of ``--set`` as written.
    """

    rank: int
    line: int
    column: int
    source: str

    def __str__(self) -> str:
        """Returns ``file:line:column``, or the ``--set`` as written."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(slots=True)
class ValueNode:
    """A value of a scenario with its position.

    Attributes:
        value: A scalar, or the nodes of a list or a mapping.
        place: The position of the first character.
        raw: A scalar as written in the file; None for lists and mappings.
        text_column: The column of a string's first character, after the quote; None for strings with escapes or several
            lines.
        key_places: The position of each key of a mapping.
    """

    value: Value
    place: SourcePlace
    raw: str | None = None
    text_column: int | None = None
    key_places: dict[str, SourcePlace] = field(default_factory=dict)

    def child(self, step: str | int) -> ValueNode | None:
        """Returns the node at the key or index `step`; None if this node has no such child."""
        if isinstance(self.value, dict) and isinstance(step, str):
            return self.value.get(step)
        if isinstance(self.value, list) and isinstance(step, int) and 0 <= step < len(self.value):
            return self.value[step]
        return None


class Complaint(NamedTuple):
    """An error of a scenario: its position and the message."""

    place: SourcePlace
    message: str


def scenario_error(complaints: Iterable[Complaint]) -> ScenarioError:
    """Returns a `ScenarioError` with the distinct complaints, in the order of their positions."""
    return ScenarioError(f"{place}: {message}" for place, message in sorted(set(complaints)))


def plain(node: ValueNode) -> object:
    """Returns the value of `node` without positions, as dicts, lists and scalars."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def walk(root: ValueNode, path: KeyPath) -> Iterator[tuple[str | int, ValueNode]]:
    """Yields a pair (step, node) for each step of `path` that names a child of the current node, starting at `root`.

    Other steps are skipped, for example the tags of unions in pydantic's error locations.
    """
    node = root
    for step in path:
        child = node.child(step)
        if child is not None:
            node = child
            yield step, node


def nearest_node(root: ValueNode, path: KeyPath) -> ValueNode:
    """Returns the node at `path`, or its nearest ancestor that exists."""
    node = root
    for step in path:
        child = node.child(step)
        if child is None:
            return node
        node = child
    return node


def replaced(root: ValueNode, path: KeyPath, new: ValueNode) -> ValueNode:
    """Returns a copy of the tree with node `new` at `path`; missing mappings on the path are added.

    Raises:
        LookupError: The path leads through a scalar, or to a list item that does not exist.
    """
    if not path:
        return new
    step, rest = path[0], path[1:]
    child = root.child(step)
    if root.value is None and isinstance(step, int):
        raise LookupError(f"{step!r} is not an item of a list of 0; allowed: none, so set the list itself")
    if isinstance(root.value, list):
        if child is None or not isinstance(step, int):
            allowed = f"0 to {len(root.value) - 1}" if root.value else "none, the list is empty"
            raise LookupError(f"{step!r} is not an item of a list of {len(root.value)}; allowed: {allowed}")
        items = [*root.value]
        items[step] = replaced(child, rest, new)
        return ValueNode(items, root.place)
    if root.value is not None and not isinstance(root.value, dict):
        raise LookupError(f"{str(step)!r} would be in {shown(root)}, which is not a mapping; set the value above it")
    key = str(step)
    old = child if child is not None else ValueNode(None, new.place)
    value = {**(root.value or {}), key: replaced(old, rest, new)}
    return ValueNode(value, root.place, key_places={key: new.place, **root.key_places})


def shown(node: ValueNode) -> str:
    """Returns a phrase for the value of `node` in a message. A scalar is shown as written, cut to 60 characters."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "an empty list" if not node.value else f"a list of {len(node.value)}"
    if node.value is None:
        return "empty"
    text = node.raw if node.raw is not None else str(node.value)
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}... ({len(text)} characters)"
    return repr(text) if isinstance(node.value, str) else text
