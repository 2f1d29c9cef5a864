"""Runs the audits over a store, and records what they find."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row, functions as F, types as T

from pipelines.audits.fetched_reader import fetched_reader
from pipelines.audits.general import GENERAL
from pipelines.audits.untested import Untested, untested_runs
from pipelines.contract.assumptions import ASSUMPTIONS
from pipelines.contract.audit import FOUND, Audit, Evidence, Reader
from pipelines.contract.protocol import NO_RUN, Bound, Protocol
from pipelines.engines.concurrently import concurrently
from pipelines.engines.materialise.base import Materialiser, Relation
from pipelines.engines.materialise.choose import materialiser_for
from pipelines.engines.planner import collected
from pipelines.engines.session import Session
from pipelines.errors import plural
from pipelines.protocols import PROTOCOLS
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.tables import RUN, VIOLATION

Verdict = Literal["valid", "invalid", "unknown"]
SHOWN = 5
"""Violating rows of an audit that a report shows."""
_CHECKS_AT_ONCE = 3

LAST_ROUND = """
select run_id, cast(max(last_round) as bigint) as rounds from (
  select run_id, max(case when fate = 'in_flight' then sent_round else due_round end) as last_round
  from message group by run_id
  union all
  select run_id, max(round) as last_round from delivery group by run_id
  union all
  select run_id, max(greatest(issued_round, confirmed_round)) as last_round from publication group by run_id
  union all
  select run_id, max(greatest(issued_round, confirmed_round, unsubscribed_round, ended_round)) as last_round
  from subscription group by run_id
  union all
  select run_id, max(round) as last_round from node_status group by run_id
  union all
  select run_id, max(round) as last_round from fault_event where node_id is not null group by run_id
) happened
group by run_id
"""
"""The last round in which anything happened: ``run_id, rounds``; a message in flight was sent, but never handled.

A fault of a link begins and ends without anything happening.
"""


@dataclass(frozen=True)
class Shown:
    """A violating row with names, for printing; as in table ``violation``."""

    run_id: int
    round: int | None
    node: str | None
    source: str | None
    source_seq: int | None
    detail: str


@dataclass(frozen=True)
class Finding:
    """What an audit found.

    Attributes:
        name: The guarantee.
        summary: What it says.
        n_violations: Violating rows that are not excused; None where the audit could not run.
        n_excused: Violating rows of runs whose faults went beyond the bound; None as before.
        shown: The first of those not excused, at most `SHOWN`.
        shown_excused: The first of the excused ones, at most `SHOWN`.
        error: Why it could not run.
        protocol: The protocol whose runs it checked, where the store has runs of several; else empty.
    """

    name: str
    summary: str
    n_violations: int | None
    n_excused: int | None
    shown: tuple[Shown, ...] = ()
    shown_excused: tuple[Shown, ...] = ()
    error: str | None = None
    protocol: str = ""

    @property
    def title(self) -> str:
        """The guarantee, and whose runs it is about where that has to be said."""
        return f"{self.protocol}: {self.name}" if self.protocol else self.name


class Beyond(NamedTuple):
    """A run whose faults went beyond what its protocol promises to bear.

    Attributes:
        run_id: The run.
        round: The first round in which they did.
        reason: What was too much, in words.
    """

    run_id: int
    round: int
    reason: str


class Undecided(NamedTuple):
    """A run that ended before what it is held to could be told, though nothing but maintenance was in flight.

    Attributes:
        run_id: The run.
        round: The round in which it ended, or since which it is so.
        reason: Why, in words.
    """

    run_id: int
    round: int | None
    reason: str


class RunVerdict(NamedTuple):
    """How a run ended; as in table ``run``."""

    run_id: int
    verdict: Verdict
    within_bound: bool
    rounds: int


@dataclass(frozen=True)
class AuditReport:
    """What the audits found in a store.

    Attributes:
        findings: One an audit and protocol.
        runs: One a run, by id.
        beyond: The runs whose faults went beyond the bound, by id.
        undecided: The runs that the protocol could not judge (`Protocol.undecided`), by id.
        untested: The runs that tested nothing, by id.
        violation: Rows of table ``violation``; readable until `release`.
    """

    findings: tuple[Finding, ...]
    runs: tuple[RunVerdict, ...]
    beyond: tuple[Beyond, ...]
    undecided: tuple[Undecided, ...]
    untested: tuple[Untested, ...]
    violation: DataFrame
    _held: tuple[Relation, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """``invalid`` if any run is, else ``unknown`` if any is, else ``valid``."""
        found = {run.verdict for run in self.runs}
        if "invalid" in found:
            return "invalid"
        return "unknown" if "unknown" in found else "valid"

    def __repr__(self) -> str:
        """Returns the verdict, and a line for each guarantee that does not hold or could not be checked."""
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

    def release(self) -> None:
        """Releases what `violation` reads."""
        for relation in self._held:
            relation.release()


def audits_of(protocol: Protocol) -> tuple[Audit, ...]:
    """Returns the audits that a protocol's runs go through: the general ones and its own."""
    return (*GENERAL, *protocol.audits)


