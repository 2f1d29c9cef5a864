"""Plays the runs of several test modules in one job. The rounds determine the duration of a job, not the runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.contract.round import stored_tables
from pipelines.engines.session import Session
from pipelines.protocols import protocol_form
from pipelines.scenario.load import RunConfig
from pipelines.store.ledger import Ledger
from pipelines.store.store import Store
from pipelines.tables import HISTORY, ROUND_COMMIT
from pipelines.testing import run_all

HORIZON = 5000
"""The horizon of all runs; runs of one horizon are played concurrently."""
Runs = Mapping[str, Sequence[RunConfig]]
Stores = Callable[[str], Store]


@dataclass(frozen=True)
class OneJob:
    """A job with the runs of several modules.

    Attributes:
        store: The store of the job.
        places: Maps module and name to the first run id and the number of runs.
    """

    store: Store
    places: Mapping[tuple[str, str], tuple[int, int]]

    @classmethod
    def of(cls, modules: Sequence[ModuleType], session: Session, root: Path) -> OneJob:
        """Plays the runs that the functions ``delta_runs`` of ``modules`` return, by name, in one job."""
        runs: list[RunConfig] = []
        places = {}
        for module in modules:
            for name, own in module.delta_runs().items():
                places[module.__name__, name] = len(runs), len(own)
                runs += [_numbered(run, len(runs) + place) for place, run in enumerate(own)]
        return cls(run_all(runs, session, root), places)

    def stores(self, module: ModuleType, root: Path) -> Stores:
        """Returns a function from a name to a store that contains only the runs of this name in a module."""
        return lambda name: part(self.store, *self.places[module.__name__, name], root / name)


def _numbered(run: RunConfig, run_id: int) -> RunConfig:
    time = run.scenario.time.model_copy(update={"rounds": HORIZON})
    return replace(run, run_id=run_id, scenario=run.scenario.model_copy(update={"time": time}))


def part(whole: Store, first: int, count: int, root: Path) -> Store:
    """Returns a new store with ``count`` runs of store ``whole``, from run ``first``.

    In the new store, the runs are numbered from 0 and have one commit.
    """
    store = Store(root, whole.session)
    root.mkdir(parents=True)
    last = Ledger.read(whole).last
    (protocol,) = {row.protocol for row in whole.read("run").select("protocol").distinct().collect()}
    store.create(HISTORY)
    store.create(stored_tables({protocol: protocol_form(protocol)}), is_state=True)
    for name, version in last.versions.items():
        store.load(name, _rows(whole, name, version, first, count))
    commit = {
        "first_run": 0, "last_run": count - 1, "n_later_runs": 0, "first_round": 0, "last_round": last.last_round,
        "is_final": last.is_final, "versions": json.dumps(store.written_versions()),
    }  # fmt: skip
    store.load(ROUND_COMMIT.name, pa.Table.from_pylist([commit]))
    return store


def _rows(whole: Store, name: str, version: int, first: int, count: int) -> pa.Table:
    """Returns the rows of ``count`` runs in a version of a table; run ids are reduced by ``first``."""
    own = [("run_id", ">=", first), ("run_id", "<", first + count)]
    rows = DeltaTable(whole.path(name), version).to_pyarrow_table(filters=own)
    place = rows.column_names.index("run_id")
    return rows.set_column(place, "run_id", pc.subtract(rows["run_id"], first))
