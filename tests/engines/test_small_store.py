"""A store of few rows has the rows of any other, and is judged alike on all engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from support.engines import disturbed, mixed

from pipelines import open_store
from pipelines.api import run_prepared
from pipelines.audits.run import AuditReport, audit_all
from pipelines.engines.session import Session
from pipelines.experiment.prepared import prepare
from pipelines.protocols import PROTOCOLS
from pipelines.result import Result
from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root
from pipelines.store.store import Store
from pipelines.testing import planted, removed, run_all, run_configs

EXPECTED = """
select e.run_id, e.subscriber, e.source, e.source_seq, p.confirmed_round, t.confirms_delivery
from expected_delivery e
join publication p on p.run_id = e.run_id and p.source = e.source and p.source_seq = e.source_seq
join run r on r.run_id = e.run_id
join protocol t on t.name = r.protocol
"""
VIEWS = ("matching", "receiver", "expected_delivery", "node_recovery", "outage", "protocol")


@pytest.fixture(scope="module")
def root(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A store with a crash, and runs of two protocols."""
    runs = run_configs([disturbed("identifier"), mixed({"name": "forwarding"}, "joined", 4)])
    return run_all(runs, sail, tmp_path_factory.mktemp("small")).root


def answer(reader: StoreReader, asked: str) -> list[str]:
    frame = reader.sql(asked) if " " in asked else reader.table(asked)
    return sorted(map(str, frame.collect()))


