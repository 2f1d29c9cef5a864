"""Nodes of plans, and how their source becomes functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, Final, cast

from pipelines.engines.rows.expressions import Scope
from pipelines.engines.rows.kinds import Kind, Row
from pipelines.engines.rows.operators import Found, Index, Rows


@dataclass(frozen=True)
class Node:
    """A part of a plan.

    Attributes:
        names: Its columns.
        kinds: Their kinds.
        make: Makes its rows of those that the plan reads.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    make: Callable[[Sequence[Rows]], Rows]


def made(source: str, scope: Scope, arguments: str = "rows") -> Callable[..., list[Row]]:
    """Returns a function of source that a scope has made."""
    space: dict[str, Any] = dict(scope.helpers)
    exec(_code(source, arguments), space)  # noqa: S102 - made by `expressions`: what users write is in literals only
    run: Callable[..., list[Row]] = space["run"]
    return run


@lru_cache(maxsize=10_000)
def _code(source: str, arguments: str) -> CodeType:
    """Returns compiled source: parts of plans come again in others."""
    return compile(f"def run({arguments}):\n return {source}", "<plan>", "exec")


_GROUPS: Final = """
def run(rows):
    known = {{}}
    for r in rows:
        k = {key}
        if k in known:
            known[k].append(r)
        else:
            known[k] = [r]
    return known
"""


@lru_cache(maxsize=1000)
def _groups_code(key: str) -> CodeType:
    return compile(_GROUPS.format(key=key), "<plan>", "exec")


def groups(key: str, scope: Scope) -> Callable[[list[Row]], dict[Row, list[Row]]]:
    """Returns what puts rows together by a key, nulls in it like other values.

    Args:
        key: Its source.
        scope: What has made that.
    """
    space: dict[str, Any] = dict(scope.helpers)
    exec(_groups_code(key), space)  # noqa: S102 - as in `made`
    run: Callable[[list[Row]], dict[Row, list[Row]]] = space["run"]
    return run


@lru_cache(maxsize=1000)
def index_of(places: tuple[int, ...]) -> Index:
    """Returns how rows are found by the values of some columns."""
    key, none = places_text("r", places), Scope((), ())
    together = groups(key, none)
    several: Any = made(f"{{{key} for r in rows}}", none)
    wanted_ones = made(f"[r for r in rows if {key} in wanted]", none, "rows, wanted")

    def found(rows: list[Row]) -> Found:
        known = together(rows)
        for with_null in [one for one in known if None in one]:
            del known[with_null]
        return known

    def keys(rows: list[Row]) -> set[Row]:
        return {one for one in several(rows) if None not in one}

    return Index(places, found, keys, lambda rows, wanted: found(wanted_ones(rows, wanted)))


def places_text(name: str, places: Sequence[int]) -> str:
    """Returns the source of a tuple of some columns of a row."""
    return f"({''.join(f'{name}[{place}], ' for place in places)})"


@lru_cache(maxsize=1000)
def picker(places: tuple[int, ...]) -> Callable[[Row], Row]:
    """Returns what picks some columns of a row."""
    pick: Any = made(places_text("r", places), Scope((), ()), "r")
    return cast(Callable[[Row], Row], pick)


def picked(node: Node, places: Sequence[int]) -> Node:
    """Returns some columns of a node, in an order."""
    pick = made(f"[{places_text('r', places)} for r in rows]", Scope((), ()))
    names, kinds = (tuple(of[place] for place in places) for of in (node.names, node.kinds))
    return Node(names, kinds, lambda given: Rows(pick(node.make(given).rows)))
