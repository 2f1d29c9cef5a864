"""Link faults: what becomes of messages, the same for the same seed, and what that means for the bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.result import Result
from pipelines.testing import rows, run_all, run_configs, scenario

LINE = [["A", "B"], ["B", "C"], ["C", "D"]]
PARTS = scenario(
    protocol={"name": "forwarding"},
    overlay={"links": LINE},
    workload={
        "subscriptions": [{"at": "D", "round": 0, "topic": "t"}],
        "publications": [{"at": "A", "round": 10 + place, "topic": "t"} for place in range(60)],
    },
    time={"rounds": 200},
)
LOSSES: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "rate 0": [{"kind": "loss", "rate": 0.0}],
    "rate 0.1": [{"kind": "loss", "rate": 0.1, "kinds": ["PUB"]}],
    "rate 0.3": [{"kind": "loss", "rate": 0.3, "kinds": ["PUB"]}],
    "other kind": [{"kind": "loss", "rate": 1.0, "kinds": ["UNSUB"]}],
    "other way": [{"kind": "loss", "rate": 1.0, "kinds": ["PUB"], "links": [["C", "B"]], "direction": "forward"}],
    "window": [
        {"kind": "loss", "rate": 1.0, "links": [["B", "C"]], "direction": "forward", "round": 20, "until": 30},
        {"kind": "loss", "rate": 1.0, "links": [["D", "C"]], "round": 25, "until": 35},
    ],
    "break": [{"kind": "break", "links": [["B", "C"]], "round": 20, "until": 30}],
    "broken one way": [{"kind": "break", "links": [["C", "B"]], "direction": "forward", "round": 5}],
    "partition": [{"kind": "partition", "groups": [["A", "B"]], "round": 20, "until": 30}],
    "cut": [{"kind": "partition", "links": [["B", "C"]], "round": 20, "until": 30}],
    "two partitions": [
        {"kind": "partition", "groups": [["A", "C"], ["B"]], "round": 40, "until": 45},
        {"kind": "partition", "groups": [["C", "D"]], "round": 42, "until": 50},
    ],
    "delay": [{"kind": "delay", "rounds": [0, 6], "rate": 0.3, "round": 20, "until": 50}],
    "reorder": [{"kind": "delay", "rounds": [1, 6], "rate": 0.3, "kinds": ["PUB"], "reorder": True}],
    "duplicate": [{"kind": "duplicate", "rate": 1.0, "links": [["C", "D"]], "kinds": ["PUB"]}],
    "some late copies": [{"kind": "duplicate", "rate": 0.2, "links": [["C", "D"]], "kinds": ["PUB"], "after": [2, 4]}],
    "pause": [{"kind": "pause", "node": "C", "round": 20, "until": 40}],
    "pause of a source": [{"kind": "pause", "node": "A", "round": 20, "until": 40}],
    "pause and crash": [
        {"kind": "pause", "node": "C", "round": 20, "until": 40},
        {"kind": "crash", "node": "C", "round": 30, "until": 31},
    ],
    "bursts": [{"kind": "loss", "rate": 1.0, "kinds": ["PUB"], "burst": {"good": 20.0, "bad": 5.0}}],
}
RUNS = dict(zip(LOSSES, range(len(LOSSES)), strict=True))


@pytest.fixture(scope="module")
def lossy(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """All losses as runs of one job, with one seed."""
    configs = run_configs([{**PARTS, "faults": faults} for faults in LOSSES.values()], [7] * len(LOSSES))
    result = Result(run_all(configs, sail, tmp_path_factory.mktemp("lossy")).root, sail)
    result.audit()
    return result


def found(result: Result, query: str, **values: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in result.sql(query.format(**values)).collect())


def lost(result: Result, run: str) -> set[tuple[Any, ...]]:
    query = "select src, sent_round, source_seq from message where run_id = {run} and fate = 'lost_link'"
    return set(found(result, query, run=RUNS[run]))


def n_delivered(result: Result, run: str) -> int:
    [(number,)] = found(result, "select count(1) from delivery where run_id = {run}", run=RUNS[run])
    return int(number)


@pytest.mark.parametrize("run", ["none", "rate 0", "other kind", "other way", "broken one way"])
def test_nothing_is_lost_that_is_not_meant(lossy: Result, run: str) -> None:
    assert not lost(lossy, run)
    assert n_delivered(lossy, run) == 60
    query = "select verdict, within_bound, rounds from run where run_id = {run}"
    assert found(lossy, query, run=RUNS[run]) == [("valid", True, 72)]


def test_what_is_lost_at_a_rate_is_lost_at_every_higher_one(lossy: Result) -> None:
    few, many = lost(lossy, "rate 0.1"), lost(lossy, "rate 0.3")
    reached = {(src, seq) for src, _, seq in few if (src, seq) not in {(s, q) for s, _, q in many}}
    # What is missing among the many was lost on an earlier link already.
    assert all(any(other < src and seq == lost_seq for other, _, lost_seq in many) for src, seq in reached)
    assert 60 - len(few) == n_delivered(lossy, "rate 0.1")
    assert 60 - len(many) == n_delivered(lossy, "rate 0.3")
    assert 2 < len(few) < len(many) < 55


def test_a_message_meets_the_faults_of_the_round_in_which_it_is_sent(lossy: Result) -> None:
    on_the_first = {(1, sent, sent - 10) for sent in range(20, 30)}
    on_the_second = {(2, sent, sent - 11) for sent in range(25, 35) if not 20 <= sent - 1 < 30}
    numbered = {(src, sent, sent - 10 - src + 1) for src, sent, _ in on_the_first | on_the_second}
    assert {(src, sent, seq) for src, sent, seq in lost(lossy, "window")} == numbered
    rows = found(lossy, "select round, kind, src, dst from fault_event where run_id = {run}", run=RUNS["window"])
    assert rows == [
        (20, "loss", 1, 2), (25, "loss", 2, 3), (25, "loss", 3, 2),
        (30, "loss_end", 1, 2), (35, "loss_end", 2, 3), (35, "loss_end", 3, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("run", ["break", "partition", "cut"])
def test_a_broken_link_loses_what_is_sent_on_it_until_it_is_whole(lossy: Result, run: str) -> None:
    assert lost(lossy, run) == {(1, sent, sent - 10) for sent in range(20, 30)}
    assert n_delivered(lossy, run) == 50
    kind = "break" if run == "break" else "partition"
    query = "select round, kind, src, dst from fault_event where run_id = {run}"
    events = [(20, kind, 1, 2), (20, kind, 2, 1), (30, f"{kind}_end", 1, 2), (30, f"{kind}_end", 2, 1)]
    assert found(lossy, query, run=RUNS[run]) == events


def test_partitions_at_once_split_the_groups_of_each(lossy: Result) -> None:
    """{A, C}, {B}, {D} in rounds 40 and 41; then each by itself, and {A, B} from {C, D} for five rounds more."""
    cut = {(0, 1): range(40, 45), (1, 2): range(40, 50), (2, 3): range(40, 45)}
    sent = found(lossy, "select src, dst, sent_round, source_seq from message where run_id = {run} and kind = 'PUB'",
                 run=RUNS["two partitions"])  # fmt: skip
    wanted = {(src, round_, seq) for src, dst, round_, seq in sent if round_ in cut[src, dst]}
    assert lost(lossy, "two partitions") == wanted
    assert len({src for src, _, _ in wanted}) == 3


def extra(result: Result, run: str) -> dict[tuple[int, int], int]:
    """By sender and round of sending of publications: rounds that they took longer than the link's one."""
    query = "select src, sent_round, due_round - sent_round - 1 from message where run_id = {run} and kind = 'PUB'"
    return {(src, sent): rounds for src, sent, rounds in found(result, query, run=RUNS[run])}


