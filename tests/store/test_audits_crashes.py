"""Audits, verdicts and views of runs with crashes: what is excused, what is due all the same, planted violations.

    P1 - A - B - C - S1        S1 and S2 subscribe; P1 publishes in rounds 30, 33, ..., 45; δ = 1
             |
             S2

A crash is detected after 5 rounds; a node that comes back is OPERATIONAL 6 rounds later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.copies import Plant, Planting
from typer.testing import CliRunner

from pipelines.audits.run import record
from pipelines.cli.app import app
from pipelines.cli.verdict import print_findings, verdict_line
from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.result import Result
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import (
    Change,
    added,
    audited,
    copied,
    planted,
    removed,
    replaced,
    rows,
    run_all,
    run_configs,
    scenario,
)
from pipelines.why.compare_node import compare_node

LINKS = [["P1", "A"], ["A", "B"], ["B", "C"], ["C", "S1"], ["B", "S2"]]
WORKLOAD = {
    "subscriptions": [{"at": name, "round": 1, "topic": "t"} for name in ("S1", "S2")],
    "publications": [{"at": "P1", "round": 30 + 3 * place, "topic": "t"} for place in range(6)],
}
BACK, FOR_GOOD, SUBSCRIBER, PUBLISHER, TWICE, BEYOND = range(6)
"""The runs: B comes back, C does not; S1 is down; P1 is; B crashes again while it recovers; A and B are down both."""


def crash(node: str, round_: int, until: int | None = None) -> dict[str, Any]:
    back = {} if until is None else {"until": until}
    return {"kind": "crash", "node": node, "round": round_, **back}


CRASHES = {
    BACK: [crash("B", 34, 46)],
    FOR_GOOD: [crash("C", 34)],
    SUBSCRIBER: [crash("S1", 35, 49)],
    PUBLISHER: [crash("P1", 37, 50)],
    TWICE: [crash("B", 34, 44), crash("B", 46, 60)],
    BEYOND: [crash("A", 34, 50), crash("B", 35, 60)],
}


def network(faults: list[dict[str, Any]], protocol: str = "delta") -> dict[str, Any]:
    given = {"name": protocol, **({"delta": 1} if protocol == "delta" else {})}
    return scenario(
        protocol=given, overlay={"links": LINKS}, workload=WORKLOAD, faults=faults, time={"rounds": 200}
    )  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits_crashes")


@pytest.fixture(scope="module")
def clean(sail: Session, root: Path) -> Store:
    return run_all(run_configs([network(faults) for faults in CRASHES.values()]), sail, root, commit_every=4)


@pytest.fixture(scope="module")
def plain(sail: Session, root: Path) -> Store:
    """Protocol forwarding: without a crash, and with C down for a while."""
    return run_all(run_configs([network([], "forwarding"), network([crash("C", 34, 40)], "forwarding")]), sail, root)


@pytest.fixture(scope="module")
def ids(clean: Store) -> dict[str, int]:
    return {row.name: row.node_id for row in clean.read("node").where("run_id = 0").collect()}


@pytest.fixture(scope="module")
def reader(clean: Store) -> StoreReader:
    return StoreReader(clean.session, clean.root)


def ask(reader: StoreReader, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in reader.sql(text).collect()), key=repr)


def test_within_the_bound_nothing_is_broken_and_beyond_it_everything_is_excused(clean: Store) -> Planting:
    [runs] = yield [Plant(clean)]
    assert (runs.verdict, runs.broken) == ("valid", set())
    assert [run.within_bound for run in runs.runs] == [True] * 5 + [False]
    assert {run.verdict for run in runs.runs} == {"valid"}
    assert runs.beyond == [(BEYOND, 35, "2 nodes not OPERATIONAL (A, B), δ is 1")]
    assert {row["guarantee"] for row in runs.violations} == {"exactly_once", "conf_implies_delivered"}
    assert {row["run_id"] for row in runs.violations} == {BEYOND}


def test_the_rounds_of_crashes_count(clean: Store) -> Planting:
    [late] = yield [Plant(clean, fault_event=added(run_id=FOR_GOOD, round=150, kind="crash", node_id=3))]
    assert late.runs[FOR_GOOD].rounds == 150


def test_excuses_are_written_down_and_told_apart(clean: Store, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = planted(clean, root, delivery=removed(f"run_id = {BACK} and source_seq = 1"))
    report = audited(store)
    record(report, store)
    assert {row[:2] for row in rows(store, "violation", "run_id", "excused")} == {(BACK, False), (BEYOND, True)}
    assert rows(store, "run", "run_id", "verdict", "within_bound") == [
        (run, "invalid" if run == BACK else "valid", run != BEYOND) for run in CRASHES
    ]
    result = Result(store.root, store.session)
    print_findings(result, report)
    said = capsys.readouterr().out
    assert "exactly_once is broken 2 times: " in said
    assert "exactly_once did not hold 10 times beyond the bound, which is excused: " in said
    assert f"run {BEYOND} went beyond the bound in round 35: 2 nodes not OPERATIONAL (A, B), δ is 1\n" in said
    assert f"    roundtable why {store.root} --run {BACK} --subscriber " in said
    line = verdict_line(result, report, ())
    assert line.startswith("invalid: 1 of 6 runs broke a guarantee (exactly_once 2 times, conf_implies_delivered 2 ")
    assert ", excused (exactly_once 10 times, " in line


def test_what_is_planted_beyond_the_bound_excuses_the_run(clean: Store, ids: dict[str, int]) -> Planting:
    """B is OPERATIONAL again in round 52, after the messages of that round; crashes come before them."""

    lost = removed(f"run_id = {BACK} and source_seq = 1")
    beyond, within = yield [
        Plant(clean, delivery=lost, fault_event=added(run_id=BACK, round=round_, kind="crash", node_id=ids["S2"]))
        for round_ in (52, 53)
    ]
    assert [run[0] for run in beyond.beyond] == [BACK, BEYOND]
    assert beyond.runs[BACK].verdict == "valid"
    assert [run[0] for run in within.beyond] == [BEYOND]
    assert within.runs[BACK].verdict == "invalid"


def test_a_node_that_never_says_operational_excuses_nothing_after_the_grace(
    clean: Store, ids: dict[str, int]
) -> Planting:
    """δ = 1, latency 1, detection after 5 rounds, 5 links: the grace is 2·2·(5 + 2·2 + 0) + 2·5 = 46 rounds.

    B comes back in round 46, so it has to be OPERATIONAL by round 92, if no other node crashes up to then.
    """
    stuck = removed(f"run_id = {BACK} and node_id = {ids['B']} and status = 'OPERATIONAL'")

    lost = removed(f"run_id = {BACK} and source_seq = 1")
    crashes = [added(run_id=BACK, round=round_, kind="crash", node_id=ids["S2"]) for round_ in (92, 93)]
    beyond, within = yield [Plant(clean, node_status=stuck, fault_event=crash, delivery=lost) for crash in crashes]
    assert [run[0] for run in beyond.beyond] == [BACK, BEYOND]
    assert [run[0] for run in within.beyond] == [BEYOND]
    assert within.runs[BACK].verdict == "invalid"


def test_ends_in_time_finds_recoveries_and_calls_that_end_late_or_never(clean: Store, ids: dict[str, int]) -> Planting:
    goes_on = copied(f"run_id = {BACK} and kind = 'PUB' and source_seq = 1 and src = {ids['P1']}", due_round="92")

    stuck = removed(f"run_id = {BACK} and node_id = {ids['B']} and status = 'OPERATIONAL'")
    of_p1 = f"run_id = {BACK} and source = {ids['P1']} and issued_round = 45"
    [number] = [
        row[-1] for row in rows(clean, "publication", "run_id", "issued_round", "source_seq") if row[:2] == (BACK, 45)
    ]
    late, in_time, never = (replaced(of_p1, confirmed_round=round_) for round_ in ("93", "92", "null"))
    crash = added(run_id=BACK, round=80, kind="crash", node_id=ids["P1"])
    changes: list[dict[str, Change]] = [
        {}, {"node_status": stuck}, {"publication": late}, {"publication": in_time},
        {"publication": never, "fault_event": crash},
    ]  # fmt: skip
    copies = yield [Plant(clean, message=goes_on, **of) for of in changes]
    recovery = "recovery of round 46 had to end by round 92, ended never"
    publication = "publication of round 45 had to end by round 92, ended in round 93"
    assert [[row[1:] for row in copy.found("ends_in_time")] for copy in copies] == [
        [], [("B", None, None, recovery)], [("P1", "P1", number, publication)], [], [],
    ]  # fmt: skip


def test_any_crash_is_beyond_what_forwarding_promises(plain: Store) -> None:
    report = audited(plain, "forwarding")
    assert report.beyond == ((1, 34, "a node crashed"),)
    assert [(run.verdict, run.within_bound) for run in report.runs] == [("valid", True), ("valid", False)]
    assert {finding.name: finding.n_excused for finding in report.findings}["exactly_once"] == 5
    # C forgets S1, so that S1 misses all but the first publication.
    text = "select run_id, n_expected, n_missing, delivery_ratio, n_crashes from run_summary"
    assert ask(StoreReader(plain.session, plain.root), text) == [(0, 12, 0, 1.0, 0), (1, 12, 5, 7 / 12, 1)]


def test_who_has_to_get_what(reader: StoreReader) -> None:
    """P1's publications of rounds 30, 33 and 36 are not confirmed before its crash in round 37; it is back too late."""
    text = "select run_id, excuse, count(1) from receiver group by run_id, excuse"
    assert ask(reader, text) == [
        (BACK, None, 12), (FOR_GOOD, None, 12), (SUBSCRIBER, "subscriber_down", 6), (SUBSCRIBER, None, 6),
        (PUBLISHER, "publisher_crashed", 6), (TWICE, None, 12), (BEYOND, None, 12),
    ]  # fmt: skip
    assert ask(reader, "select distinct run_id, subscriber_name, excuse from excused_delivery where run_id = 2") == [
        (SUBSCRIBER, "S1", "subscriber_down")
    ]
    # The publication of round 30 came in round 34, in time, but S1 was down before P1 had its confirmation.
    first = "select source_seq, delivery_round from excused_delivery where run_id = 2 and source_seq <= 2"
    assert ask(reader, first) == [(1, 34), (2, None)]


