"""Tests that plant violations in copies of runs: one store contains the copies of all tests, and is audited once.

An audit of a small store takes 1 to 3 CPU seconds, whatever the number of its runs. So a test is a generator: it yields
what it plants, and receives the audits of copies of the runs.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.audits.run import AuditReport, Beyond, RunVerdict, Undecided, Verdict, store_verdict
from pipelines.engines.frames import frame_of
from pipelines.sql.small_store import reader_of
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT
from pipelines.testing import Change, audited


class Plant:
    """All runs of a store, and changes of its tables by name."""

    def __init__(self, store: Store, **changes: Change | Sequence[Change]) -> None:
        self.store = store
        self.changes = {name: [of] if callable(of) else of for name, of in changes.items()}

    def rows(self, table: str, known: pa.Table) -> pa.Table:
        """Returns the rows ``known`` of a table after its changes."""
        if table not in self.changes:
            return known
        frame = frame_of(self.store.session.spark, known)
        changed = reduce(lambda rows, change: change(rows), self.changes[table], frame)
        return changed.toArrow().select(known.column_names).cast(known.schema)


@dataclass(frozen=True)
class Copy:
    """The audit of a copy of a store's runs. Run ids are those of the store, not those of the copy.

    Attributes:
        runs: Verdicts by run.
        beyond: Runs that exceed the fault bound.
        undecided: Runs that ended too early.
        violations: Rows of table ``violation``.
        names: Names of nodes by run and node id.
    """

    runs: list[RunVerdict]
    beyond: list[Beyond]
    undecided: list[Undecided]
    violations: list[dict[str, Any]]
    names: Mapping[tuple[int, int], str]

    @property
    def verdict(self) -> Verdict:
        return store_verdict([run.verdict for run in self.runs])

    @property
    def broken(self) -> set[str]:
        """The guarantees with a violation that is not excused."""
        return {row["guarantee"] for row in self.violations if not row["excused"]}

    def found(self, guarantee: str) -> list[tuple[Any, ...]]:
        """Returns the sorted violations of a guarantee, with the columns of `pipelines.testing.found`."""
        told = [
            (row["run_id"], self.names[row["run_id"], row["node_id"]], self.names.get((row["run_id"], row["source"])),
             row["source_seq"], row["detail"])
            for row in self.violations if row["guarantee"] == guarantee
        ]  # fmt: skip
        return sorted(told, key=lambda row: [(value is not None, value) for value in row])

    def told(self, guarantee: str) -> list[tuple[str, str]]:
        """Returns node and detail of the violations of a guarantee."""
        return [(node, detail) for _, node, _, _, detail in self.found(guarantee)]


Planting = Generator[Sequence[Plant], Sequence[Copy], None]
"""A test: yields what it plants once, and receives the audited copies in this order."""


def audited_copies(plants: Sequence[Plant], root: Path) -> list[Copy]:
    """Writes the runs of ``plants``, which have one protocol, into a new store with folder ``root``, and audits it."""
    model = plants[0].store
    shutil.copytree(str(model.root), root)
    store = Store(root, model.session)
    stores = {id(plant.store): plant.store for plant in plants}
    readers = {one: reader_of(of.session, of.root) for one, of in stores.items()}
    names = {
        one: {(row.run_id, row.node_id): row.name for row in reader.table("node").collect()}
        for one, reader in readers.items()
    }
    n_runs = {one: reader.table("run").count() for one, reader in readers.items()}
    spans = list(pairwise(accumulate((n_runs[id(plant.store)] for plant in plants), initial=0)))
    tables = set(store.tables()) - {ROUND_COMMIT.name}
    for table in tables:
        known = {one: reader.table(table).toArrow() for one, reader in readers.items()}
        if not any(map(len, known.values())) and not any(table in plant.changes for plant in plants):
            continue
        parts = []
        for plant, (first, _) in zip(plants, spans, strict=True):
            rows = plant.rows(table, known[id(plant.store)])
            place = rows.schema.get_field_index("run_id")
            parts.append(rows.set_column(place, "run_id", pc.add(rows["run_id"], first)))
        store.load(table, pa.concat_tables(parts), "overwrite")
    ledger = model.read(ROUND_COMMIT.name).toArrow()
    commit = max(ledger.to_pylist(), key=lambda row: (row["last_round"], row["is_final"]))
    commit |= {"first_run": 0, "last_run": spans[-1][1] - 1, "n_later_runs": 0, "is_final": True}
    commit["versions"] = json.dumps({name: store.version(name) for name in tables})
    store.load(ROUND_COMMIT.name, pa.Table.from_pylist([commit], ledger.schema), "overwrite")
    report = audited(store, _protocol(model))
    if errors := [found.error for found in report.findings if found.error]:
        raise AssertionError(errors)
    violations = report.violation.toArrow().to_pylist()
    return [_copy(report, violations, *span, names[id(plant.store)]) for plant, span in zip(plants, spans, strict=True)]


def _protocol(store: Store) -> str:
    [(protocol,)] = {tuple(row) for row in store.read("run").select("protocol").collect()}
    return str(protocol)


def _copy(
    report: AuditReport, violations: list[dict[str, Any]], first: int, end: int, names: Mapping[tuple[int, int], str]
) -> Copy:
    def own(rows: Sequence[Any]) -> list[Any]:
        return [row._replace(run_id=row.run_id - first) for row in rows if first <= row.run_id < end]

    rows = [{**row, "run_id": row["run_id"] - first} for row in violations if first <= row["run_id"] < end]
    return Copy(own(report.runs), own(report.beyond), own(report.undecided), rows, names)


def planting(test: Callable[..., Planting]) -> Callable[..., None]:
    """Decorates a generator function that is a test. Its fixtures have the scope of its module or session."""

    def run(request: pytest.FixtureRequest, plantings: Plantings, **_: Any) -> None:
        plantings.resume(request.node)

    known = inspect.signature(test)
    own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("request", "plantings")]
    run.__signature__ = known.replace(parameters=[*known.parameters.values(), *own])  # type: ignore[attr-defined]
    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.planting = test  # type: ignore[attr-defined]
    return run


class Plantings:
    """The tests of a module that plant violations: starts all of them, audits their copies, and resumes each one."""

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        """Starts the selected tests of the module, and audits the copies of the runs of each protocol."""
        self._started: dict[str, tuple[Planting, list[Plant]]] = {}
        self._copies: dict[int, Copy] = {}
        by_protocol: dict[str, list[Plant]] = {}
        for item in request.session.items:
            if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item.obj, "planting"):
                known = item.callspec.params if hasattr(item, "callspec") else {}
                names = inspect.signature(item.obj.planting).parameters
                given = {name: known[name] if name in known else request.getfixturevalue(name) for name in names}
                started = item.obj.planting(**given)
                plants = [*next(started)]
                self._started[item.nodeid] = started, plants
                for plant in plants:
                    by_protocol.setdefault(_protocol(plant.store), []).append(plant)
        for protocol, plants in by_protocol.items():
            copies = audited_copies(plants, root / protocol)
            self._copies |= {id(plant): copy for plant, copy in zip(plants, copies, strict=True)}

    def resume(self, item: pytest.Item) -> None:
        """Sends its copies to a test, which ends."""
        started, plants = self._started[item.nodeid]
        with pytest.raises(StopIteration):
            started.send([self._copies[id(plant)] for plant in plants])
