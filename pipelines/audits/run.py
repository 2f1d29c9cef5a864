"""Runs the audits on a store, and records their findings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.contract.audit import FOUND, Audit, Evidence, Reader, Relation, sql_audits, sql_files
from pipelines.contract.protocol import ASSUMPTIONS, NO_RUN, Bound, Protocol
from pipelines.engines.checkpoints import checkpoints_for
from pipelines.errors import QueryError, plural, root_cause
from pipelines.protocols import PROTOCOLS, protocol_named
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.tables import RUN, VIOLATION

Verdict = Literal["valid", "invalid", "unknown"]
SHOWN = 5
"""The maximum number of violating rows that a finding shows."""
_UNDECIDED = "undecided_run"
_VIOLATION = pa.schema([field.with_nullable(True) for field in to_arrow_schema(VIOLATION.schema)])
_FOUND = pa.schema([_VIOLATION.field(name) for name in FOUND])
_ORDER = ("run_id", "round", "node_id", "source", "source_seq", "detail")
_DELIVERED = {name: name for name in FOUND if name != "detail"} | {"node_id": "subscriber"}
"""Maps the columns of a violating row that identify a delivery to their names in table ``delivery``."""

_SILENT = "select run_id from run r left anti join delivery d on d.run_id = r.run_id limit 1"
_SQL = sql_files("pipelines.audits")
_AUDITS = {audit.name: audit for audit in sql_audits("pipelines.audits")}
GENERAL = tuple(_AUDITS[name] for name in ("exactly_once", "source_order", "conf_implies_delivered"))
"""The audits of all protocols.

Their queries report missing deliveries and a wrong order only for protocols that promise them (view ``protocol``).
"""


@dataclass(frozen=True)
class ViolationRow:
    """A row of table ``violation``, with node names instead of ids."""

    run_id: int
    round: int | None
    node: str | None
    source: str | None
    source_seq: int | None
    detail: str


@dataclass(frozen=True)
class Finding:
    """The result of one audit.

    Attributes:
        name: The name of the guarantee.
        summary: The statement of the guarantee.
        n_violations: Number of violations without an excuse; None if the audit failed.
        n_excused: Number of excused violations; None if the audit failed.
        shown: The first violations without an excuse, at most `SHOWN`; ``shown_excused`` has the excused ones.
        error: The error of the audit; None if the audit succeeded.
        protocol: In a store with several protocols, the protocol of the audited runs; else an empty string.
    """

    name: str
    summary: str
    n_violations: int | None
    n_excused: int | None
    shown: tuple[ViolationRow, ...] = ()
    shown_excused: tuple[ViolationRow, ...] = ()
    error: str | None = None
    protocol: str = ""

    @property
    def title(self) -> str:
        """The name of the guarantee; in a store with several protocols, preceded by the protocol."""
        return f"{self.protocol}: {self.name}" if self.protocol else self.name


class RunReason(NamedTuple):
    """A run that the guarantees do not fully cover, with the reason and the round from which the reason applies.

    The reason is that the run exceeds the fault bound or breaks a network assumption of its protocol, that query
    `Protocol.undecided` returns the run, or that the run tested nothing. An untested run has no ``round``.
    """

    run_id: int
    round: int | None
    reason: str


class RunVerdict(NamedTuple):
    """The columns of table ``run`` that an audit sets, of one run."""

    run_id: int
    verdict: Verdict
    within_bound: bool
    rounds: int


@dataclass(frozen=True)
class AuditReport:
    """The results of all audits of a store: a finding for each audit and protocol, and a verdict for each run.

    ``beyond`` lists the runs whose faults the protocol does not tolerate. ``undecided`` lists the runs that ended
    before their guarantees can be decided. ``untested`` lists the runs in which no delivery was expected. ``violation``
    contains the rows of table ``violation``.
    """

    findings: tuple[Finding, ...]
    runs: tuple[RunVerdict, ...]
    beyond: tuple[RunReason, ...]
    undecided: tuple[RunReason, ...]
    untested: tuple[RunReason, ...]
    violation: pa.Table

    @property
    def verdict(self) -> Verdict:
        """The verdict of the store; see `store_verdict`."""
        return store_verdict([run.verdict for run in self.runs])

    def __repr__(self) -> str:
        """Returns the verdict, and a line for each guarantee with violations or a failed audit."""
        open_ones = [one for one in self.findings if one.n_violations != 0 or one.n_excused]
        held = f"{len(self.findings) - len(open_ones)} of {plural(len(self.findings), 'guarantee')} hold"
        return "\n".join([
            f"{self.verdict}: {plural(len(self.runs), 'run')}, {held}",
            *(
                f"{one.title}: not checked, {one.error}" if one.error is not None
                else f"{one.title}: {one.n_violations:,} violations, {one.n_excused:,} excused"
                for one in open_ones
            ),
        ])  # fmt: skip


def store_verdict(verdicts: Collection[str | None]) -> Verdict:
    """Returns ``invalid`` if any run is invalid, ``valid`` if all runs are valid, else ``unknown``."""
    if "invalid" in verdicts:
        return "invalid"
    return "valid" if set(verdicts) == {"valid"} else "unknown"


def audits_of(protocol: Protocol) -> tuple[Audit, ...]:
    """Returns the general audits and the audits of `protocol`."""
    return (*GENERAL, *protocol.audits)


def describe() -> list[tuple[str, str]]:
    """Returns the name and summary of each audit. The summary of a protocol's audit names the protocol."""
    own = [(audit.name, f"{audit.summary} ({name} only)") for name, one in PROTOCOLS.items() for audit in one.audits]
    return [(audit.name, audit.summary) for audit in GENERAL] + own