def test_excused_deliveries_may_be_lost_and_others_may_not(clean: Store, ids: dict[str, int]) -> Planting:
    at_s2 = f"subscriber = {ids['S2']} and source_seq = 1 and run_id in ({BACK}, {SUBSCRIBER}, {PUBLISHER})"
    [copy] = yield [Plant(clean, delivery=removed(at_s2))]
    for name in ("exactly_once", "conf_implies_delivered"):
        lost = [row[:4] for row in copy.found(name) if row[0] != BEYOND]
        assert lost == [(BACK, "S2", "P1", 1), (SUBSCRIBER, "S2", "P1", 1)]


def test_going_past_a_node_that_is_operational_is_found(
    clean: Store, reader: StoreReader, ids: dict[str, int]
) -> Planting:
    """B is down from round 34 on and sends its first REJOIN in round 50 or so; A and C are connected meanwhile."""
    pair = f"run_id = {BACK} and kind = 'PUB' and src = {ids['A']} and dst = {ids['C']}"
    sent = f"select min(sent_round), max(sent_round) from message where {pair}"
    [(first, last)] = ask(reader, sent)
    rejoin = f"select min(sent_round) from message where run_id = {BACK} and kind = 'REJOIN' and src = {ids['B']}"
    [(back,)] = ask(reader, rejoin)
    assert 34 < first <= last < back < 52, "a bypass was used, and B was OPERATIONAL* before it was OPERATIONAL"
    one = f"{pair} and sent_round = {first} and source_seq = 1"
    is_wrong = {33: True, 34: False, back - 1: False, back: True, 60: True}
    none, *copies = yield [
        Plant(clean), *(Plant(clean, message=copied(one, sent_round=str(round_))) for round_ in is_wrong),
    ]  # fmt: skip
    assert none.found("no_operational_skipped") == []
    for copy, wrong in zip(copies, is_wrong.values(), strict=True):
        row = (BACK, "B", "P1", 1, "PUB from A to C went past it")
        assert copy.found("no_operational_skipped") == [row] * wrong


