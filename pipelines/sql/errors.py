"""Translates an engine's error about a SQL statement into one line that names tables and columns of the store.

Classic Spark, Spark Connect and Sail report a mistake in a statement differently, with pages of plans and stack traces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException

from pipelines.errors import QueryError, listed, nearest
from pipelines.sql.statement import place
from pipelines.store.damage import surroundings_error

_MAX_LENGTH = 300
_NO_TABLE = (
    re.compile(r"[Tt]able or view not found: *(?P<name>[^\s;]+)"),
    re.compile(r"table or view (?P<name>`[^`]+`(?:\.`[^`]+`)*) cannot be found"),
)
_NO_COLUMN = (
    re.compile(r"attribute ObjectName\(\[(?P<name>[^\]]*)\]\) is missing"),
    re.compile(r"with name (?P<name>`[^`]+`(?:\.`[^`]+`)*) cannot be resolved"),
    re.compile(r"No field named (?P<name>[^\s,]+?)\.(?:\s|$)"),
)
_NO_INNER_COLUMN = re.compile(r'No field named \S*"#\d+"')
_BY_ALL = re.compile(r"\bby\s+all\b", re.IGNORECASE)
_PART = re.compile(r'Identifier\("([^"]*)"\)|`([^`]+)`|([^`.,"\s]+)')
_OFFSETS = re.compile(r"\bat (\d+):(\d+)\b")
_LINE = re.compile(r"\(?\bline (\d+),? pos (\d+)\)?")
_NOISE = (
    re.compile(r"^\s*\((?:org|java|io)[\w.$]*\)\s*"),
    re.compile(r"^\s*\[[A-Z_.0-9]+\]\s*"),
    re.compile(r"^\s*invalid argument: "),
    re.compile(r"\.?\s*SQLSTATE: \w+;?"),
    re.compile(r"\s*(?:== SQL|;\s*[\n']|JVM stacktrace|\n\s+at ).*", re.DOTALL),
    re.compile(r"\s*expected (?:.+?, ){3}.*", re.DOTALL),
)
_END = re.compile(r"\b(?:found|[Ss]yntax error at or near) '?\)'?[.:]? at the end\b")


@contextmanager
def readable_errors() -> Iterator[None]:
    """Converts an engine's error inside the ``with`` block to a `QueryError` with a message of one line.

    An error about the disk or about a lost engine becomes a `StoreError` or an `EngineError`.

    The block contains the code that collects rows, because the engine then executes the query.
    """
    try:
        yield
    except PySparkException as error:
        if told := surroundings_error(error):
            raise told from None
        raise QueryError(f"the statement cannot be answered: {_one_line(str(error), '', '')}") from None


def query_error(
    error: PySparkException, text: str, prefix: str, missing: Callable[[str], QueryError],
    columns: Callable[[], dict[str, list[str]]],
) -> QueryError:  # fmt: skip
    """Returns a `QueryError` for a statement that an engine rejects; its message contains the nearest existing name.

    Args:
        error: The engine's error.
        text: The statement as the user wrote it.
        prefix: The SQL that precedes the statement in the engine's input; it ends with a newline.
        missing: A function that returns the error for a table or view that does not exist.
        columns: A function that returns the columns of each table in the statement.
    """
    message = str(error)
    table = _first(_NO_TABLE, message)
    if table is not None:
        return missing(".".join(table))
    if _NO_INNER_COLUMN.search(message):
        return QueryError(
            "the statement cannot be answered: a column stands beside an aggregate such as count, but not in GROUP BY;"
            " if GROUP BY has every such column, Sail cannot plan the statement: open the store with the engine spark"
        )
    column = _first(_NO_COLUMN, message)
    if column is None:
        return QueryError(f"the statement cannot be answered: {_one_line(message, text, prefix)}")
    if column[-1].lower() == "all" and _BY_ALL.search(text):
        return QueryError(
            "engine local answers neither GROUP BY ALL nor ORDER BY ALL; write the columns or their positions, e.g."
            " GROUP BY 1, 2, or choose engine spark"
        )
    return _column_error(column, columns())


def unknown_table(name: str, tables: Sequence[str], owners: Sequence[str], protocols: Sequence[str]) -> QueryError:
    """Returns the error for a name that is not in `tables`, the names of a store's tables and views.

    ``owners`` are the protocols to which a view ``name`` belongs; ``protocols`` are those of the store.
    """
    shown = f"SHOW TABLES lists the {len(tables)} tables and views"
    if owners and not {*owners} & {*protocols}:
        return QueryError(
            f"view {name!r} belongs to protocol {' and '.join(owners)}; the store has no run of it, only of "
            f"{listed(protocols)}; {shown}"
        )
    return QueryError(f"table {name!r} does not exist;{nearest(name, tables)} {shown}")


def _column_error(column: Sequence[str], columns: dict[str, list[str]]) -> QueryError:
    name = ".".join(column)
    every = dict.fromkeys(known for names in columns.values() for known in names)
    there = "; ".join(f"{table} has {', '.join(names)}" for table, names in columns.items())
    there = there or "the statement names no table, or a view that it reads needs the column"
    return QueryError(f"column {name!r} does not exist;{nearest(column[-1], every)} {there}")


def _first(patterns: Sequence[re.Pattern[str]], message: str) -> list[str] | None:
    """Returns the parts of the dotted name that the first matching pattern captures; None if no pattern matches."""
    for pattern in patterns:
        found = pattern.search(message)
        if found is not None:
            return ["".join(part) for part in _PART.findall(found["name"])]
    return None


def _one_line(message: str, text: str, prefix: str) -> str:
    """Returns an engine's error message in one line, without codes, plans and stack traces.

    Positions in the engine's input, ``prefix`` and ``text``, are converted to positions in ``text``.
    """

    def at(found: re.Match[str]) -> str:
        offset = int(found[1]) - len(prefix)
        return f"at {place(text, offset) if offset < len(text.rstrip()) else 'the end'}"

    def line(found: re.Match[str]) -> str:
        number = max(int(found[1]) - prefix.count(chr(10)), 1)
        is_inside = number <= len(text.rstrip().splitlines())
        return f"at {f'line {number}, column {int(found[2]) + 1}' if is_inside else 'the end'}"

    for noise in _NOISE:
        message = noise.sub("", message)
    if text:
        message = _END.sub("it ends too early;", _LINE.sub(line, _OFFSETS.sub(at, message)))
    message = " ".join(message.split()).rstrip(" .;")
    return message if len(message) <= _MAX_LENGTH else f"{message[: _MAX_LENGTH - 3]}..."