def test_a_delay_in_order_holds_up_what_is_behind_it_and_nothing_else(lossy: Result) -> None:
    rounds = extra(lossy, "delay")
    assert n_delivered(lossy, "delay") == 60
    assert {0, 1, 2, 3, 4} < set(rounds.values()) <= set(range(7))
    for (src, sent), longer in rounds.items():
        assert longer == 0 or 20 <= sent < 50 + 6
        before = rounds.get((src, sent - 1), 0)
        assert longer >= before - 1
    grown = {(src, sent) for (src, sent), longer in rounds.items() if longer > rounds.get((src, sent - 1), 0) - 1}
    assert 0.1 < sum(20 <= sent < 50 and rounds[src, sent] > 0 for src, sent in grown) / 90 < 0.4
    query = "select verdict, within_bound from run where run_id = {run}"
    assert found(lossy, query, run=RUNS["delay"]) == [("valid", True)]


def test_a_delay_that_reorders_lets_later_ones_overtake(lossy: Result) -> None:
    rounds = extra(lossy, "reorder")
    assert n_delivered(lossy, "reorder") == 60
    assert set(rounds.values()) == set(range(7))
    assert 0.2 < sum(longer > 0 for longer in rounds.values()) / len(rounds) < 0.4
    query = "select distinct guarantee, excused from violation where run_id = {run}"
    assert found(lossy, query, run=RUNS["reorder"]) == [("source_order", True)]


def test_a_copy_comes_right_behind_its_original_or_later(lossy: Result) -> None:
    query = """select source_seq, count(1), max(due_round) - min(due_round), max(message_id) - min(message_id)
      from message where run_id = {run} and kind = 'PUB' and src = 2 group by source_seq"""
    assert found(lossy, query, run=RUNS["duplicate"]) == [(seq, 2, 0, 1) for seq in range(1, 61)]
    assert n_delivered(lossy, "duplicate") == 120
    late = found(lossy, query, run=RUNS["some late copies"])
    assert {rounds for _, copies, rounds, _ in late if copies == 2} == {2, 3, 4}
    assert 4 < sum(copies == 2 for _, copies, _, _ in late) < 24
    for run in ("duplicate", "some late copies"):
        query = "select distinct guarantee, excused from violation where run_id = {run}"
        assert found(lossy, query, run=RUNS[run]) == [("exactly_once", True)]