def entry(ids: dict[str, int], run: int, node: str, subscription: int) -> str:
    return f"run_id = {run} and node_id = {ids[node]} and subscription_id = {subscription}"


def test_the_state_of_recovered_nodes_is_told_by_name(clean: Store, ids: dict[str, int]) -> Planting:
    """S1's subscription is 0; B is near it, A is far from it."""
    link = f"run_id = {BACK} and node_id = {ids['B']} and (a = {ids['S2']} or b = {ids['S2']})"
    lost, far, cut = yield [
        Plant(clean, state_routing_entry=removed(entry(ids, BACK, "B", 0))),
        Plant(clean, state_routing_entry=removed(entry(ids, BACK, "A", 0))),
        Plant(clean, state_topology=removed(link)),
    ]
    detail = "subscription 0 of S1 has no entry"
    assert lost.found("level_1") == [(BACK, "B", None, None, detail)]
    assert lost.found("recovered_state") == [(BACK, "B", None, None, f"recovered in round 52: {detail}")]
    assert far.found("level_2") == [(BACK, "A", None, None, detail)]
    assert far.found("recovered_state") == []
    [row] = cut.found("recovered_state")
    assert row[:2] == (BACK, "B")
    assert row[4].startswith("recovered in round 52: TOP lacks the link ")


