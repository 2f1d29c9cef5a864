"""Plays runs in both forms of a protocol, node program and dataflow steps, and compares the rows of the two forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.contract.round import STATE, ProtocolForm
from pipelines.engines.session import Session
from pipelines.protocols import protocol_form
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.tables import HISTORY
from pipelines.testing import audited, run_all

_UNCOMPARED = frozenset({"run", "round_commit"})
"""The tables that differ between forms: they contain the form, its versions and its commits."""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """Rows of a run that only one of the forms wrote.

    Attributes:
        run: The id of the run.
        table: The name of the table.
        dataflow: The rows that only the dataflow steps wrote.
        program: The rows that only the node program wrote.
    """

    run: int
    table: str
    dataflow: list[Row]
    program: list[Row]


def differences(
    name: str, runs: Sequence[RunConfig], session: Session, root: Path, commit_every: int = 50
) -> list[Difference]:
    """Plays runs in both forms, and returns the differences of each run and table.

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
    """Returns the differences between the rows of two stores, for each run and table.

    Args:
        name: The protocol of all runs.
        steps: The store that the dataflow steps wrote.
        program: The store that the node program wrote.
    """
    judged, judged_too = (_judged(store, name) for store in (steps, program))
    protocol = protocol_form(name, "dataflow")
    found = [*_differing("violation", judged, judged_too, ["run_id", "verdict"])]
    for table, columns in _tables(protocol).items():
        left, right = (stored_rows(store, protocol, table, columns) for store in (steps, program))
        found += _differing(table, left, right, columns)
    return found


def cut(run: RunConfig, horizon: int) -> RunConfig:
    """Returns ``run`` with a lower horizon, so that tests compare states and messages in flight of an active run."""
    parts = run.scenario.model_dump(by_alias=True, exclude_unset=True)
    parts["time"] = {**parts.get("time", {}), "rounds": horizon}
    for name, calls in parts.get("workload", {}).items():
        if isinstance(calls, list):
            parts["workload"][name] = _early(calls, horizon)
    parts["faults"] = _early(parts.get("faults", []), horizon)
    return replace(run, scenario=type(run.scenario).model_validate(parts))


def _early(parts: list[dict[str, Any]], horizon: int) -> list[dict[str, Any]]:
    """Returns the calls or faults with a round up to ``horizon``; a later ``until`` is removed."""
    early = [one for one in parts if one.get("round", 0) <= horizon]
    return [{name: value for name, value in one.items() if name != "until" or (value or 0) <= horizon} for one in early]


def numbered(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Returns ``runs`` with the ids 0, 1, 2, ..., so that they can be a job."""
    return [replace(run, run_id=place) for place, run in enumerate(runs)]


def _judged(store: Store, name: str) -> list[Row]:
    return [(run.run_id, run.verdict) for run in audited(store, name).runs]


def _tables(protocol: ProtocolForm) -> dict[str, list[str]]:
    """Returns the names of the tables to compare, each with the columns to compare."""
    history = {table.name: table.columns for table in HISTORY if table.name not in _UNCOMPARED}
    states = {f"{STATE}{one.table.name}": one.table.columns for one in protocol.states}
    return history | states


def stored_rows(store: Store, protocol: ProtocolForm, name: str, columns: Sequence[str]) -> list[Row]:
    """Returns the rows of a table. The rows of a state table are merged."""
    frame = store.read(name)
    state = next((one for one in protocol.states if f"{STATE}{one.table.name}" == name), None)
    if state is not None:
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
