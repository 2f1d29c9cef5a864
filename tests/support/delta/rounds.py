"""Rounds of `delta` for tests of single steps, without the round engine: the due events, and the computed relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame

from pipelines.contract.round import FaultsDue, RunSet
from pipelines.engines.session import Session
from pipelines.protocols.delta import DeltaSettings
from pipelines.protocols.delta.tables import CALL, INBOX, STATES
from pipelines.protocols.delta.work import Work
from support.frames import found, frame, way

FACTS = {state.table.name: dict.fromkeys(state.facts, 0) for state in STATES}
RELATION = {fact: name for name, facts in FACTS.items() for fact in facts}


class Keep:
    """Stands for the round engine's `keep`, but caches nothing: a frame is computed where it is read."""

    def __call__(self, name: str, rows: DataFrame) -> DataFrame:
        return rows

    def is_empty(self, rows: DataFrame) -> bool:
        return False


class Computed:
    """Stands for the round engine's `keep`: computes each frame at once, and records which frames have no rows."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[int, tuple[DataFrame, bool]] = {}

    def __call__(self, name: str, rows: DataFrame) -> DataFrame:
        table = rows.toArrow()
        kept = self._session.spark.createDataFrame(*((table,) if table.num_rows else ([], rows.schema)))
        self._kept[id(kept)] = (kept, table.num_rows == 0)
        return kept

    def is_empty(self, rows: DataFrame) -> bool:
        return self._kept.get(id(rows), (rows, False))[1]


def due(kinds: str = "", crashes: Mapping[str, Any] | None = None, **facts: int) -> Any:
    """Returns a round in which messages of ``kinds`` are due and ``facts`` hold; no other event is due."""
    told = {name: dict(of) for name, of in FACTS.items()}
    for fact, value in facts.items():
        told[RELATION[fact]][fact] = value
    nobody = dict.fromkeys(("crashed", "recovered", "down"))
    faults = FaultsDue(
        **{**nobody, **dict(crashes or {})},  # type: ignore[arg-type]
        crashing=RunSet(is_all=True), disturbed=RunSet(is_all=True),
    )  # fmt: skip
    return SimpleNamespace(
        number=20, inbox=None, calls=None, kinds=frozenset(kinds.split()), facts=told, state={},
        run=SimpleNamespace(), settings=[DeltaSettings(name="delta", delta=1)], faults=faults, keep=Keep(),
    )  # fmt: skip


def with_faults(of: Any, **others: Any) -> Any:
    """Replaces fields of the faults of a round, and returns the round."""
    of.faults = replace(of.faults, **others)
    return of


def work(of: Any = None, **state: DataFrame) -> Work:
    """Returns the work of a round before its first step, with the relations ``state``."""
    of = of or due()
    of.state = state
    return Work(of, None, 2)  # type: ignore[arg-type]


WAYS = {
    0: [(0,), (0, 1), (0, 1, 2), (0, 1, 4), (0, 1, 2, 3)], 1: [(1,), (1, 0), (1, 2), (1, 4), (1, 2, 3), (1, 2, 3, 5)],
    2: [(2,), (2, 1), (2, 3), (2, 1, 0), (2, 1, 4), (2, 3, 5)],
}  # fmt: skip
"""The views of nodes 0, 1 and 2 for δ = 2, as paths, in the tree 0 - 1 - 2 - 3 - 5 with the additional link 1 - 4."""
LINKS = ((0, 1), (1, 2), (1, 4), (2, 3), (3, 5), (1, 7), (2, 8))
"""The links of the tree of `WAYS`; nodes 7 and 8 join during a run."""


def network(
    session: Session, of: Any, *nodes: int, inbox: Sequence[Mapping[str, Any]] = (),
    calls: Sequence[Mapping[str, Any]] = (), **rows: Sequence[Mapping[str, Any]],
) -> Work:  # fmt: skip
    """Returns the work of a round in the network of `WAYS`.

    Args:
        session: The session.
        of: The round, a result of `due`.
        nodes: The nodes whose views are in the relations.
        inbox: The due messages; they were sent in round 18.
        calls: The due calls.
        rows: Rows of other relations than the views; relations that are not named are empty.
    """
    ways = [path for node in nodes for path in WAYS[node]]
    ends = {(path[0], *sorted(path[-2:])) for path in ways if len(path) > 1}
    views = {
        "path": [way(*path) for path in ways],
        "topology": [{"node_id": node, "a": a, "b": b, "is_marked": False} for node, a, b in sorted(ends)],
    }
    hops = [{"src": a, "dst": b, "latency_rounds": 3} for one in LINKS for a, b in (one, one[::-1])]
    setting = {"delta": 2, "detector": "identifier", "detection_rounds": 5, "par_rows": 10}
    of.run.link = frame(session, "src dst latency_rounds", *hops)
    of.run.setting = frame(session, "delta detector detection_rounds par_rows", setting)
    of.run.subscription = frame(session, "subscription_id subscriber", {"subscription_id": 7, "subscriber": 4})
    of.keep = Computed(session)
    of.state = {
        state.table.name: frame(
            session, state.table.columns, *views.get(state.table.name, ()), *rows.get(state.table.name, ())
        )
        for state in STATES
    }
    if calls:
        called = frame(session, [*CALL.columns, "round", "join_point"], *({"round": 20, **call} for call in calls))
        of.calls = called
    came = {"sent_round": 18, "due_round": 20}
    here = frame(session, INBOX, *({**came, "message_id": 50 + k, **row} for k, row in enumerate(inbox)))
    return Work(of, here, 3)


def sent(one: Work, columns: str) -> list[tuple[Any, ...]]:
    """Returns ``columns`` of all messages that a round has sent so far, sorted."""
    rows = [row for part in one.outbox for row in found(part, columns)]
    return sorted(rows, key=repr)


def both(frames: Sequence[DataFrame], columns: str) -> list[tuple[Any, ...]]:
    """Returns ``columns`` of the rows of all frames, sorted."""
    return sorted((row for one in frames for row in found(one, columns)), key=repr)
