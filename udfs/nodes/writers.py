"""Writers of JSON, compiled for each class of records and messages, as ``dataclasses`` compiles ``__init__``.

What nodes keep and send is written at each commit, millions of small objects. An encoder looks at the type of each
value; a compiled writer knows it by the annotation, and takes a third of the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from typing import Any

to_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_number = count()


@dataclass(frozen=True)
class Writer:
    """How values of a type are written.

    Attributes:
        source: The text of a value as a Python expression; ``{}`` stands for the value.
        names: What the expression calls, by name.
        is_optional: Whether the value may be None; a field that is None is left out.
    """

    source: str
    names: Mapping[str, Any] = field(default_factory=dict)
    is_optional: bool = False

    def of(self, value: str) -> str:
        """Returns the expression for a value, which is an expression, too."""
        return self.source.replace("{}", value)

    def or_null(self) -> Writer:
        """Returns the writer of values that may be None."""
        return replace(self, source=f"('null' if {{}} is None else {self.source})", is_optional=True)

    def array(self, *, is_sorted: bool) -> Writer:
        """Returns the writer of arrays of such values, in their order or ascending."""
        items = "sorted({})" if is_sorted else "{}"
        return Writer(f"'[' + ','.join([{self.of('one')} for one in {items}]) + ']'", self.names)


def plain(kind: type) -> Writer:
    """Returns the writer of numbers, texts or truth values."""
    return _PLAIN.get(kind, called(to_text))


def called(write: Callable[[Any], str]) -> Writer:
    """Returns the writer that calls a function."""
    name = f"write_{next(_number)}"
    return Writer(f"{name}({{}})", {name: write})


def pairs(key: Writer, value: Writer) -> Writer:
    """Returns the writer of a dict: an array of objects ``key`` and ``value``, in the order of keys."""
    shown = (
        f"""'{{"key":' + {key.of("one[0]")} + ('' if one[1] is None else ',"value":' + {value.of("one[1]")}) + '}}'"""
    )
    return Writer(f"'[' + ','.join([{shown} for one in sorted({{}}.items())]) + ']'", {**key.names, **value.names})


def shown_name(name: str) -> str:
    """Returns the name of a field in JSON: without the underscore that tells it apart from a word of Python."""
    return name.rstrip("_")


def compiled(fields: Mapping[str, Writer]) -> Callable[[Any], str]:
    """Returns a function that writes an object of some attributes; those that are None are omitted.

    It raises a TypeError where a value is not as annotated.
    """
    if not fields:
        return lambda row: "{}"
    template, values, names = "", list[str](), dict[str, Any]()
    for name, writer in fields.items():
        head, value = f",{to_text(shown_name(name))}:", f"row.{name}"
        text = writer.of(value)
        template += "%s" if writer.is_optional else f"{head}%s"
        values.append(f"('' if {value} is None else {head!r} + {text})" if writer.is_optional else text)
        names |= writer.names
    source = f"lambda row: '{{' + ({template!r} % ({', '.join(values)},))[1:] + '}}'"
    found: Callable[[Any], str] = eval(source, names)  # noqa: S307 - made of the names of fields
    return found


@lru_cache(4096, typed=True)
def _text(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return to_text(value)


def _truth(value: bool) -> str:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is no truth value")
    return "true" if value else "false"


_PLAIN = {int: called(int.__repr__), str: called(_text), bool: called(_truth)}
