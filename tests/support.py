"""Runs scenarios given as dictionaries, many of them as runs of one job, and gives their tables as plain rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.audits.run import AuditReport, audit_store
from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.protocols import protocol_module
from pipelines.rounds.execute import Experiment, execute
from pipelines.scenario.expand import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store

SHARED = Path(__file__).parents[2] / "shared" / "data"
_NUMBER = itertools.count()


def shared_data(*parts: str) -> Path:
    """Gives the place of real data that lie beside the project; skips the test where they are absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the real data {'/'.join(parts)} are not beside the project")
    return path


def scenario(**parts: Any) -> dict[str, Any]:
    """Gives a scenario with a long horizon and the given parts."""
    return {"name": "test", "time": {"rounds": 5000}, **parts}


def run_configs(scenarios: Sequence[Mapping[str, Any]], seeds: Sequence[int] | None = None) -> list[RunConfig]:
    """Gives one run a scenario; its seed is its place, unless seeds are given."""
    chosen = seeds if seeds is not None else range(len(scenarios))
    return [
        RunConfig(run_id=place, seed=seed, scenario=Scenario.model_validate(parts), parameters={})
        for place, (parts, seed) in enumerate(zip(scenarios, chosen, strict=True))
    ]


def run_all(runs: Sequence[RunConfig], session: Session, root: Path, commit_every: int = 50) -> Store:
    """Runs all of them as one job; gives the store."""
    session.activate()
    folder = root / f"store{next(_NUMBER)}"
    folder.mkdir(parents=True)
    store = Store(folder, session)
    execute(Experiment(runs, build_inputs(runs, None), commit_every), session, store, lambda progress: None)
    return store


def audited(store: Store, protocol: str = "delta") -> AuditReport:
    """Gives what the audits of a protocol say of a store."""
    return audit_store(StoreReader(store.session, store.root), store.session, protocol_module(protocol))


def broken(report: AuditReport) -> dict[str, object]:
    """Gives the guarantees that are broken or could not be judged, with what shows it."""
    return {found.name: found.error or found.shown for found in report.findings if found.error or found.n_violations}


def rows(store: Store, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Gives the rows of a table, sorted; all columns unless some are named."""
    frame = store.read(table)
    found = (frame.select(*columns) if columns else frame).toArrow().to_pylist()
    return sorted((tuple(_plain(value) for value in row.values()) for row in found), key=repr)


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
