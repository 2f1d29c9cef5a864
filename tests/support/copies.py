"""Tests that plant violations in copies of runs: one store contains the copies of all tests, and is audited once.

An audit of a small store takes 1 to 3 CPU seconds, whatever the number of its runs. So a test is a generator: it yields
what it plants, and receives the audits of copies of the runs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, chain, groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.audits.run import AuditReport, RunReason, RunVerdict, Verdict, store_verdict
from pipelines.contract.round import STATE, stored_tables
from pipelines.engines.frames import frame_of
from pipelines.protocols import protocol_form
from pipelines.store.ledger import Commit, Ledger
from pipelines.store.store import Store
from pipelines.tables import HISTORY, ROUND_COMMIT
from pipelines.testing import Change, audited
from support.stored import stored_rows


def shifted(rows: pa.Table, by: int) -> pa.Table:
    """Returns rows of a table whose run ids are increased."""
    return rows.set_column(rows.column_names.index("run_id"), "run_id", pc.add(rows["run_id"], by))


class Plant:
    """The runs of a store, or a single run, which gets run id 0, and changes of tables by name."""

    def __init__(self, store: Store, only: int | None = None, /, **changes: Change | Sequence[Change]) -> None:
        self.store = store
        self.only = only
        self.changes = {name: [of] if callable(of) else of for name, of in changes.items()}

    def rows(self, table: str, known: pa.Table) -> pa.Table:
        """Returns the rows of a table after its changes; ``known`` are the rows of all runs of the store."""
        if self.only is not None:
            known = shifted(known.filter(pc.equal(known["run_id"], self.only)), -self.only)
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
    beyond: list[RunReason]
    undecided: list[RunReason]
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
    root.mkdir(parents=True)
    store, protocol = Store(root, plants[0].store.session), _protocol(plants[0].store)
    store.create(HISTORY)
    store.create(stored_tables({protocol: protocol_form(protocol)}), is_state=True)
    stores = {id(plant.store): plant.store for plant in plants}
    commits = {one: Ledger.read(of).state_commits(None) for one, of in stores.items()}
    all_ends = {
        one: [commit.last_round for commit in of for _ in range(commit.first_run, commit.last_run + 1)]
        for one, of in commits.items()
    }
    ends = [all_ends[id(one.store)] if one.only is None else [all_ends[id(one.store)][one.only]] for one in plants]
    firsts = list(accumulate(map(len, ends), initial=0))
    for table in set(store.tables()) - {ROUND_COMMIT.name}:
        known = {one: _rows(of, commits[one], table) for one, of in stores.items()}
        parts = [
            shifted(one.rows(table, known[id(one.store)]), first) for one, first in zip(plants, firsts, strict=False)
        ]
        store.load(table, pa.concat_tables(parts))
    store.load(ROUND_COMMIT.name, pa.Table.from_pylist(_ledger([*chain(*ends)], store.written_versions())))
    report = audited(store, protocol)
    if errors := [found.error for found in report.findings if found.error]:
        raise AssertionError(errors)
    names = {(row.run_id, row.node_id): row.name for row in store.read("node").collect()}
    violations = report.violation.to_pylist()
    return [_copy(report, violations, names, *span) for span in pairwise(firsts)]


def _rows(store: Store, commits: Sequence[Commit], table: str) -> pa.Table:
    """Returns the rows of a table at the end of all runs; each batch of runs has its version of a state table."""
    if not table.startswith(STATE):
        return stored_rows(store, table)
    return pa.concat_tables(
        stored_rows(store, table, commit.versions[table]).filter(
            (pc.field("run_id") >= commit.first_run) & (pc.field("run_id") <= commit.last_run)
        )
        for commit in commits
    )


def _ledger(ends: Sequence[int], versions: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns the rows of a ledger by the last round of each run; adjacent runs with one last round share a row."""
    groups = [[run for run, _ in of] for _, of in groupby(enumerate(ends), key=lambda of: of[1])]
    return [
        {
            "first_run": runs[0], "last_run": runs[-1], "n_later_runs": len(ends) - runs[-1] - 1, "first_round": 0,
            "last_round": ends[runs[0]], "is_final": True, "versions": json.dumps(versions),
        }
        for runs in groups
    ]  # fmt: skip


def _protocol(store: Store) -> str:
    [(protocol,)] = {tuple(row) for row in store.read("run").select("protocol").collect()}
    return str(protocol)


def _copy(
    report: AuditReport,
    violations: Sequence[dict[str, Any]],
    names: Mapping[tuple[int, int], str],
    first: int,
    end: int,
) -> Copy:
    def own(rows: Sequence[Any]) -> list[Any]:
        return [row._replace(run_id=row.run_id - first) for row in rows if first <= row.run_id < end]

    rows = [{**row, "run_id": row["run_id"] - first} for row in violations if first <= row["run_id"] < end]
    own_names = {(run_id - first, node): name for (run_id, node), name in names.items() if first <= run_id < end}
    return Copy(own(report.runs), own(report.beyond), own(report.undecided), rows, own_names)


def planting(test: Callable[..., Planting]) -> Callable[..., None]:
    """Returns the test of a generator function, whose fixtures have the scope of its module or session."""

    def run(request: pytest.FixtureRequest, plantings: Plantings, **_: Any) -> None:
        plantings.resume(request.node)

    known = inspect.signature(test)
    own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("request", "plantings")]
    run.__signature__ = known.replace(parameters=[*known.parameters.values(), *own])  # type: ignore[attr-defined]
    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.__dict__.update(test.__dict__, planting=test)
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