def test_a_node_handles_the_messages_of_its_pause_in_order(lossy: Result) -> None:
    query = "select source_seq, due_round from message where run_id = {run} and kind = 'PUB' and dst = 2"
    met = [(seq, 40 if 20 <= seq + 11 < 40 else seq + 11) for seq in range(1, 61)]
    assert found(lossy, query, run=RUNS["pause"]) == met
    assert n_delivered(lossy, "pause") == 60
    query = "select verdict, within_bound from run where run_id = {run}"
    assert found(lossy, query, run=RUNS["pause"]) == [("valid", True)]
    query = "select round, kind, node_id from fault_event where run_id = {run}"
    assert found(lossy, query, run=RUNS["pause"]) == [(20, "pause", 2), (40, "pause_end", 2)]


def test_a_node_that_pauses_starts_nothing_by_itself(sail: Session, tmp_path: Path) -> None:
    """Dispatchers gossip at intervals; the one that pauses sends nothing until it resumes."""
    parts = {
        **PARTS,
        "protocol": {"name": "epidemic", "recovery": "push", "gossip_rounds": 3},
        "faults": [{"kind": "pause", "node": "C", "round": 20, "until": 40}],
        "workload": {
            "subscriptions": [{"at": "D", "topic": "t"}, {"at": "A", "topic": "t"}],
            "publications": [{"at": "A", "round": 10, "topic": "t"}, {"at": "D", "round": 11, "topic": "t"}],
        },
        "time": {"rounds": 55},
    }
    store = run_all(run_configs([parts]), sail, tmp_path)
    sent = {round_ for src, round_ in rows(store, "message", "src", "sent_round") if src == 2}
    assert not sent & set(range(20, 40))
    gossip = [row for row in rows(store, "message", "kind", "src", "sent_round") if row[:2] == ("GOSSIP", 2)]
    assert {row[2] < 20 for row in gossip} == {True, False}


def test_calls_of_a_node_that_pauses_come_after_it(lossy: Result) -> None:
    query = "select source_seq, issued_round from publication where run_id = {run}"
    issued = [(seq, 40 if 20 <= seq + 9 < 40 else seq + 9) for seq in range(1, 61)]
    assert found(lossy, query, run=RUNS["pause of a source"]) == issued
    assert n_delivered(lossy, "pause of a source") == 60


def test_a_crash_ends_a_pause_and_loses_what_waits(lossy: Result) -> None:
    query = "select source_seq, due_round from message where run_id = {run} and fate = 'lost_crash' and kind = 'PUB'"
    assert found(lossy, query, run=RUNS["pause and crash"]) == [(seq, 30) for seq in range(9, 20)]


def test_bursts_lose_what_is_sent_while_a_link_is_bad_and_nothing_else(lossy: Result) -> None:
    query = "select src, dst, round, kind from fault_event where run_id = {run} and kind like 'burst%'"
    change: dict[tuple[int, int], dict[int, str]] = {}
    for src, dst, round_, kind in found(lossy, query, run=RUNS["bursts"]):
        change.setdefault((src, dst), {})[round_] = kind
    query = "select src, dst, sent_round, source_seq from message where run_id = {run} and kind = 'PUB'"
    sent = found(lossy, query, run=RUNS["bursts"])
    newest = {row: max((r for r in change[row[:2]] if r <= row[2]), default=None) for row in sent}
    bad = {row for row, round_ in newest.items() if round_ is not None and change[row[:2]][round_] == "burst"}
    assert 5 < len(bad) < len(sent) - 5
    assert lost(lossy, "bursts") == {(src, round_, seq) for src, _, round_, seq in bad}


@pytest.mark.parametrize("run", ["rate 0.1", "rate 0.3", "window", "bursts"])
def test_a_lost_message_puts_the_run_beyond_the_bound_and_excuses_it(lossy: Result, run: str) -> None:
    """Without confirmations, service begins with the first delivery: nothing is promised before."""
    query = "select verdict, within_bound from run where run_id = {run}"
    assert found(lossy, query, run=RUNS[run]) == [("valid", False)]
    came = {seq for (seq,) in found(lossy, "select source_seq from delivery where run_id = {run}", run=RUNS[run])}
    query = "select source_seq, guarantee, excused from violation where run_id = {run}"
    missing = [(seq, "exactly_once", True) for seq in range(min(came), 61) if seq not in came]
    assert found(lossy, query, run=RUNS[run]) == missing != []


def test_other_runs_change_no_draw(lossy: Result, sail: Session, tmp_path: Path) -> None:
    alone = run_all(run_configs([{**PARTS, "faults": LOSSES["rate 0.3"]}], [7]), sail, tmp_path)
    columns = ("src", "sent_round", "source_seq", "fate")
    assert {row[:3] for row in rows(alone, "message", *columns) if row[3] == "lost_link"} == lost(lossy, "rate 0.3")