def test_what_nodes_know_of_one_that_is_down_is_due_all_the_same(clean: Store, ids: dict[str, int]) -> Planting:
    """C is down for good, with S1 behind it: B's way to S1 is via S1 itself now."""
    link = f"run_id = {FOR_GOOD} and node_id = {ids['B']} and (a = {ids['S1']} or b = {ids['S1']})"
    gone, responsible, cut, far = yield [
        Plant(clean, state_routing_entry=removed(entry(ids, FOR_GOOD, "B", 0))),
        Plant(clean, state_routing_entry=replaced(entry(ids, FOR_GOOD, "B", 0), responsible=str(ids["C"]))),
        Plant(clean, state_topology=removed(link)),
        Plant(clean, state_routing_entry=replaced(entry(ids, FOR_GOOD, "A", 0), origin=str(ids["S2"]))),
    ]
    assert gone.found("level_1") == [(FOR_GOOD, "B", None, None, "subscription 0 of S1 has no entry")]
    detail = "subscription 0 of S1 has an entry via C, the way is via S1"
    assert responsible.found("level_1") == [(FOR_GOOD, "B", None, None, detail)]
    [row] = cut.found("join_consistency")
    assert row[:2] == (FOR_GOOD, "B")
    # Far entries, too, name nodes that are down: A's asks for C, as B's does.
    detail = "subscription 0 of S1 has an entry from S2, that of B asks for C"
    assert far.found("level_2") == [(FOR_GOOD, "A", None, None, detail)]


def test_what_crashes_leave_undecided_is_not_judged(clean: Store, ids: dict[str, int]) -> Planting:
    """An unsubscription without a confirmation; the links of a node whose join point crashed before it was joined."""
    began = replaced(f"run_id = {BACK} and subscription_id = 0", unsubscribed_round="60")
    lost = removed(f"run_id = {BACK} and subscription_id = 0 and node_id in ({ids['A']}, {ids['C']})")
    apart = removed(f"run_id in ({BACK}, {FOR_GOOD}) and node_id = {ids['S2']} and status = 'VALID_JOINED'")
    ending, joining = yield [
        Plant(clean, subscription=began, state_routing_entry=lost), Plant(clean, node_status=apart),
    ]  # fmt: skip
    assert ending.found("level_1") == ending.found("level_2") == []
    assert {row[0] for row in joining.found("join_consistency")} == {FOR_GOOD}


def test_nothing_pending_finds_every_waiting_message(clean: Store, ids: dict[str, int]) -> Planting:
    of_b = f"run_id = {BACK} and node_id = {ids['B']}"
    at_a = {"run_id": BACK, "node_id": ids["A"]}
    asked, waiting, recovering = yield [
        Plant(clean, state_synch=replaced(f"{of_b} and peer = {ids['A']}", is_answered="false")),
        Plant(
            clean,
            state_peer=replaced(f"{of_b} and peer = {ids['C']}", status="'WAITING'"),
            state_syn_request=added(**at_a, peer=ids["B"]),
            state_call=added(**at_a, source_seq=7, kind="publish"),
            state_join_request=added(**at_a, joiner=ids["S2"], source_seq=1),
        ),
        Plant(clean, node_status=removed(f"{of_b} and status = 'OPERATIONAL'")),
    ]
    assert asked.told("nothing_pending") == [("B", "still waits for routing information from A")]
    assert waiting.told("nothing_pending") == [
        ("A", "still has to answer the join of S2"),
        ("A", "still holds back a call: publish"),
        ("A", "still owes routing information to B"),
        ("B", "still waits for an answer from C"),
    ]
    assert recovering.told("nothing_pending") == [("B", "came back and is not OPERATIONAL yet")]