def describe() -> list[tuple[str, str]]:
    """Returns name and summary of every audit; a protocol's own say whose they are."""
    own = [(audit.name, f"{audit.summary} ({name} only)") for name, one in PROTOCOLS.items() for audit in one.audits]
    return [(audit.name, audit.summary) for audit in GENERAL] + own


def audit_all(reader: StoreReader, session: Session) -> AuditReport:
    """Checks every guarantee of every run, from the store alone: those of each protocol in its own runs.

    Args:
        reader: The store.
        session: The engine.

    Returns:
        The report, the protocols in the order of their runs; nothing is written to the store.
    """
    names = reader.protocols
    reports = {name: audit_store(reader.of_protocol(name), session, reader.protocol(name)) for name in names}
    if len(reports) == 1:
        return reports[names[0]]
    return AuditReport(
        tuple(replace(one, protocol=name) for name, report in reports.items() for one in report.findings),
        tuple(sorted(run for report in reports.values() for run in report.runs)),
        tuple(sorted(run for report in reports.values() for run in report.beyond)),
        tuple(run for report in reports.values() for run in report.undecided),
        tuple(sorted(run for report in reports.values() for run in report.untested)),
        reduce(DataFrame.unionByName, (report.violation for report in reports.values())),
        tuple(relation for report in reports.values() for relation in report._held),
    )


def audit_store(reader: Reader, session: Session, protocol: Protocol) -> AuditReport:
    """Checks every guarantee of every run of a store that has one protocol, from the store alone.

    Args:
        reader: The store.
        session: The engine.
        protocol: The protocol of its runs.

    Returns:
        The report; nothing is written to the store.
    """
    reader = fetched_reader(reader, session)
    materialiser = materialiser_for(session)
    undecided = undecided_runs(reader, protocol, materialiser)
    evidence = _evidence(reader, undecided, materialiser)
    beyond = beyond_runs(reader, protocol)
    excused = _excused_runs(beyond, materialiser)
    checks = [partial(_check, audit, evidence, excused.frame) for audit in audits_of(protocol)]
    # Sail holds all that a query needs in memory; Spark spills.
    checked = [check() for check in checks] if session.engine == "local" else concurrently(checks, _CHECKS_AT_ONCE)
    findings = [finding for finding, _ in checked]
    broken = [rows for _, rows in checked if rows is not None]
    violation = reduce(DataFrame.unionByName, (rows.frame for rows in broken), materialiser.empty(VIOLATION.schema))
    can_tell = reader.is_finished() and all(finding.error is None for finding in findings)
    untested = untested_runs(reader, protocol, {run.run_id for run in beyond})
    runs = _run_verdicts(evidence, violation, excused.frame, can_tell, {run.run_id for run in untested})
    order = ("run_id", "round", "reason")
    told = () if protocol.undecided == NO_RUN else collected(undecided.frame.orderBy(*order))
    for kept in (evidence, excused, undecided):
        kept.release()
    return AuditReport(
        tuple(findings), runs, beyond, tuple(Undecided(*row) for row in told), untested, violation, tuple(broken)
    )  # fmt: skip


