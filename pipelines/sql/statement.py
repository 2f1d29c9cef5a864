"""Parses a SQL statement before an engine executes it: finds the names in it, and rejects statements that write."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from pipelines.errors import QueryError, nearest

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>\b[rR]'[^']*'|\b[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|`(?P<quoted>(?:[^`]|``)+)`|(?P<word>[^\W\d]\w*)|(?P<number>\d\w*)|(?P<symbol>.)""",
    re.DOTALL,
)
_CAPITALS = re.compile(r"\b\w*[A-Z]\w*")
_QUERY = ("select", "with", "values")
_VERBS = (*_QUERY, "show", "describe", "desc", "explain")
_EXPLAIN_MODES = ("extended", "formatted", "cost", "codegen")
_ALLOWED = "one SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN statement"

Verb = Literal["query", "explain", "describe", "tables"]


@dataclass(frozen=True)
class Statement:
    """A read-only statement.

    Attributes:
        verb: ``query``, ``explain`` (of a query), ``describe`` (columns of a relation), or ``tables`` (list of
            relations).
        body: The query, or the name of the relation; empty for ``tables``.
        mode: The mode of ``explain``, e.g. EXTENDED; empty for other verbs, or if the statement names no mode.
    """

    verb: Verb
    body: str
    mode: str = ""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


@lru_cache(maxsize=1_000)
def identifiers(text: str) -> frozenset[str]:
    """Returns all words and quoted names, in lower case, of a SQL string; omits comments and string literals.

    The result includes the content of double quotes: a session may set that double quotes enclose identifiers.
    """
    return frozenset(
        token.text.strip('"').lower()
        for token in _tokens(text)
        if token.kind in ("word", "quoted") or token.text.startswith('"')
    )


def with_lower_case(text: str, names: Container[str]) -> str:
    """Converts the occurrences of ``names`` in a SQL string to lower case, because some engines distinguish case."""
    if not any(word.lower() in names for word in _CAPITALS.findall(text)):
        return text
    tokens = list(_tokens(text))
    for before, token in zip([None, *tokens], tokens, strict=False):
        is_alias = before is not None and before.text.lower() == "as"
        if token.kind == "word" and token.text.lower() in names and not is_alias:
            text = text[: token.start] + token.text.lower() + text[token.end :]
    return text


def with_escaped_quotes(text: str) -> str:
    r"""Returns a SQL string with ``\'`` for ``''`` in string literals; Sail would end the literal there."""
    if "''" not in text and '""' not in text:
        return text
    for before, token in pairwise(_tokens(text)):
        quote = token.text[0]
        is_one = before.end == token.start and quote in "'\"" and before.text[0] == quote
        if is_one and before.kind == token.kind == "text":
            text = f"{text[: before.end - 1]}\\{text[token.start :]}"
    return text


@lru_cache(maxsize=1_000)
def read_statement(text: str) -> Statement:
    """Parses one read-only statement.

    Raises:
        QueryError: ``text`` is empty, or it contains several statements or a statement that writes.
    """
    tokens = list(_tokens(text))
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        raise QueryError(f"the statement is empty; allowed: {_ALLOWED}")
    _check_symbols(text, tokens)
    verb = _verb(tokens)
    if verb == "explain":
        return _explain(text, tokens)
    if verb == "show":
        return _show(tokens)
    if verb in ("describe", "desc"):
        return _describe(tokens)
    return Statement("query", text[tokens[0].start : tokens[-1].end])


def place(text: str, offset: int) -> str:
    """Returns ``line L, column C`` of a character offset in ``text``."""
    before = text[: max(offset, 0)]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or "symbol"
        if kind != "space":
            yield _Token(kind, found.group(kind), found.start(), found.end())


def _verb(tokens: list[_Token]) -> str:
    """Returns the first word of a statement, after opening parentheses; raises `QueryError` if it is not allowed."""
    first = next((token for token in tokens if token.text != "("), tokens[0])
    verb = first.text.lower() if first.kind == "word" else ""
    if verb not in (_VERBS if first is tokens[0] else _QUERY):
        hint = nearest(first.text.lower(), _VERBS)
        raise QueryError(
            f"a statement cannot start with {first.text!r};{hint} allowed: {_ALLOWED}; a store is only read"
        )
    return verb


def _check_symbols(text: str, tokens: list[_Token]) -> None:
    opened: list[_Token] = []
    for token in (token for token in tokens if token.kind == "symbol"):
        if token.text == ";":
            raise QueryError(
                f"{place(text, token.start)}: a second statement begins after the semicolon; allowed: {_ALLOWED}"
            )
        if token.text in "'\"`":
            told = f"the quote {token.text} is never closed; write {token.text} at the end of the text"
            raise QueryError(f"{place(text, token.start)}: {told}")
        if token.text == "(":
            opened.append(token)
        elif token.text == ")" and not opened:
            raise QueryError(f"{place(text, token.start)}: a parenthesis is closed that was never opened; take it out")
        elif token.text == ")":
            opened.pop()
    if opened:
        raise QueryError(f"{place(text, opened[-1].start)}: this parenthesis is never closed; add ')'")


def _explain(text: str, tokens: list[_Token]) -> Statement:
    rest = tokens[1:]
    mode = rest[0].text.upper() if rest and rest[0].text.lower() in _EXPLAIN_MODES else ""
    rest = rest[1:] if mode else rest
    first = next((token.text.lower() for token in rest if token.text != "("), "")
    if first not in _QUERY:
        found = first or "nothing"
        raise QueryError(f"EXPLAIN takes a query, found {found!r}; allowed: EXPLAIN before SELECT, WITH or VALUES")
    return Statement("explain", text[rest[0].start : rest[-1].end], mode)


def _show(tokens: list[_Token]) -> Statement:
    words = [token.text.lower() for token in tokens[1:]]
    if words in (["tables"], ["views"]):
        return Statement("tables", "")
    if len(words) == 3 and words[0] == "columns" and words[1] in ("in", "from"):
        return Statement("describe", tokens[3].text)
    raise QueryError(
        f"SHOW {' '.join(words)} is not answered; allowed: SHOW TABLES, SHOW VIEWS, SHOW COLUMNS IN delivery"
    )


def _describe(tokens: list[_Token]) -> Statement:
    names = [token for token in tokens[1:] if token.text.lower() not in ("table", "extended")]
    if len(names) != 1 or names[0].kind not in ("word", "quoted"):
        raise QueryError("DESCRIBE takes the name of one table or view, e.g. DESCRIBE delivery")
    return Statement("describe", names[0].text)
