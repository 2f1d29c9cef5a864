"""SQL files of the product that every session parses, for all settings for quotes and keywords."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2] / "pipelines"
TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"[^\"]*\"|`[^`]*`|\w+|[^\s\w]", re.DOTALL)
CLAUSES = frozenset([
    "all", "and", "any", "as", "between", "by", "case", "cast", "cross", "distinct", "else", "end", "except",
    "exists", "false", "filter", "from", "full", "group", "having", "in", "inner", "intersect", "is", "join",
    "lateral", "left", "like", "natural", "not", "null", "offset", "on", "or", "order", "outer", "over",
    "overlaps", "partition", "right", "select", "then", "true", "union", "using", "when", "where", "with",
    "within",
])  # fmt: skip
"""Reserved words that are also clauses of queries."""
NAMES = frozenset([
    "authorization", "both", "call", "check", "collate", "collation", "column", "constraint", "create",
    "escape", "execute", "fetch", "for", "foreign", "grant", "into", "leading", "limit", "only",
    "percentile_cont", "primary", "recursive", "references", "session_user", "some", "sql", "table", "time",
    "to", "trailing", "unique", "unknown", "user",
])  # fmt: skip
"""Reserved words that the SQL files of the product need for no clause."""


def unportable(text: str) -> list[str]:
    """Returns the strings in double quotes, and the reserved words that are names, of a SQL string."""
    tokens = [token for token in TOKEN.findall(text) if not token.startswith(("--", "/*"))]
    quoted = [token for token in tokens if token.startswith('"')]
    names = [token for token in tokens if token.lower() in NAMES]
    aliases = [
        token for before, token in pairwise(tokens) if before.lower() in ("as", ".") and token.lower() in CLAUSES
    ]
    return quoted + names + aliases


def test_names_and_quotes_that_depend_on_settings_are_found() -> None:
    assert unportable("select \"a\" as `to`, 'to' as b, t.left from foreign t -- to") == ['"a"', "foreign", "left"]


def test_sql_files_depend_on_no_setting_of_the_parser() -> None:
    """With certain settings, a string in double quotes is an identifier, and a reserved word cannot be a name."""
    found = {path.name: unportable(path.read_text("utf-8")) for path in ROOT.rglob("*.sql")}
    assert {name: words for name, words in found.items() if words} == {}
