"""The views of a store: questions that are asked of every run, one SQL file each.

Those of every store are in ``pipelines/sql``, those that know one protocol beside it (`ProtocolSpec.views`).

A file starts with comment lines, the first of them the question that it answers, and goes on with one SELECT. Views
read tables and one another by their bare names; `pipelines.sql.query` makes the names known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files

from pipelines.errors import QueryError, nearest
from pipelines.protocols import PROTOCOLS
from pipelines.sql.statement import identifiers

_SUFFIX = ".sql"


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


def view_question(name: str) -> str:
    """Returns the question that a view answers; errors as in `view_sql`."""
    return view_sql(name).partition("\n")[0].removeprefix("--").strip()


def relations_read(text: str) -> list[str]:
    """Returns the names in a SQL text, with those in the views that it reads; views last, each after what it reads."""
    views = _sources()
    found = set(identifiers(text))
    for name in reversed(list(views)):
        if name in found:
            found |= identifiers(views[name])
    return sorted(found - views.keys()) + [name for name in views if name in found]


@cache
def _sources() -> Mapping[str, str]:
    folders = [files("pipelines") / "sql", *(files(spec.views) for spec in PROTOCOLS.values() if spec.views)]
    texts = {
        entry.name.removesuffix(_SUFFIX): entry.read_text("utf-8")
        for folder in reversed(folders)  # no protocol's view hides one of all stores
        for entry in folder.iterdir()
        if entry.name.endswith(_SUFFIX)
    }
    reads = {name: (identifiers(text) & texts.keys()) - {name} for name, text in sorted(texts.items())}
    return {name: texts[name] for name in TopologicalSorter(reads).static_order()}
