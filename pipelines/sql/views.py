"""The views of a store: questions that are asked of every run, one SQL file each.

Those of every store are in ``pipelines/sql``, those that know one protocol beside it (`Protocol.views`).

A file starts with comment lines, and goes on with one SELECT. The first line is the question that it answers; then
comes what a row is, and what else there is to know; then what its columns mean:

- ``-- :column meaning``, in words; lines without such a colon continue the meaning;
- ``-- :* relation``: columns that have no line of their own mean what they mean in this relation, which the view reads.

Names that several views share (`pipelines.sql.columns.COMMON`) need no line. Views read tables and one another by their
bare names; `pipelines.sql.query` makes the names known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from itertools import takewhile

from pipelines.contract.state_tables import STATE
from pipelines.errors import QueryError, nearest
from pipelines.protocols import PROTOCOLS
from pipelines.sql.statement import identifiers

_SUFFIX = ".sql"
_COMMENT = "--"
_COLUMN = ":"
_OTHERS = "*"


@dataclass(frozen=True)
class ViewHead:
    """What a view says of itself.

    Attributes:
        question: The question that it answers.
        prose: What a row is, and what else there is to know; a line each, those of lists begin with ``*``.
        columns: What its columns mean, by name.
        like: Relations whose columns mean the same there, the first one first.
    """

    question: str
    prose: Sequence[str]
    columns: Mapping[str, str]
    like: Sequence[str]


def view_names() -> list[str]:
    """Returns the names of all views; a view comes after those that it reads."""
    return list(_sources())


def view_sql(name: str) -> str:
    """Returns the text of a view.

    Raises:
        QueryError: There is no such view.
    """
    views = _sources()
    if name not in views:
        raise QueryError(f"there is no view {name!r};{nearest(name, views)} there are: {', '.join(sorted(views))}")
    return views[name]


@cache
def view_head(name: str) -> ViewHead:
    """Returns what a view says of itself.

    Raises:
        QueryError: There is no such view, or it has the meaning of columns from a relation that it does not read.
    """
    text = view_sql(name)
    commented = takewhile(lambda line: line.startswith(_COMMENT), text.splitlines())
    first, *lines = [line.removeprefix(_COMMENT).strip() for line in commented] or [""]
    prose = [*takewhile(lambda line: not line.startswith(_COLUMN), lines)]
    meanings = list[str]()
    for line in lines[len(prose) :]:
        if line.startswith(_COLUMN):
            meanings.append(line.removeprefix(_COLUMN))
        else:
            meanings[-1] += f" {line}"
    told = [meaning.split(maxsplit=1) for meaning in meanings]
    like = [rest for column, *others in told if column == _OTHERS for rest in others]
    if unread := [relation for relation in like if relation not in identifiers(text)]:
        raise QueryError(
            f"view {name!r} has the meaning of columns from {unread[0]!r}, which it does not read; allowed after "
            f"'{_COMMENT} {_COLUMN}{_OTHERS}': a table or a view that it reads"
        )
    columns = {column: rest for column, *others in told if column != _OTHERS for rest in others}
    return ViewHead(first, prose, columns, like)


def view_owner(name: str) -> str | None:
    """Returns the protocol that a view knows; None: it is one of every store."""
    return _owners().get(name)


def relations_read(text: str) -> list[str]:
    """Returns the names in a SQL text, with those in the views that it reads; views last, each after what it reads."""
    views = _sources()
    found = set(identifiers(text))
    for name in reversed(list(views)):
        if name in found:
            found |= identifiers(views[name])
    return sorted(found - views.keys()) + [name for name in views if name in found]


@cache
def states_read(view: str) -> frozenset[str]:
    """Returns the names of the state tables that a view reads, those in the views that it reads too."""
    return frozenset(name for name in relations_read(view) if name.startswith(STATE))


@cache
def _owners() -> Mapping[str, str]:
    names = {spec.name: _files(spec.views) for spec in reversed(PROTOCOLS.values()) if spec.views}
    general = _files("pipelines.sql")
    return {view: owner for owner, views in names.items() for view in views if view not in general}


def _files(package: str) -> Mapping[str, str]:
    """Returns the texts of the SQL files of a package, by name without the suffix."""
    entries = (entry for entry in files(package).iterdir() if entry.name.endswith(_SUFFIX))
    return {entry.name.removesuffix(_SUFFIX): entry.read_text("utf-8") for entry in entries}


@cache
def _sources() -> Mapping[str, str]:
    packages = ["pipelines.sql", *(spec.views for spec in PROTOCOLS.values() if spec.views)]
    texts: dict[str, str] = {}
    for package in reversed(packages):  # no protocol's view hides one of all stores
        texts |= _files(package)
    reads = {name: (identifiers(text) & texts.keys()) - {name} for name, text in sorted(texts.items())}
    return {name: texts[name] for name in TopologicalSorter(reads).static_order()}
