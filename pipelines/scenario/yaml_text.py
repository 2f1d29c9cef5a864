"""YAML with positions: reads a document as a tree of values, and writes values as a document.

The reader rejects duplicate keys, tags, merge keys, dates, ``nan`` and ``inf``, numbers with a leading 0, unbounded
aliases, deep nesting, and several documents. A value of ``--set`` has the argument as its position.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import yaml
from yaml.representer import RepresenterError

from pipelines.errors import KeyPath, ScenarioError, shortened

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
    text = shortened(text, _SHOWN)
    return repr(text) if isinstance(node.value, str) else text


MAX_DEPTH = 50
MAX_COPIES = 100_000
MAX_DIGITS = 1000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_EXPONENT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+")
_AMBIGUOUS = re.compile(r"[-+]?0[0-9_]+")
_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_UNPRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

PlaceOf: TypeAlias = Callable[[int, int], SourcePlace]
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_RESERVED = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_KINDS = {
    "bool": "a truth value",
    "int": "a number",
    "float": "a number",
    "null": "an empty value",
    "timestamp": "a date",
}


def read_yaml(text: str, place_of: PlaceOf) -> tuple[ValueNode, list[Complaint]]:
    """Parses one YAML document; returns the tree of its valid values, and a complaint about each invalid value.

    `place_of` returns the `SourcePlace` of a line and a column, both from 1.

    Raises:
        ScenarioError: The document is not YAML, contains forbidden characters, or exceeds the limits of size.
    """
    _check_characters(text, place_of)
    try:
        _check_shape(text, place_of, _LOADER)
        document = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        if "nesting depth" in str(error.problem):
            # At its nesting limit, the C parser fails before it emits the events; the Python parser emits them.
            _check_shape(text, place_of, yaml.SafeLoader)
        mark = error.problem_mark or error.context_mark
        context = f" ({error.context})" if error.context else ""
        raise scenario_error(
            [Complaint(_place(mark, place_of), f"this is not YAML: {error.problem}{context}; {_cure(error)}")]
        ) from None
    if document is None:
        return ValueNode(None, place_of(1, 1)), []
    reader = _Reader(text, place_of)
    return reader.read(document), reader.complaints


def _cure(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem)
    if "alias" in problem:
        return "define it before with &name, or quote the text that starts with *"
    if "cannot start any token" in problem:
        return "indent with spaces, not tabs, and quote texts that start with a special character"
    if "mapping values" in problem:
        return "put each key on a line of its own, and quote texts with a colon in them"
    return "check the indentation, the brackets and the quotes before this place"


def _check_characters(text: str, place_of: PlaceOf) -> None:
    found = _UNPRINTABLE.search(text)
    if found is not None:
        before = text[: found.start()]
        place = place_of(before.count("\n") + 1, found.start() - before.rfind("\n"))
        message = f"the character U+{ord(found.group()):04X} is not allowed; remove it, or save the file as UTF-8"
        raise scenario_error([Complaint(place, message)])


def _check_shape(text: str, place_of: PlaceOf, loader: type[Any]) -> None:
    # Composing a document recurses, so the depth is checked earlier, in the stream of events.
    depth = documents = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        if depth > MAX_DEPTH or documents > 1:
            message = (
                f"values are nested more than {MAX_DEPTH} deep; a scenario needs less than 10 levels"
                if depth > MAX_DEPTH
                else "a second YAML document starts here; allowed: one scenario in a file"
            )
            raise scenario_error([Complaint(_place(event.start_mark, place_of), message)])


@dataclass
class _Reader:
    text: str
    place_of: PlaceOf
    complaints: list[Complaint] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    n_copies: int = 0

    def read(self, source: yaml.Node, depth: int = 0, repeated: SourcePlace | None = None) -> ValueNode:
        # `repeated` is the place of the outermost value that an alias repeats and that contains `source`, or None.
        place = _place(source.start_mark, self.place_of)
        if id(source) in self.seen:
            self.n_copies += 1
            repeated = repeated or place
        self.seen.add(id(source))
        message = ""
        if self.n_copies > MAX_COPIES:
            message = f"aliases repeat more than {MAX_COPIES} values; write them out, or use a file or a generator"
        elif depth > MAX_DEPTH:
            message = f"aliases nest values more than {MAX_DEPTH} deep, or a value inside itself; write the values out"
        if message:
            raise scenario_error([Complaint(repeated or place, message)])
        if isinstance(source, yaml.ScalarNode):
            return self._scalar(source, place)
        if source.tag not in (_TAG + "map", _TAG + "seq"):
            self.complaints.append(Complaint(place, _tag_message(source.tag)))
            return ValueNode(None, place)
        if isinstance(source, yaml.MappingNode):
            return self._mapping(source, place, depth, repeated)
        return ValueNode([self.read(item, depth + 1, repeated) for item in source.value], place)

    def _mapping(
        self, source: yaml.MappingNode, place: SourcePlace, depth: int, repeated: SourcePlace | None
    ) -> ValueNode:
        values: dict[str, ValueNode] = {}
        mapping = ValueNode(values, place)
        for key_source, value_source in source.value:
            key_place = _place(key_source.start_mark, self.place_of)
            value, key = self.read(value_source, depth + 1, repeated), self._key(key_source, key_place)
            if key is None:
                continue
            if key in values:
                line = mapping.key_places[key].line
                message = f"the key {key!r} already exists, in line {line}; allowed: each key once"
                self.complaints.append(Complaint(key_place, message))
                continue
            values[key] = value
            mapping.key_places[key] = key_place
        return mapping

    def _key(self, source: yaml.Node, place: SourcePlace) -> str | None:
        if source.tag == _MERGE:
            message = "merge keys (<<) are not supported; write the keys out"
        elif source.tag == _TAG + "str":
            return str(source.value)
        elif isinstance(source, yaml.ScalarNode):
            kind = _KINDS.get(source.tag.removeprefix(_TAG), "a special value")
            message = f"the key {source.value} is read as {kind}, not as a string; quote it: '{source.value}'"
        else:
            message = "a list or a mapping cannot be a key; allowed: strings"
        self.complaints.append(Complaint(place, message))
        return None

    def _scalar(self, source: yaml.ScalarNode, place: SourcePlace) -> ValueNode:
        try:
            value = _value(source)
        except ValueError as refused:
            self.complaints.append(Complaint(place, str(refused)))
            return ValueNode(source.value, place, raw=source.value)  # so that the model does not report a missing value
        return ValueNode(value, place, raw=source.value, text_column=self._text_column(source, place))

    def _text_column(self, source: yaml.ScalarNode, place: SourcePlace) -> int | None:
        quoted = source.style in ("'", '"')
        start = source.start_mark.index + quoted
        verbatim = source.style in (None, "", "'", '"') and self.text.startswith(source.value, start)
        return place.column + quoted if verbatim and "\n" not in source.value else None


def _place(mark: Any, place_of: PlaceOf) -> SourcePlace:  # noqa: ANN401 - the marks of PyYAML's two parsers share no type
    return place_of(mark.line + 1, mark.column + 1) if mark else place_of(1, 1)


def _value(source: yaml.ScalarNode) -> Scalar:
    tag, raw = source.tag.removeprefix(_TAG), str(source.value)
    if tag in ("str", "value", "merge"):
        return _number(raw, float) if not source.style and _EXPONENT.fullmatch(raw) else raw
    if tag == "null":
        return None
    if tag == "bool" and raw.lower() in _BOOLEANS:
        return _BOOLEANS[raw.lower()]
    if tag in ("int", "float"):
        return raw if ":" in raw else _number(raw, int if tag == "int" else float)
    if tag == "timestamp":
        raise ValueError(f"{raw} is read as a date, which is neither a number nor a text; quote it: '{raw}'")
    raise ValueError(_tag_message(source.tag))


def _number(raw: str, kind: type[int] | type[float]) -> int | float:
    digits = raw.replace("_", "")
    if len(digits) > MAX_DIGITS:
        raise ValueError(
            f"a number of {len(digits)} digits is too large; allowed: numbers up to 1e300, or a text in quotes"
        )
    if kind is int and _AMBIGUOUS.fullmatch(raw):
        raise ValueError(
            f"{raw} starts with 0 and is read as octal by YAML; write the number without the 0, or quote it: '{raw}'"
        )
    try:
        number = int(digits, 0) if kind is int else float(digits.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise ValueError(f"{raw!r} is not a number; allowed: e.g. 12 or 0.5") from None
    if not isinstance(number, int) and not math.isfinite(number):
        if "inf" in raw.lower() or "nan" in raw.lower():
            raise ValueError(f"{raw} is not a finite number; write a finite number, or quote it: '{raw}'")
        raise ValueError(f"{raw} is too large; allowed: numbers up to 1e300, or a text in quotes")
    return number


def _tag_message(tag: str) -> str:
    return f"the tag {tag.replace(_TAG, '!!')!r} is not allowed; write the plain value, a list, or a mapping"


def scenario_text(parts: Mapping[str, Any], heading: Sequence[str] = ()) -> str:
    """Returns `parts` as a YAML document that starts with the comment lines `heading`.

    A list of lists or mappings has a line for each entry. Besides the types of YAML, `parts` can contain tuples,
    ranges, paths, and the scalars and arrays of NumPy.

    Raises:
        ScenarioError: A value has another type, or contains itself.
    """
    return "".join(f"# {line}\n" for line in heading) + _dumped(parts, is_flow=None)


def flow_text(value: object) -> str:
    """Returns `value` as YAML in one line, with types and errors as in `scenario_text`."""
    return _dumped(value, is_flow=True).removesuffix("\n").removesuffix("\n...")


def _dumped(value: object, *, is_flow: bool | None) -> str:
    try:
        return str(yaml.dump(
            value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=is_flow, width=math.inf
        ))  # fmt: skip
    except RecursionError:
        message = "a value of the scenario contains itself, or is nested too deep"
        raise ScenarioError([f"{message}; write the values out"]) from None
    except RepresenterError as error:
        message = f"a value of the scenario has the type {type(error.args[-1]).__name__}, which YAML lacks"
        raise ScenarioError([f"{message}; give strings, numbers, truth values, lists and dicts"]) from None


class _Dumper(yaml.SafeDumper):
    """Writes a list of lists or mappings with a line for each entry, and quotes strings unless they are bare words."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_sequence(
        self, tag: str, sequence: Iterable[Any], flow_style: bool | None = None
    ) -> yaml.SequenceNode:
        node = super().represent_sequence(tag, sequence, flow_style)
        for item in node.value:
            if isinstance(item, yaml.CollectionNode):
                item.flow_style = True
        return node

    def represent_str(self, data: str) -> yaml.ScalarNode:
        is_word = _BARE.fullmatch(data) and data.lower() not in _RESERVED
        return self.represent_scalar(f"{_TAG}str", data, style=None if is_word else '"')


_Dumper.add_representer(str, _Dumper.represent_str)
_Dumper.add_representer(range, _Dumper.represent_list)
_Dumper.add_multi_representer(PurePath, lambda dumper, path: dumper.represent_str(str(path)))
_Dumper.add_multi_representer(dict, _Dumper.represent_dict)
for _type in (np.generic, np.ndarray):
    _Dumper.add_multi_representer(_type, lambda dumper, value: dumper.represent_data(value.tolist()))