def test_how_long_nodes_were_away(reader: StoreReader) -> None:
    text = """select run_id, name, incarnation, crash_round, recovery_round, operational_round, end_round,
        down_rounds, recovering_rounds from node_recovery where run_id in (0, 1, 4)"""
    assert ask(reader, text) == [
        (BACK, "B", 0, 34, 46, 52, 52, 12, 6),
        (FOR_GOOD, "C", 0, 34, None, None, None, None, None),
        (TWICE, "B", 0, 34, 44, None, 46, 10, None),
        (TWICE, "B", 1, 46, 60, 66, 66, 14, 6),
    ]
    text = "select first_round, end_round, n_not_operational from outage where run_id = 5"
    [start, both, *rest] = ask(reader, text)
    assert (start, both[0], both[2]) == ((34, 35, 1), 35, 2)
    assert rest[-1] == (rest[-1][0], None, 0)
    text = "select round, n_crashes, n_recoveries, n_not_operational from round_summary where run_id = 4"
    crashes = [(34, 1, 0, 1), (44, 0, 1, 1), (46, 1, 0, 1), (60, 0, 1, 1)]
    assert ask(reader, f"{text} and n_crashes + n_recoveries > 0") == crashes


def test_timers_are_no_messages(reader: StoreReader) -> None:
    """The three neighbours of B get reports of its crash."""
    assert ask(reader, "select count(1) from sent_message where run_id = 0 and src = dst and kind = 'DETECT'") == [(3,)]
    assert ask(reader, "select round, n_timers from round_summary where run_id = 0 and n_timers > 0") == [(39, 3)]
    assert ask(reader, "select * from link_load where kind = 'DETECT'") == []
    texts = (
        "select sum(n_sent) from node_load where run_id = 0",
        "select n_messages from run_summary where run_id = 0",
        "select sum(n_sent) from round_summary where run_id = 0",
        "select sum(n_messages) from link_load where run_id = 0",
        "select count(1) from sent_message where run_id = 0 and src <> dst",
    )
    assert len({ask(reader, text)[0] for text in texts}) == 1
    last = "select n_in_flight from in_flight_round where run_id = 0 order by round desc limit 1"
    assert ask(reader, last) == [(0,)]
    assert ask(reader, "select publisher_crash_round from unconfirmed_publication where run_id = 3") == [(37,)] * 3


def test_a_node_is_compared_before_its_crash_after_its_recovery_and_at_the_end(reader: StoreReader) -> None:
    rows = {row["table_name"]: row for row in compare_node(reader, BACK, "B").to_pylist()}
    path = rows["state_path"]
    assert (path["crash_round"], path["operational_round"], path["incarnation"]) == (34, 52, 0)
    assert path["before_round"] < 34 < 52 <= path["after_round"] <= path["end_round"]
    for name, size in (("state_path", 6), ("state_topology", 5), ("state_routing_entry", 2)):
        assert [rows[name][of] for of in ("n_before", "n_after", "n_same", "n_end")] == [size] * 4
    assert (rows["state_status"]["n_before"], rows["state_status"]["n_after"]) == (0, 1)
    durable = {row["table_name"]: row for row in compare_node(reader, FOR_GOOD, "C").to_pylist()}
    assert (durable["state_path"]["n_after"], durable["state_path"]["n_end"]) == (None, 0)
    assert durable["state_topology"]["n_end"] == durable["state_topology"]["n_before"] == 4
    twice = compare_node(reader, TWICE, "B").to_pylist()
    assert {(row["incarnation"], row["after_round"] is None) for row in twice} == {(0, True), (1, False)}
    assert compare_node(reader, BACK, "A").num_rows == 0
    with pytest.raises(QueryError, match="node 'S9' does not exist in run 0; known: "):
        compare_node(reader, BACK, "S9")
    with pytest.raises(QueryError, match="run 9 does not exist"):
        compare_node(reader, 9, "A")


def test_the_command_prints_the_comparison_and_says_what_it_lacks(clean: Store, reader: StoreReader) -> None:
    def command(run: int, node: str) -> tuple[int, str, str]:
        arguments = ["compare-node", str(clean.root), "--run", str(run), "--node", node, "--format", "csv"]
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.stdout, result.stderr

    code, printed, said = command(BACK, "B")
    rows = compare_node(reader, BACK, "B")
    lines = ["".join(f",{'' if value is None else value}" for value in row.values())[1:] for row in rows.to_pylist()]
    assert (code, printed.splitlines(), said) == (0, [",".join(rows.column_names), *lines], "")
    code, printed, said = command(BACK, "A")
    assert (code, printed.count("\n")) == (0, 1)
    assert said == "nothing to compare: A did not crash in run 0; view node_recovery has the crashes\n"
    code, printed, said = command(BACK, "BB")
    assert (code, printed) == (64, "")
    assert said.startswith("error: node 'BB' does not exist in run 0; did you mean 'B'? known: ")
