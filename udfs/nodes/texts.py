"""Records and messages as JSON: how nodes are kept between rounds, and what messages carry.

A program has some hundred fields, and an engine would plan a column for each in every round. A text is one column; the
tables that users read are made of it when they are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from udfs.nodes.fields import FieldType
from udfs.nodes.program import Plan
from udfs.nodes.records import HEAD, spec_of

_BLOCK_BYTES = 1 << 20
_Convert = Callable[[Any], Any] | None
_to_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_of_text = json.JSONDecoder().decode


def rows_text(record: type, rows: Sequence[Any]) -> str | None:
    """Returns records as a JSON array of objects; None: there are none."""
    if not rows:
        return None
    fields = encoders(record)
    return _to_text([_shown(row, fields) for row in rows])


def text_rows(record: type, text: str | None) -> list[Any]:
    """Returns the records that `rows_text` has made a text of."""
    if text is None:
        return []
    fields = _decoders(record)
    return [record(*_values(given, fields)) for given in _of_text(text)]


def text_lists(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the same rows as a column of lists of structs, which Arrow reads without an object for each.

    Args:
        texts: At least one text, none null.
        kind: The type of a list of rows.

    Raises:
        ArrowInvalid: A text is not what `rows_text` makes of such rows.
    """
    parts = ['{"rows":', texts, "}\n"]
    lines = pc.binary_join_element_wise(*(pa.scalar(one) if isinstance(one, str) else one for one in parts), "")
    longest = pc.max(pc.binary_length(lines)).as_py()
    found = read_json(
        pa.BufferReader(lines.buffers()[2]),
        ReadOptions(block_size=max(longest, _BLOCK_BYTES)),
        ParseOptions(explicit_schema=pa.schema([("rows", kind)]), unexpected_field_behavior="error"),
    )
    return found.column("rows").combine_chunks()


class Messages:
    """The messages of a program: the call that each serves is a column, all else is its body, a JSON object."""

    def __init__(self, plan: Plan) -> None:
        """Reads the classes of messages."""
        self._shown = {cls: [one for one in encoders(cls) if one[0] not in HEAD] for cls in plan.kinds.values()}
        self._served = {cls: [name in spec_of(cls).types for name in HEAD] for cls in plan.kinds.values()}
        self._classes = {kind: (cls, _decoders(cls), bool(self._shown[cls])) for kind, cls in plan.kinds.items()}

    def columns(self, messages: Sequence[Any]) -> dict[str, list[Any]]:
        """Returns messages as columns ``source``, ``source_seq`` and ``body``."""
        source, source_seq, body = list[int | None](), list[int | None](), list[str | None]()
        for message in messages:
            cls = type(message)
            has_source, has_seq = self._served[cls]
            source.append(message.source if has_source else None)
            source_seq.append(message.source_seq if has_seq else None)
            fields = self._shown[cls]
            body.append(_to_text(_shown(message, fields)) if fields else None)
        return {"source": source, "source_seq": source_seq, "body": body}

    def message(self, kind: str, source: int | None, source_seq: int | None, body: str | None) -> Any:  # noqa: ANN401
        """Returns the message of a kind that columns stand for."""
        cls, fields, has_body = self._classes[kind]
        given = _of_text(body or "{}") if has_body else {}
        given["source"], given["source_seq"] = source, source_seq
        return cls(*_values(given, fields))


@cache
def encoders(cls: type) -> list[tuple[str, _Convert]]:
    """Returns the fields of a record or message, and what turns each into what JSON and Arrow take."""
    return [(name, kind.encode) for name, kind in _types(cls).items()]


@cache
def _decoders(cls: type) -> list[tuple[str, _Convert]]:
    return [(name, kind.decode) for name, kind in _types(cls).items()]


def _types(cls: type) -> dict[str, FieldType]:
    return spec_of(cls).types


def _shown(row: Any, fields: Sequence[tuple[str, _Convert]]) -> dict[str, Any]:  # noqa: ANN401
    shown = {}
    for name, encode in fields:
        value = getattr(row, name)
        if value is not None:
            shown[name] = value if encode is None else encode(value)
    return shown


def _values(given: dict[str, Any], fields: Sequence[tuple[str, _Convert]]) -> list[Any]:
    return [given.get(name) if decode is None else decode(given.get(name)) for name, decode in fields]