def audit_all(reader: StoreReader) -> AuditReport:
    """Checks the guarantees of all runs of a store, and writes nothing.

    A run is checked by the general audits and by the audits of its protocol, in the order of first runs.
    """
    names = reader.protocols
    reports = {name: audit_store(reader.of_protocol(name), protocol_named(name)) for name in names}
    if len(reports) == 1:
        return reports[names[0]]
    return AuditReport(
        tuple(replace(one, protocol=name) for name, report in reports.items() for one in report.findings),
        tuple(sorted(run for report in reports.values() for run in report.runs)),
        tuple(sorted(run for report in reports.values() for run in report.beyond)),
        tuple(run for report in reports.values() for run in report.undecided),
        tuple(sorted(run for report in reports.values() for run in report.untested)),
        pa.concat_tables(report.violation for report in reports.values()),
    )


def audit_store(reader: StoreReader, protocol: Protocol) -> AuditReport:
    """Checks the guarantees of all runs that ``reader`` returns, and writes nothing. All runs have one protocol."""
    audits = audits_of(protocol)
    with reader.session.tagged(f"{protocol.name}: audits"), _evidence(reader, protocol) as evidence:
        beyond = beyond_runs(reader, protocol)
        since = {run.run_id: run.round for run in beyond}
        found = _violating(audits, evidence)
        for audit in audits:
            if isinstance(rows := found[audit.name], pa.Table):
                marks = {"guarantee": pa.repeat(audit.name, len(rows)), "excused": _excused(audit, rows, since, reader)}
                whole = {name: marks[name] if name in marks else rows[name] for name in _VIOLATION.names}
                found[audit.name] = pa.table(whole).cast(_VIOLATION)
        tables = [rows for rows in found.values() if isinstance(rows, pa.Table)]
        violation = pa.concat_tables([_VIOLATION.empty_table(), *tables])
        findings = _findings(reader, audits, found)
        is_complete = reader.is_finished() and all(finding.error is None for finding in findings)
        untested = _untested_runs(reader, protocol, since.keys())
        runs = _run_verdicts(evidence, violation, since, is_complete, {run.run_id for run in untested})
        undecided: list[RunReason] = []
        if protocol.undecided != NO_RUN:
            columns = ", ".join(RunReason._fields)
            rows = evidence.sql(f"select {columns} from {_UNDECIDED} order by {columns}").collect()  # noqa: S608
            undecided = [RunReason(*row) for row in rows]
    return AuditReport(tuple(findings), runs, beyond, tuple(undecided), untested, violation)


