"""Link faults: what becomes of messages, the same for the same seed, and what that means for the bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import rows, run_all, run_configs, scenario

from pipelines.api import Result
from pipelines.session import Session

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


@pytest.mark.parametrize("run", ["none", "rate 0", "other kind", "other way"])
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