def found_by(name: str, reader: Reader, session: Session, protocol: Protocol) -> list[Row]:
    """Returns what one audit finds, excused or not: rows with columns `FOUND`.

    Args:
        name: The guarantee.
        reader: The store.
        session: The engine.
        protocol: The protocol of its runs.
    """
    audit = next(audit for audit in audits_of(protocol) if audit.name == name)
    materialiser = materialiser_for(session)
    undecided = undecided_runs(reader, protocol, materialiser)
    evidence = _evidence(reader, undecided, materialiser)
    rows = collected(audit.rows(evidence))
    evidence.release()
    undecided.release()
    return rows


def _evidence(reader: Reader, undecided: Relation, materialiser: Materialiser) -> Evidence:
    return Evidence(reader, _parameters(reader), undecided.frame.select("run_id").distinct(), materialiser)


def record(report: AuditReport, store: Store) -> None:
    """Writes table ``violation``, and the verdicts into table ``run``; what was there of an earlier audit goes."""
    store.overwrite(VIOLATION.name, report.violation)
    found = pa.table({name: [getattr(run, name) for run in report.runs] for name in RunVerdict._fields})
    kept = [name for name in RUN.columns if name not in RunVerdict._fields or name == "run_id"]
    known = store.read(RUN.name).select(kept).toArrow()
    store.load(RUN.name, known.join(found, "run_id", join_type="inner").sort_by("run_id"), "overwrite")


def _parameters(reader: Reader) -> list[dict[str, Any]]:
    distinct = collected(reader.table("run").select("parameters").distinct())
    return [json.loads(row.parameters) for row in distinct]


def beyond_runs(reader: Reader, protocol: Protocol) -> tuple[Beyond, ...]:
    """Returns the runs beyond the bound, each once: by the protocol's bound, or by what it assumes of its network."""
    found: dict[int, list[Beyond]] = {}
    for bound in (protocol.bound, *(ASSUMPTIONS[name] for name in sorted(protocol.assumes))):
        rows = _rows_of(bound, reader)
        for row in collected(rows.select("run_id", "round", "reason").orderBy("run_id", "round", "reason")):
            found.setdefault(row.run_id, []).append(Beyond(*row))
    return tuple(
        Beyond(run_id, min(beyond.round for beyond in of_run), "; ".join(beyond.reason for beyond in of_run))
        for run_id, of_run in sorted(found.items())
    )


def _rows_of(bound: Bound, reader: Reader) -> DataFrame:
    return reader.sql(bound) if isinstance(bound, str) else bound(reader)


def undecided_runs(reader: Reader, protocol: Protocol, materialiser: Materialiser) -> Relation:
    """Returns the runs that ended before what they are held to could be told: ``run_id, round, reason``."""
    return materialiser.cache("audit_undecided", _rows_of(protocol.undecided, reader).select(*Undecided._fields))


def _excused_runs(beyond: Sequence[Beyond], materialiser: Materialiser) -> Relation:
    """Returns the runs of which nothing was promised from a round on: ``run_id, beyond_round``."""
    schema = T.StructType([T.StructField(name, T.LongType(), False) for name in ("run_id", "beyond_round")])
    columns = {"run_id": [run.run_id for run in beyond], "beyond_round": [run.round for run in beyond]}
    arrays = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    return materialiser.load("audit_excused", pa.table(arrays), schema)