def found_by(name: str, reader: StoreReader, protocol: Protocol) -> list[Row]:
    """Returns all violations of guarantee ``name``, including excused ones, as rows with the columns `FOUND`."""
    audit = next(audit for audit in audits_of(protocol) if audit.name == name)
    with _evidence(reader, protocol) as evidence:
        return evidence.sql(audit.statement(evidence)).drop("guarantee").collect()


def _evidence(reader: StoreReader, protocol: Protocol) -> Evidence:
    relations: dict[str, Relation] = {
        "in_flight_run": _SQL["in_flight_run"],
        **protocol.audit_relations,
        _UNDECIDED: protocol.undecided,
        **{name: _SQL[name] for name in ("busy_run", "due_delivery", "stray_delivery")},
    }
    return Evidence(reader, checkpoints_for(reader.session, is_small=reader.is_small), relations)


def record(report: AuditReport, store: Store) -> None:
    """Replaces the rows of table ``violation`` and the `RunVerdict` columns of table ``run`` by those of `report`.

    Earlier verdicts are removed first: after a kill between two writes, the runs count as not audited.
    """
    found = pa.table({name: [getattr(run, name) for run in report.runs] for name in RunVerdict._fields})
    names = [name for name in RUN.columns if name not in found.column_names]
    known = store.read(RUN.name).toArrow()
    kept = known.select(["run_id", *names])
    if known["verdict"].null_count < len(known):
        unjudged = pa.concat_tables([known.slice(0, 0), kept], promote_options="default")
        store.load(RUN.name, unjudged, "overwrite")
    store.load(VIOLATION.name, report.violation, "overwrite")
    store.load(RUN.name, kept.join(found, "run_id", join_type="inner").sort_by("run_id"), "overwrite")


def beyond_runs(reader: Reader, protocol: Protocol) -> tuple[RunReason, ...]:
    """Returns the runs that exceed the protocol's fault bound or break one of its network assumptions.

    Each run has one entry: the first round beyond the bound, and all reasons.

    Raises:
        QueryError: The SQL of the bound is invalid.
    """
    bounds: list[Bound] = [protocol.bound, *(ASSUMPTIONS[name] for name in sorted(protocol.assumes))]
    columns = ", ".join(RunReason._fields)
    rows, parts = list[Row](), list[str]()
    for index, bound in enumerate(bounds):
        if isinstance(bound, str):
            parts.append(f"select {index} as bound, {columns} from (\n{bound}\n) part")  # noqa: S608 - a declaration
        else:
            rows += bound(reader).selectExpr(f"{index} as bound", *RunReason._fields).collect()
    try:
        rows += reader.sql("\nunion all\n".join(parts)).collect() if parts else []
    except QueryError as error:
        raise QueryError(f"the bound of protocol {protocol.name} cannot be evaluated: {error}") from error
    found: dict[int, list[tuple[int, str]]] = {}
    for _, run_id, round_, reason in sorted(rows):
        found.setdefault(run_id, []).append((round_, reason))
    return tuple(
        RunReason(run_id, min(round_ for round_, _ in of_run), "; ".join(reason for _, reason in of_run))
        for run_id, of_run in sorted(found.items())
    )


def _violating(audits: Sequence[Audit], evidence: Evidence) -> dict[str, pa.Table | Exception]:
    """Maps the name of each audit to the violating rows (columns `FOUND`), or to the error that the audit raised.

    One statement runs all audits, because planning a statement takes longer than reading a small store. If this
    statement fails, each audit runs in a separate statement, so that a failing audit does not affect other audits.
    """
    try:
        return _found(audits, evidence)
    except Exception:  # separate statements show which audit failed
        return {audit.name: _found_or_error(audit, evidence) for audit in audits}