@pytest.mark.parametrize("most_bytes", [None, 2], ids=["few", "many"])
def test_views_have_the_same_rows(
    sail: Session, root: Root, most_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether their rows are kept, or are too many for that; as those of one protocol, too."""
    plain = StoreReader(sail, root, is_small=False)
    expected = {view: answer(plain, view) for view in (*VIEWS, EXPECTED)}
    of_delta = answer(plain.of_protocol("delta"), "receiver")
    if most_bytes is not None:
        monkeypatch.setattr("pipelines.sql.query._MOST_BYTES", most_bytes)
    small = StoreReader(sail, root, is_small=True)
    assert {view: answer(small, view) for view in (*VIEWS, EXPECTED)} == expected
    assert answer(small.of_protocol("delta"), "receiver") == of_delta
    assert all(len(found) > 2 for found in (expected["receiver"], of_delta))
    assert len(of_delta) < len(expected["receiver"])
    assert expected["node_recovery"]


def test_audits_of_cached_and_of_lazy_views_are_equal(sail: Session, root: Root, tmp_path: Path) -> None:
    """In a large store the engine computes the views again for each use."""
    lost = planted(Store(root, sail), tmp_path, delivery=removed("source_seq = 1"))
    reports = [audit_all(StoreReader(sail, lost.root, is_small=is_small)) for is_small in (False, True)]
    lazy, cached = ((one.findings, one.runs, one.beyond, one.undecided, one.untested) for one in reports)
    assert lazy == cached
    assert any(finding.n_violations for finding in reports[0].findings)


def test_views_know_what_an_audit_wrote(sail: Session, root: Root) -> None:
    """Each view that was asked for before is asked for again, if an audit changed what it reads."""
    small, result = StoreReader(sail, root), Result(root, replace(sail, owns=False))
    early = {view: answer(small, view) for view in ("run_summary", "matching")}
    result.audit()
    late = {view: answer(small, view) for view in early}
    assert late == {view: answer(StoreReader(sail, root, is_small=False), view) for view in early}
    assert late["run_summary"] != early["run_summary"]
    assert late["matching"] == early["matching"]


def test_a_closed_result_leaves_no_view_in_the_session_of_its_caller(sail: Session, root: Root) -> None:
    def views() -> set[str]:
        return {found.name for found in sail.spark.catalog.listTables() if found.name.startswith("roundtable_")}

    before = views()
    with open_store(root, sail.spark) as result:
        assert result.sql("select count(1) as n from receiver").collect()[0].n > 2
        assert result.table("node").count() > 2
        assert len(views() - before) > 2
    assert views() == before


EVERY = {
    "name": "every",
    "protocol": {"name": "forwarding"},
    "overlay": {
        "links": [["N1", "N2"], ["N2", "N3"], ["N2", "N4"]],
        "servers": {"generate": {"at": "central"}},
        "clients": {"generate": {"at": ["N1", "N3", "N4"]}},
    },
    "workload": {
        "subscriptions": {"generate": {"kind": "topics", "topics": 1, "nodes": "clients"}},
        "publications": {
            "generate": {
                "kind": "bank", "topic": "topic1", "nodes": "clients", "round": 60, "operations": 4, "interval": 8,
                "accounts": 3,
            },
        },
    },
    "faults": [{"kind": "crash", "node": "N2", "round": 72, "until": 95}],
    "time": {"rounds": 400},
    "runs": {
        "grid": {
            "protocol": [
                {"name": "forwarding"}, {"name": "delta", "delta": 1}, {"name": "epidemic"},
                {"name": "ginger", "timer_rounds": 30}, {"name": "skipring"}, {"name": "repository"},
                {"name": "flooding"}, {"name": "gossipsub"},
            ],
        },
    },
}  # fmt: skip


def judged(result: Result) -> tuple[object, ...]:
    report = result.audit()
    errors = [(finding.title, finding.error) for finding in report.findings if finding.error]
    found = [(finding.title, finding.n_violations, finding.n_excused) for finding in report.findings]
    broken = sorted(map(str, result.violations.collect()))
    return errors, found, report.runs, report.beyond, report.undecided, broken


@pytest.fixture
def auditors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines of all audits in this test, in order."""
    found: list[str] = []

    def watched(reader: StoreReader) -> AuditReport:
        found.append(reader.session.engine)
        return audit_all(reader)

    monkeypatch.setattr("pipelines.result.audit_all", watched)
    return found


def test_all_protocols_are_judged_as_on_sail(
    sail: Session, spark: Session, tmp_path: Path, auditors: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some bounds, and some relations that audits read, are functions of Python, which play what nodes did once more.

    The audits of a protocol are one statement: none runs in a statement of its own.
    """
    apart: list[str] = []
    monkeypatch.setattr("pipelines.audits.run._found_or_error", lambda audit, _: apart.append(audit.name))
    sail.activate()
    with run_prepared(prepare(EVERY), spark=sail.spark, store=tmp_path / "every") as played:
        expected = judged(played)
    spark.activate()
    found = judged(Result(tmp_path / "every", replace(spark, owns=False)))
    assert found == expected
    assert auditors[-1] == "spark"
    errors, findings, *_ = found
    assert errors == []
    assert len({title.partition(":")[0] for title, _, _ in findings}) == len(PROTOCOLS)
    assert apart == []


def test_sail_is_asked_about_a_small_store_of_a_spark_of_our_own(
    spark: Session, root: Root, auditors: list[str]
) -> None:
    """It plans the many questions of audits in a tenth of the time; afterwards Spark answers as before."""
    spark.activate()
    result = Result(root, replace(spark, owns=True))
    report = result.audit()
    assert auditors == ["local"]
    assert {run.run_id: run.verdict for run in report.runs} == {run.run_id: run.verdict for run in result.runs}
    assert isinstance(result.sql("select count(1) as n from run"), ClassicFrame)
    assert result.sql("select count(1) as n from run").collect()[0].n == len(result.runs)


def test_an_exchange_may_have_one_partition(spark: Session) -> None:
    key = "spark.sql.shuffle.partitions"
    before = spark.spark.conf.get(key)
    with spark.suited(is_small=False, is_in_one=True):
        assert spark.spark.conf.get(key) == "1"
        assert spark.spark.conf.get("spark.sql.codegen.wholeStage") == "true"
    assert spark.spark.conf.get(key) == before
