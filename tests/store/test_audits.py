"""The general audits: clean runs break nothing, planted violations are found and named, verdicts follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from support.copies import Plant, Planting

from pipelines.audits.run import AuditReport, _findings, audit_store, describe, record
from pipelines.contract.audit import Audit
from pipelines.contract.protocol import Protocol
from pipelines.engines.session import Session
from pipelines.protocols.delta import PROTOCOL as DELTA
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import Change, copied, planted, removed, replaced, rows, run_all, run_configs, scenario

# P - B1 - B2 - S, and Q at B2: P's publications reach B1 after 1 round and S after 3.
WORKLOAD = {
    "subscriptions": [
        {"at": "S", "round": 0, "topic": "a"},
        {"at": "B1", "round": 0, "topic": "a", "until": 60},
        {"at": "S", "round": 0, "topic": "a", "where": "n > 5", "until": 40},
    ],
    "publications": [
        {"at": "P", "round": 20, "topic": "a"},
        {"at": "P", "round": 24, "topic": "a", "content": {"n": 9}},
        {"at": "P", "round": 80, "topic": "a"},
        {"at": "Q", "round": 20, "topic": "b"},
    ],
}


def chain(protocol: str = "delta", rounds: int = 200, **settings: Any) -> dict[str, Any]:
    links = [["P", "B1"], ["B1", "B2"], ["B2", "S"], ["B2", "Q"]]
    given = {"name": protocol, **settings}
    return scenario(protocol=given, overlay={"links": links}, workload=WORKLOAD, time={"rounds": rounds})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits")


@pytest.fixture(scope="module")
def clean(sail: Session, root: Path) -> Store:
    """Run 0 with δ = 0, run 1 with δ = 1."""
    return run_all(run_configs([chain(delta=0), chain(delta=1)]), sail, root)


def audited(store: Store, protocol: Protocol = DELTA) -> AuditReport:
    return audit_store(StoreReader(store.session, store.root), protocol)


def node(store: Store, name: str) -> int:
    return int(store.read("node").where(f"run_id = 1 and name = '{name}'").collect()[0].node_id)


def delivery(store: Store, subscriber: str, source: str, seq: int) -> str:
    ids = f"subscriber = {node(store, subscriber)} and source = {node(store, source)}"
    return f"run_id = 1 and {ids} and source_seq = {seq}"


def publication(store: Store, source: str, seq: int) -> str:
    return f"run_id = 1 and source = {node(store, source)} and source_seq = {seq}"


def one_in_flight(frame: DataFrame) -> DataFrame:
    """Lets one message of run 1 be still on its way."""
    first = frame.where("run_id = 1").orderBy("message_id").limit(1).collect()[0].message_id
    return replaced(f"run_id = 1 and message_id = {first}", fate="'in_flight'")(frame)


def test_clean_runs_break_nothing(clean: Store) -> None:
    report = audit_store(StoreReader(clean.session, clean.root), DELTA)
    assert [(finding.name, finding.n_violations, finding.error) for finding in report.findings] == [
        (name, 0, None)
        for name in (
            "exactly_once", "source_order", "conf_implies_delivered", "answered_peers", "answers_in_turn",
            "ends_in_time", "guided_again", "incarnations", "join_consistency", "last_words", "level_1", "level_2",
            "no_operational_skipped", "nothing_pending", "order_of_resends", "own_messages", "own_number",
            "recovered_state", "status_first", "tells_peers",
        )
    ]  # fmt: skip
    # The last publication is issued in round 80; its Conf is back 2 * 3 rounds later.
    assert report.runs == ((0, "valid", True, 86), (1, "valid", True, 86))
    assert report.verdict == "valid"
    assert rows(clean, "delivery"), "the guarantees were put to the test"


def test_a_lost_delivery_is_found(clean: Store) -> Planting:
    [lost] = yield [Plant(clean, delivery=removed(delivery(clean, "S", "P", 1)))]
    assert lost.found("exactly_once") == [(1, "S", "P", 1, "published in round 20, never delivered")]
    assert lost.found("conf_implies_delivered") == [(1, "S", "P", 1, "confirmed in round 26, never delivered")]
    assert lost.found("source_order") == []


@pytest.mark.parametrize("is_confirmed", [True, False])
@pytest.mark.parametrize("is_quiet", [True, False])
def test_what_may_still_come_is_not_lost(clean: Store, is_confirmed: bool, is_quiet: bool) -> Planting:
    changes: dict[str, Change] = {"delivery": removed(delivery(clean, "S", "P", 1))}
    if not is_confirmed:
        changes["publication"] = replaced(publication(clean, "P", 1), confirmed_round="null")
    if not is_quiet:
        changes["message"] = one_in_flight
    is_lost = is_confirmed or is_quiet
    [runs] = yield [Plant(clean, **changes)]
    assert [row[:4] for row in runs.found("exactly_once")] == [(1, "S", "P", 1)] * is_lost


def test_a_repeated_delivery_is_found(clean: Store) -> Planting:
    [twice] = yield [Plant(clean, delivery=copied(delivery(clean, "S", "P", 1), round="round + 40"))]
    detail = "delivered 2 times, first in round 23, last in round 63"
    assert twice.found("exactly_once") == [(1, "S", "P", 1, detail)]
    assert twice.found("source_order") == []
    assert twice.found("conf_implies_delivered") == []


def test_a_delivery_that_nobody_asked_for_is_found(clean: Store) -> Planting:
    of_p, of_q = (
        copied(delivery(clean, "S", "P", 1), **{column: str(node(clean, "Q"))}) for column in ("subscriber", "source")
    )
    stray, other = yield [Plant(clean, delivery=of_p), Plant(clean, delivery=of_q)]
    detail = "delivered in round 23 to a node without a matching subscription in that round"
    assert stray.found("exactly_once") == [(1, "Q", "P", 1, detail)]
    assert other.found("exactly_once") == [(1, "S", "Q", 1, detail)]


@pytest.mark.parametrize(
    ("column", "round_", "is_broken"),
    [("issued_round", 23, False), ("issued_round", 24, True), ("ended_round", 23, False), ("ended_round", 22, True)],
)
def test_a_subscription_lasts_from_issue_to_end(clean: Store, column: str, round_: int, is_broken: bool) -> Planting:
    only = {"confirmed_round": "null", "ended_round": "1000", column: str(round_)}
    where = f"run_id = 1 and subscriber = {node(clean, 'S')}"
    [moved] = yield [Plant(
        clean,
        subscription=replaced(where, **only),
        delivery=removed(f"run_id = 1 and not ({delivery(clean, 'S', 'P', 1)})"),
        publication=removed(f"run_id = 1 and not ({publication(clean, 'P', 1)})"),
    )]  # fmt: skip
    stray = [row[:4] for row in moved.found("exactly_once") if "without a matching" in row[4]]
    assert stray == [(1, "S", "P", 1)] * is_broken


def test_a_wrong_order_is_found(clean: Store) -> Planting:
    late, same = yield [
        Plant(clean, delivery=replaced(delivery(clean, "S", "P", 1), round=round_)) for round_ in ("28", "27")
    ]
    detail = "delivered in round 28, after call 2 of the same source"
    assert late.found("source_order") == [(1, "S", "P", 1, detail)]
    assert same.found("source_order") == []


def test_a_confirmation_before_the_delivery_is_found(clean: Store) -> Planting:
    early, same = yield [
        Plant(clean, publication=replaced(publication(clean, "P", 1), confirmed_round=round_))
        for round_ in ("22", "23")
    ]
    told = "confirmed in round 22, delivered in round 23"
    assert early.found("conf_implies_delivered") == [(1, "S", "P", 1, told)]
    assert same.found("conf_implies_delivered") == []


# Figure 1: the chain P - B2 - B1 with S1 and S2 at B1; s2 is settled long before, s1 comes while P publishes.
FIGURE_1_LINKS = [["P", "B2"], ["B2", "B1"], ["B1", "S1"], ["B1", "S2"]]
CONTENT_BASED = {  # 1(b): s2 matches p1 only. p1 takes its way and meets s1 at B1; p2 is issued before s1 is at P.
    "subscriptions": [{"at": "S2", "round": 0, "where": "n = 1"}, {"at": "S1", "round": 10, "where": "n >= 1"}],
    "publications": [{"at": "P", "round": round_, "content": {"n": n}} for n, round_ in ((1, 11), (2, 12), (3, 20))],
}
TOPIC_BASED = {  # 1(c): s2 ends. p1 is just ahead of its end at B2 and meets s1 at B1; p2 is just behind it.
    "subscriptions": [{"at": "S2", "round": 0, "topic": "t", "until": 9}, {"at": "S1", "round": 10, "topic": "t"}],
    "publications": [{"at": "P", "round": round_, "topic": "t"} for round_ in (10, 11, 20)],
}


def figure_1(protocol: str) -> list[dict[str, Any]]:
    parts = {"protocol": {"name": protocol}, "overlay": {"links": FIGURE_1_LINKS}}
    return [scenario(**parts, workload=workload) for workload in (CONTENT_BASED, TOPIC_BASED)]


def test_figure_1_plain_forwarding_loses_the_middle_publication(sail: Session, root: Path) -> Planting:
    [runs] = yield [Plant(run_all(run_configs(figure_1("forwarding")), sail, root))]
    assert runs.found("exactly_once") == [
        (0, "S1", "P", 2, "published in round 12, never delivered"),
        (1, "S1", "P", 2, "published in round 11, never delivered"),
    ]
    assert (runs.verdict, runs.broken) == ("invalid", {"exactly_once"})


def test_figure_1_is_no_loss_under_delta(sail: Session, root: Path) -> Planting:
    [runs] = yield [Plant(run_all(run_configs(figure_1("delta")), sail, root))]
    assert (runs.verdict, runs.broken) == ("valid", set())


def test_verdicts_are_recorded_in_place_of_earlier_ones(
    clean: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = planted(clean, root, delivery=removed(delivery(clean, "S", "P", 1)))
    report = audited(lost)
    assert report.verdict == "invalid"
    assert [(run.run_id, run.verdict) for run in report.runs] == [(0, "valid"), (1, "invalid")]
    shown = next(finding for finding in report.findings if finding.name == "exactly_once").shown
    assert [(row.run_id, row.node, row.source, row.source_seq) for row in shown] == [(1, "S", "P", 1)]
    before = lost.read("run").drop("verdict", "within_bound", "rounds").collect()
    record(report, lost)
    assert rows(lost, "violation", "run_id", "guarantee", "round", "source_seq", "excused") == [
        (1, "conf_implies_delivered", 26, 1, False), (1, "exactly_once", 20, 1, False),
    ]  # fmt: skip
    assert rows(lost, "run", "run_id", "verdict", "within_bound", "rounds") == [
        (0, "valid", True, 86), (1, "invalid", True, 86),
    ]  # fmt: skip
    assert sorted(lost.read("run").drop("verdict", "within_bound", "rounds").collect()) == sorted(before)
    lost.overwrite("delivery", clean.read("delivery"))
    again, load = audited(lost), Store.load

    def interrupted(store: Store, name: str, rows: pa.Table, mode: Literal["append", "overwrite"]) -> None:
        if name == "violation":
            raise KeyboardInterrupt
        load(store, name, rows, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "load", interrupted)
        with pytest.raises(KeyboardInterrupt):
            record(again, lost)
    unknown = [(None, None, None)] * 2
    assert rows(lost, "run", "verdict", "within_bound", "rounds") == unknown
    record(again, lost)
    assert rows(lost, "violation") == []
    assert rows(lost, "run", "verdict") == [("valid",), ("valid",)]


def test_at_most_five_violations_are_shown(clean: Store, root: Path) -> None:
    emptied = planted(clean, root, delivery=removed("true"))
    finding = next(finding for finding in audited(emptied).findings if finding.name == "exactly_once")
    # In each run S has to get all three of P's topic, B1 the first two.
    assert (finding.n_violations, len(finding.shown)) == (10, 5)


def test_a_run_cut_short_is_not_decided(sail: Session, root: Path) -> Planting:
    workload = {"subscriptions": [{"at": "S", "topic": "a"}], "publications": [{"at": "P", "round": 20, "topic": "a"}]}
    cut = {**chain(rounds=22), "workload": workload}
    store = run_all(run_configs([cut, cut]), sail, root)
    lost = replaced("run_id = 1", confirmed_round="22")
    runs, planted = yield [Plant(store), Plant(store, publication=lost)]
    assert runs.runs == [(0, "unknown", True, 22), (1, "unknown", True, 22)]
    assert runs.verdict == "unknown"
    assert [run.verdict for run in planted.runs] == ["unknown", "invalid"]


def test_a_run_without_calls_ends_in_round_0(sail: Session, root: Path) -> Planting:
    idle = [{**chain(protocol), "workload": {}} for protocol in ("delta", "forwarding")]
    for copy in (yield [Plant(run_all(run_configs([parts]), sail, root)) for parts in idle]):
        assert copy.runs == [(0, "unknown", True, 0)]  # nothing was tested


def test_the_report_shows_the_root_cause_of_an_error_of_spark() -> None:
    trace = "An error occurred while calling o1.getResult.\n: org.apache.spark.SparkException: awaitResult\n"
    job = "Job aborted: the result is larger than spark.driver.maxResultSize"
    cause = f"Caused by: org.apache.spark.SparkException: {job}\n\tat a.c(D.scala:2)\n"
    error = RuntimeError(f"{trace}\tat a.b(C.scala:1)\n{cause}")
    audit = DELTA.audits[0]
    [finding] = _findings(cast(Any, None), [audit], {audit.name: error})
    assert finding.error == f"RuntimeError: org.apache.spark.SparkException: {job}"


def test_an_audit_that_cannot_run_leaves_its_guarantee_undecided(clean: Store, root: Path) -> None:
    broken = Audit("broken", "cannot run", "select run_id, node_id, detail from no_such_table")
    report = audited(clean, replace(DELTA, audits=[broken, *DELTA.audits]))
    finding = next(finding for finding in report.findings if finding.name == "broken")
    assert finding.n_violations is None
    assert finding.error is not None
    assert "no_such_table" in finding.error
    assert {f.n_violations for f in report.findings if f is not finding} == {0}
    assert report.verdict == "unknown"
    lost = planted(clean, root, delivery=removed(delivery(clean, "S", "P", 1)))
    assert [run.verdict for run in audited(lost, replace(DELTA, audits=[broken])).runs] == ["unknown", "invalid"]


def test_a_store_whose_runs_are_not_over_is_not_decided(clean: Store) -> None:
    class Unfinished(StoreReader):
        def is_finished(self) -> bool:
            return False

    assert audit_store(Unfinished(clean.session, clean.root), DELTA).verdict == "unknown"


def test_audits_describe_themselves() -> None:
    described = dict(describe())
    assert list(described)[:3] == ["exactly_once", "source_order", "conf_implies_delivered"]
    assert described["level_2"].endswith("(delta only)")
    assert not any(summary.endswith("(forwarding only)") for summary in described.values())


def test_a_publication_on_a_link_at_an_unsubscription_is_not_requested(sail: Session, root: Path) -> Planting:
    """A's publication needs 4 rounds, G's 2. In run 0, D pauses from round 84 to 90 and unsubscribes in round 90."""
    parts = scenario(
        protocol={"name": "epidemic"}, overlay={"links": [["A", "D", 4], ["D", "G", 2]]},
        workload={
            "subscriptions": [{"at": "D", "round": 0, "topic": "a", "until": 90}],
            "publications": [{"at": "G", "round": 80, "topic": "a"}, {"at": "A", "round": 84, "topic": "a"}],
        },
        time={"rounds": 300},
    )  # fmt: skip
    pause = {**parts, "faults": [{"kind": "pause", "node": "D", "round": 84, "until": 90}]}
    store = run_all(run_configs([pause, parts]), sail, root)
    requested = StoreReader(sail, store.root).sql("select run_id, source_name from receiver").collect()
    assert sorted(map(tuple, requested)) == [(0, "G"), (1, "A"), (1, "G")]
    runs, lost = yield [Plant(store), Plant(store, delivery=removed("run_id = 1 and latency_rounds = 4"))]
    assert runs.verdict == "valid"
    assert [run for run, *_ in lost.found("exactly_once")] == [1]