def _found_or_error(audit: Audit, evidence: Evidence) -> pa.Table | Exception:
    try:
        return _found([audit], evidence)[audit.name]
    except Exception as error:  # a failed audit leaves its guarantee undecided
        return error


def _found(audits: Sequence[Audit], evidence: Evidence) -> dict[str, pa.Table]:
    """Runs ``audits`` in one statement, and maps the name of each audit to the violating rows (columns `FOUND`).

    In the result of the statement, a column without values may have type null.

    Raises:
        QueryError: Column ``detail`` is not a string column, or another column is not an integer column.
    """
    found = evidence.sql("\nunion all\n".join(audit.statement(evidence) for audit in audits)).toArrow()
    types = pa.types
    for field in _FOUND:
        kind = found.schema.field(field.name).type
        is_string = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        if not types.is_null(kind) and not (is_string if types.is_string(field.type) else types.is_integer(kind)):
            raise QueryError(f"the audit returns column {field.name!r} with type {kind}; allowed: {field.type}")
    typed = found.select(FOUND).cast(_FOUND)
    return {audit.name: typed.filter(pc.equal(found["guarantee"], audit.name)) for audit in audits}


def _excused(audit: Audit, found: pa.Table, since: Mapping[int, int | None], reader: Reader) -> pa.ChunkedArray:
    """Returns a boolean mask of the excused rows of ``found``.

    ``since`` maps each run that exceeds the fault bound to the first round in which it does. The rows of these runs are
    excused, with three exceptions. If the audit ``is_unconditional``, no row is excused. If it ``is_dated``, rows
    before this round are not excused. If it ``is_of_deliveries``, rows for deliveries that happened before this round
    are not excused.
    """
    runs, rounds = (pa.array(of, pa.int64()) for of in (since.keys(), since.values()))
    beyond_round = rounds.take(pc.index_in(found["run_id"].combine_chunks(), runs))
    excused = pa.chunked_array([pc.is_valid(beyond_round)])
    if audit.is_unconditional:
        return pc.and_(excused, False)
    is_before = pc.fill_null(pc.less(found["round"], pa.chunked_array([beyond_round])), False)
    if audit.is_dated and not audit.is_of_deliveries:
        return pc.and_(excused, pc.invert(is_before))
    if not (audit.is_of_deliveries and pc.any(is_before).as_py()):
        return excused
    key = list(_DELIVERED)
    index = pa.array(range(len(found)), pa.int64())
    early = found.append_column("row", index).filter(is_before).select([*key, "row"])
    of_runs = ", ".join(map(str, pc.unique(early["run_id"]).to_pylist()))
    text = f"select {', '.join(_DELIVERED.values())} from delivery where run_id in ({of_runs})"  # noqa: S608 - numbers
    delivery = reader.sql(text).toArrow().rename_columns(key)
    delivered = early.join(delivery, key, join_type="left semi")["row"]
    is_early = pc.is_in(index, delivered.combine_chunks())
    return pc.and_(excused, pa.chunked_array([pc.invert(is_early)]))


def _order(rows: pa.Table) -> pa.Array:
    """Returns the indexes that sort violating rows by `_ORDER`, nulls first as in SQL."""
    keys = dict[str, pa.ChunkedArray]()
    for name in _ORDER:
        keys |= {f"{name}_known": pc.is_valid(rows[name]), name: rows[name]}
    return pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])


