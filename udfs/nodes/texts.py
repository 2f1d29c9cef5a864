"""Records and messages as JSON: how nodes are kept between rounds, and what messages carry.

A program has some hundred fields, and an engine would plan a column for each in every round. A text is one column; the
tables that users read are made of it when they are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from udfs.nodes.fields import written
from udfs.nodes.program import Plan
from udfs.nodes.records import HEAD, hidden_of, spec_of
from udfs.nodes.step import ProgramError
from udfs.nodes.writers import shown_name

_BLOCK_BYTES = 1 << 20
_Convert = Callable[[Any], Any] | None
_of_text = json.JSONDecoder().decode


def rows_text(record: type, rows: Iterable[Any]) -> str:
    """Returns records as a JSON array of objects."""
    try:
        return f"[{','.join(map(_text(record), rows))}]"
    except TypeError as error:
        raise _unfit(rows, error) from error


def text_rows(records: Sequence[type], texts: Sequence[str | None]) -> list[list[Any] | None]:
    """Returns the records of tables that `rows_text` has made texts of; None where there is no text.

    Args:
        records: The class of each table's records.
        texts: The texts, of as many tables.
    """
    tables = _of_text(f"[{','.join([text or 'null' for text in texts])}]")
    return [None if rows is None else [*map(_made(cls), rows)] for cls, rows in zip(records, tables, strict=True)]


class Messages:
    """The messages of a program: the call that each serves is a column, all else is JSON: the body, what is hidden."""

    def __init__(self, plan: Plan) -> None:
        """Reads the classes of messages."""
        names = {cls: list(spec_of(cls).types) for cls in plan.kinds.values()}
        self._text = {
            cls: None if set(of) <= {*HEAD, *hidden_of(cls)} else _text(cls, *HEAD, *hidden_of(cls))
            for cls, of in names.items()
        }
        self._hidden = {
            cls: _text(cls, *(name for name in of if name not in hidden_of(cls))) if hidden_of(cls) else None
            for cls, of in names.items()
        }
        self._served = {cls: [name in of for name in HEAD] for cls, of in names.items()}
        self._classes = {kind: _made(cls) for kind, cls in plan.kinds.items()}

    def columns(self, messages: Sequence[Any]) -> dict[str, list[Any]]:
        """Returns messages as columns ``source``, ``source_seq``, ``body`` and ``hidden``."""
        source, source_seq = list[int | None](), list[int | None]()
        body, hidden = list[str | None](), list[str | None]()
        for message in messages:
            cls = type(message)
            has_source, has_seq = self._served[cls]
            source.append(message.source if has_source else None)
            source_seq.append(message.source_seq if has_seq else None)
            text, rest = self._text[cls], self._hidden[cls]
            try:
                body.append(None if text is None else text(message))
                hidden.append(None if rest is None else rest(message))
            except TypeError as error:
                raise _unfit([message], error) from error
        return {"source": source, "source_seq": source_seq, "body": body, "hidden": hidden}

    def message(
        self, kind: str, source: int | None, source_seq: int | None, body: str | None, hidden: str | None
    ) -> Any:  # noqa: ANN401 - any message class
        """Returns the message of a kind that columns stand for."""
        given = {} if body is None else _of_text(body)
        if hidden is not None:
            given |= _of_text(hidden)
        given["source"], given["source_seq"] = source, source_seq
        return self._classes[kind](given)


@cache
def encoders(cls: type) -> list[tuple[str, _Convert]]:
    """Returns the fields of a record or message, and what turns each into what JSON and Arrow take."""
    return [(name, kind.encode) for name, kind in spec_of(cls).types.items()]


def _unfit(rows: Iterable[Any], error: TypeError) -> ProgramError:
    """Returns an error that names the field whose value is not as annotated."""
    for row in rows:
        cls: Any = type(row)
        for name, kind in spec_of(cls).types.items():
            try:
                written({name: kind})(row)
            except TypeError:
                return ProgramError(f"{cls.__name__}.{name} is {getattr(row, name)!r}; allowed: {kind.sql}")
    return ProgramError(str(error))


@cache
def _text(cls: type, *others: str) -> Callable[[Any], str]:
    """Returns a function that writes a record or message as a JSON object, without some fields."""
    return written({name: kind for name, kind in spec_of(cls).types.items() if name not in others})


@cache
def _made(cls: type) -> Callable[[dict[str, Any]], Any]:
    """Returns a function that reads a record or message from such an object; missing fields are None."""
    names = [shown_name(name) for name in spec_of(cls).types]
    decoded = [(shown_name(name), kind.decode) for name, kind in spec_of(cls).types.items() if kind.decode is not None]

    def made(given: dict[str, Any]) -> Any:  # noqa: ANN401
        for name, decode in decoded:
            given[name] = decode(given.get(name))
        return cls(*map(given.get, names))

    return made
