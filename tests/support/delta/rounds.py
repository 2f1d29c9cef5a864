"""Rounds of `delta` as its steps see them, without the round engine: what is due, and what has been made so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame

from pipelines.contract.due import Due, FaultsDue, RunSet
from pipelines.protocols.delta import DeltaSettings
from pipelines.protocols.delta.tables import STATES
from pipelines.protocols.delta.work import Work

FACTS = {state.table.name: dict.fromkeys(state.facts, 0) for state in STATES}
RELATION = {fact: name for name, facts in FACTS.items() for fact in facts}


class Keep:
    """Keeps nothing: frames are computed where they are read."""

    def __call__(self, name: str, rows: DataFrame) -> DataFrame:
        return rows

    def is_empty(self, rows: DataFrame) -> bool:
        return False


def due(kinds: str = "", crashes: Mapping[str, Any] | None = None, **facts: int) -> Any:
    """A round with these kinds due, and these facts; nothing else happens."""
    told = {name: dict(of) for name, of in FACTS.items()}
    for fact, value in facts.items():
        told[RELATION[fact]][fact] = value
    nobody = dict.fromkeys(("crashed", "recovered", "down", "paused"))
    faults = FaultsDue(
        **{**nobody, **dict(crashes or {})}, links=None, may_duplicate=False,  # type: ignore[arg-type]
        crashing=RunSet(is_all=True), disturbed=RunSet(is_all=True),
    )  # fmt: skip
    return SimpleNamespace(
        number=20, due=Due(None, None, frozenset(kinds.split())), facts=told, state={},  # type: ignore[arg-type]
        run=SimpleNamespace(), settings=[DeltaSettings(name="delta", delta=1)], faults=faults, keep=Keep(),
    )  # fmt: skip


def with_faults(of: Any, **others: Any) -> Any:
    """The round with other faults."""
    of.faults = replace(of.faults, **others)
    return of


def work(of: Any = None, **state: DataFrame) -> Work:
    """A round that has made nothing so far, with these relations."""
    of = of or due()
    of.state = state
    return Work(of, None, 2)  # type: ignore[arg-type]
