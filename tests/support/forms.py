"""The two forms of a protocol, node program and dataflow steps: the same runs in both, and where their rows differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.contract.round import ProtocolForm
from pipelines.contract.state_tables import STATE
from pipelines.engines.session import Session
from pipelines.protocols import protocol_form
from pipelines.scenario.expand import RunConfig
from pipelines.store.store import Store
from pipelines.tables import HISTORY
from pipelines.testing import audited, run_all

_UNCOMPARED = frozenset({"run", "round_commit"})
"""What a form writes of itself: versions, and commits."""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """Rows of a run that only one of the forms has.

    Attributes:
        run: The run.
        table: The table.
        dataflow: Rows that only the dataflow form has.
        program: Rows that only the program has.
    """

    run: int
    table: str
    dataflow: list[Row]
    program: list[Row]


def differences(
    name: str, runs: Sequence[RunConfig], session: Session, root: Path, commit_every: int = 50
) -> list[Difference]:
    """Plays runs in both forms, and returns the tables with differing rows.

    Args:
        name: The protocol of all runs.
        runs: The runs.
        session: The engine.
        root: A folder for the stores.
        commit_every: Rounds between commits.
    """
    steps, program = (run_all(runs, session, root / form, commit_every, form=form) for form in ("dataflow", "program"))
    return store_differences(name, steps, program)


def store_differences(name: str, steps: Store, program: Store) -> list[Difference]:
    """Returns where the rows of two stores differ.

    Args:
        name: The protocol of all runs.
        steps: The store of the dataflow form.
        program: The store of the program.
    """
    judged, judged_too = (_judged(store, name) for store in (steps, program))
    protocol = protocol_form(name, "dataflow")
    found = [*_differing("violation", judged, judged_too, ["run_id", "verdict"])]
    for table, columns in _tables(protocol).items():
        left, right = (stored_rows(store, protocol, table, columns) for store in (steps, program))
        found += _differing(table, left, right, columns)
    return found


def cut(run: RunConfig, horizon: int) -> RunConfig:
    """Returns a run that ends early, so that state and messages in flight are compared midway."""
    parts = run.scenario.model_dump(by_alias=True, exclude_unset=True)
    parts["time"] = {**parts.get("time", {}), "rounds": horizon}
    for name, calls in parts.get("workload", {}).items():
        if isinstance(calls, list):
            parts["workload"][name] = _early(calls, horizon)
    parts["faults"] = _early(parts.get("faults", []), horizon)
    return replace(run, scenario=type(run.scenario).model_validate(parts))


def _early(parts: list[dict[str, Any]], horizon: int) -> list[dict[str, Any]]:
    """Returns the rows that begin up to a round, without an end that comes later."""
    early = [one for one in parts if one.get("round", 0) <= horizon]
    return [{name: value for name, value in one.items() if name != "until" or (value or 0) <= horizon} for one in early]


def numbered(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Returns runs with the ids of a job of their own."""
    return [replace(run, run_id=place) for place, run in enumerate(runs)]


def _judged(store: Store, name: str) -> list[Row]:
    return [(run.run_id, run.verdict) for run in audited(store, name).runs]


def _tables(protocol: ProtocolForm) -> dict[str, list[str]]:
    """Returns the tables to compare, with the columns that are."""
    history = {table.name: table.columns for table in HISTORY if table.name not in _UNCOMPARED}
    states = {f"{STATE}{one.table.name}": one.table.columns for one in protocol.states}
    return history | states


def stored_rows(store: Store, protocol: ProtocolForm, name: str, columns: Sequence[str]) -> list[Row]:
    """Returns the rows of a table; of one that grows by increments those that they stand for."""
    frame = store.read(name)
    state = next((one for one in protocol.states if f"{STATE}{one.table.name}" == name), None)
    if state is not None and state.compact is not None:
        frame = state.compact(frame)
    rows: pa.Table = frame.select(*columns).toArrow()
    return [tuple(_plain(value) for value in row.values()) for row in rows.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((key, _plain(one)) for key, one in value.items()))
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _differing(table: str, left: list[Row], right: list[Row], columns: Sequence[str]) -> list[Difference]:
    run = list(columns).index("run_id")
    ours, theirs = Counter(left), Counter(right)
    only = sorted((ours - theirs).elements(), key=repr), sorted((theirs - ours).elements(), key=repr)
    runs = sorted({row[run] for rows in only for row in rows})
    return [Difference(one, table, *([row for row in rows if row[run] == one] for rows in only)) for one in runs]