def _judged(audit: Audit, evidence: Evidence, excused: DataFrame) -> DataFrame:
    """Returns the violating rows of an audit; a fault excuses no delivery and no dated row of an earlier round."""
    found = audit.rows(evidence)
    if audit.is_unconditional:
        return found.withColumn("excused", F.lit(False))
    found = found.join(excused, "run_id", "left")
    is_excused = "beyond_round is not null"
    if audit.is_of_deliveries:
        delivery = evidence.table("delivery").withColumnRenamed("subscriber", "node_id").join(excused, "run_id")
        event = [name for name in FOUND if name != "detail"]
        early = delivery.where("round < beyond_round").selectExpr(*event, "true as is_early").distinct()
        found = found.join(evidence.keep("early", lambda: early), event, "left")
        is_excused += " and is_early is null"
    elif audit.is_dated:
        is_excused += " and coalesce(round >= beyond_round, true)"
    return found.select(*FOUND, F.expr(is_excused).alias("excused"))


def _check(audit: Audit, evidence: Evidence, excused: DataFrame) -> tuple[Finding, Relation | None]:
    """Runs one audit over all runs; returns its rows of table ``violation`` if there are any."""
    try:
        rows = _judged(audit, evidence, excused).selectExpr(f"'{audit.name}' as guarantee", *FOUND, "excused")
        counted = {"violation": {"n_violations": "count_if(not excused)", "n_excused": "count_if(excused)"}}
        relations, facts = evidence.materialiser.checkpoint({"violation": rows.select(VIOLATION.columns)}, counted)
        relation = relations["violation"]
        n_violations, n_excused = facts["n_violations"] or 0, facts["n_excused"] or 0
        shown = _shown(evidence, relation.frame.where("not excused")) if n_violations else ()
        shown_excused = _shown(evidence, relation.frame.where("excused")) if n_excused else ()
    except Exception as error:  # an audit that fails leaves its guarantee undecided, whatever the reason
        return Finding(audit.name, audit.summary, None, None, error=f"{type(error).__name__}: {error}"), None
    finding = Finding(audit.name, audit.summary, n_violations, n_excused, shown, shown_excused)
    if n_violations or n_excused:
        return finding, relation
    relation.release()
    return finding, None


def _shown(evidence: Evidence, violation: DataFrame) -> tuple[Shown, ...]:
    order = ("run_id", "round", "node_id", "source", "source_seq", "detail")
    first = violation.orderBy(*order).limit(SHOWN)
    name = evidence.table("node").select("run_id", "node_id", "name")
    named = first.join(name.withColumnRenamed("name", "node"), ["run_id", "node_id"], "left").join(
        name.selectExpr("run_id", "node_id as source", "name as source_name"), ["run_id", "source"], "left"
    )
    rows = collected(named.orderBy(*order))
    return tuple(Shown(r.run_id, r.round, r.node, r.source_name, r.source_seq, r.detail) for r in rows)


def _run_verdicts(
    evidence: Evidence, violation: DataFrame, excused: DataFrame, can_tell: bool, untested: Collection[int]
) -> tuple[RunVerdict, ...]:
    """Returns a verdict a run: invalid if a guarantee is broken, unknown if that cannot be told, else valid.

    Beyond the bound nothing is promised, so nothing can be broken: such a run is valid, or unknown. A run that tested
    nothing is unknown.
    """
    broken = violation.where("not excused").select("run_id").distinct().selectExpr("run_id", "true as is_broken")
    busy = evidence.busy_runs().selectExpr("run_id", "true as is_busy")
    undecided = "is_busy is not null" if can_tell else "true"
    verdict = f"case when is_broken is not null then 'invalid' when {undecided} then 'unknown' else 'valid' end"
    rows = (
        evidence.table("run").select("run_id")
        .join(excused.selectExpr("run_id", "true as is_beyond"), "run_id", "left")
        .join(broken, "run_id", "left")
        .join(busy, "run_id", "left")
        .join(evidence.sql(LAST_ROUND), "run_id", "left")
        .selectExpr(
            "run_id", f"{verdict} as verdict", "is_beyond is null as within_bound", "coalesce(rounds, 0) as rounds"
        )
        .orderBy("run_id")
    )  # fmt: skip
    found = (RunVerdict(*row) for row in collected(rows))
    return tuple(
        run._replace(verdict="unknown") if run.verdict == "valid" and run.run_id in untested else run for run in found
    )  # fmt: skip