def _findings(reader: Reader, audits: Sequence[Audit], found: Mapping[str, pa.Table | Exception]) -> list[Finding]:
    """Returns the findings of ``audits``. ``found`` has their rows of table ``violation``, or their errors."""
    findings, firsts = list[Finding](), dict[tuple[str, bool], list[dict[str, Any]]]()
    for audit in audits:
        rows = found[audit.name]
        if isinstance(rows, Exception):
            error = f"{type(rows).__name__}: {root_cause(str(rows))}"
            findings.append(Finding(audit.name, audit.summary, None, None, error=error))
            continue
        broken, excused = (rows.filter(pc.equal(rows["excused"], is_excused)) for is_excused in (False, True))
        findings.append(Finding(audit.name, audit.summary, len(broken), len(excused)))
        for is_excused, part in ((False, broken), (True, excused)):
            firsts[audit.name, is_excused] = part.take(_order(part)[:SHOWN]).to_pylist()
    runs = {row["run_id"] for first in firsts.values() for row in first}
    if not runs:
        return findings
    of_runs = ", ".join(map(str, sorted(runs)))
    text = f"select run_id, node_id, name from node where run_id in ({of_runs})"  # noqa: S608 - numbers
    names = {(row.run_id, row.node_id): row.name for row in reader.sql(text).collect()}

    def shown(finding: Finding, is_excused: bool) -> tuple[ViolationRow, ...]:
        return tuple(
            ViolationRow(
                row["run_id"], row["round"], names.get((row["run_id"], row["node_id"])),
                names.get((row["run_id"], row["source"])), row["source_seq"], row["detail"],
            )
            for row in firsts.get((finding.name, is_excused), ())
        )  # fmt: skip

    return [replace(one, shown=shown(one, False), shown_excused=shown(one, True)) for one in findings]


def _run_verdicts(
    evidence: Evidence, violation: pa.Table, beyond: Collection[int], is_complete: bool, untested: Collection[int]
) -> tuple[RunVerdict, ...]:
    """Returns the verdict of each run.

    A run with an unexcused violation is invalid. Any other run has verdict unknown if it is in ``untested`` or in
    relation ``busy_run``, or if not ``is_complete``: an audit failed or a run of the store is not finished.
    """
    broken = set(violation.filter(pc.invert(violation["excused"]))["run_id"].to_pylist())
    found = []
    for run, is_busy, rounds in evidence.sql(_SQL["verdict"]).collect():
        verdict: Verdict = "valid"
        if run in broken:
            verdict = "invalid"
        elif not is_complete or is_busy or run in untested:
            verdict = "unknown"
        found.append(RunVerdict(run, verdict, run not in beyond, rounds))
    return tuple(found)


def _untested_runs(reader: Reader, protocol: Protocol, beyond: Collection[int]) -> tuple[RunReason, ...]:
    """Returns the runs in which no delivery happened and none was expected, so that guarantees hold trivially.

    A run with messages but without publications counts as tested if the protocol has its own audits, because these
    audits check the messages. A run in ``beyond``, the runs that exceed the fault bound, counts as tested if a
    publication matches a subscription, because faults may have prevented the expected delivery.
    """
    if not reader.sql(_SILENT).collect():
        return ()
    return tuple(
        RunReason(row.run_id, None, _untested_reason(protocol, row.n_publications, row.n_subscriptions, row.n_matches))
        for row in reader.sql(_SQL["untested_run"]).collect()
        if (row.n_publications or not (row.is_busy and protocol.audits))
        and not (row.run_id in beyond and row.n_matches)
    )


def _untested_reason(protocol: Protocol, n_publications: int, n_subscriptions: int, n_matches: int) -> str:
    if not n_publications:
        return "nothing was published"
    if not n_subscriptions:
        return f"nobody subscribed to any of {plural(n_publications, 'publication')}"
    if not n_matches:
        subscriptions = plural(n_subscriptions, "subscription")
        return f"none of {plural(n_publications, 'publication')} satisfies any of {subscriptions}"
    if not protocol.confirms:
        return "nothing was delivered, and only a delivery shows from when on a subscription is active"
    return (
        "every publication that satisfies a subscription was issued before the subscription was confirmed, or after "
        "its end"
    )
