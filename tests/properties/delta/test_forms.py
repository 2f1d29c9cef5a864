"""The node program of `delta` leaves the rows of its dataflow form: messages with ids, deliveries, states, all tables.

A disturbed round of the dataflow form takes the embedded Sail half a second, so that few are played; ``--schedules
2000`` plays so many random schedules, and the other runs as dataflow, too. ``tests/perf/forms.py`` plays more, and the
shipped scenarios.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from oracles.delta.generator import random_run
from support import forms
from support.delta.schedules import as_runs, short_schedules
from support.delta.touched import Touched, noted
from support.engines import disturbed
from support.forms import cut, differences, store_differences

from pipelines.contract.forms import AskedForm
from pipelines.engines.session import Session
from pipelines.protocols import protocol_form
from pipelines.scenario.load import RunConfig
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import audited, broken, rows, run_all, run_configs
from pipelines.why.telling import story

HUNTED = Path(__file__).parents[2] / "mutation" / "hunted"
MIDWAY = 45
"""A round in which messages are processed, nodes recover and joins are under way."""
MOST_IN_A_JOB = 100
JOINS: dict[str, Any] = {
    "name": "joins",
    "protocol": {"name": "delta", "delta": 2},
    "overlay": {"links": [["A", "B", 3], ["B", "C", 3], ["C", "J0"], ["J0", "J1"]]},
    "workload": {
        "subscriptions": [{"at": "J1", "round": 14, "topic": "t"}, {"at": "A", "topic": "t"}],
        "publications": [{"at": "A", "round": 60, "topic": "t"}, {"at": "J0", "round": 15, "topic": "t"}],
        "joins": [{"node": "J0", "to": "C", "round": 10}, {"node": "J1", "to": "J0", "round": 14}],
    },
    "time": {"rounds": 500},
}
"""J1 asks J0 to let it in before J0 itself has joined; J0 is to publish before."""


ACCEPTED: dict[str, Any] = {
    "name": "accepted",
    "protocol": {"name": "delta", "delta": 2, "detection_rounds": 3},
    "overlay": {"links": [["A", "B", 3], ["B", "C", 3], ["C", "J"], ["J", "J0"]]},
    "workload": {
        "subscriptions": [
            {"at": "C", "round": 0, "topic": "t"},
            {"at": "A", "round": 0, "topic": "t", "until": 31},
            {"at": "A", "round": 31, "topic": "u"},
        ],
        "publications": [
            {"at": "A", "round": 25, "topic": "t"},
            {"at": "A", "round": 31, "topic": "t"},
            {"at": "A", "round": 100, "topic": "t"},
            {"at": "J0", "round": 40, "topic": "t"},
            {"at": "C", "round": 120, "topic": "t"},
        ],
        "joins": [{"node": "J0", "to": "J", "round": 10}],
    },
    "faults": [
        {"kind": "crash", "node": "A", "round": 20, "until": 30},
        {"kind": "crash", "node": "A", "round": 32, "until": 50},
        {"kind": "crash", "node": "J", "round": 5},
    ],
    "time": {"rounds": 500},
}
"""A recovers in rounds 30 and 31; J, the join point of J0, is down for good."""
SHORT_CRASH = {
    "name": "short_crash",
    "protocol": {"name": "delta", "delta": 1, "detection_rounds": 4},
    "overlay": {"links": [["S", "M", 3], ["M", "N", 1]]},
    "workload": {
        "subscriptions": [{"at": "S", "round": 0, "until": 11, "topic": "t"}, {"at": "S", "round": 11, "topic": "u"}],
        "publications": [{"at": "N", "round": 100, "topic": "u"}],
        "joins": [{"node": "N", "to": "M", "round": 10}],
    },
    "faults": [{"kind": "crash", "node": "M", "round": 13, "until": 15}],
    "time": {"rounds": 500},
}
"""N joins at M, and sends SYN_REQUEST to M after the crash of M (rule R28)."""
OLD_AND_NEW = {
    "name": "older_first",
    "protocol": {"name": "delta", "delta": 1, "detector": "visited"},
    "overlay": {"links": [["D", "C", 1], ["S", "C", 2], ["X", "C", 10], ["C", "J", 2]]},
    "workload": {
        "subscriptions": [{"at": "S", "round": 0, "until": 40, "topic": "u"}, {"at": "D", "round": 38, "topic": "t"}],
        "publications": [{"at": "J", "round": 70, "topic": "t"}],
        "joins": [{"node": "J", "to": "C", "round": 40}],
    },
    "faults": [{"kind": "crash", "node": "X", "round": 90, "until": 92}],
    "time": {"rounds": 500},
}
"""C handles S's UNSUB in the round of J's request, before it; D's SUB is in its ProcessingList, since X is far."""
MET_ON_THE_WAY = {
    "name": "met_on_the_way",
    "protocol": {"name": "delta", "delta": 2, "detection_rounds": 20},
    "overlay": {"links": [["A", "B", 7, 1], ["B", "C", 1, 3]]},
    "workload": {
        "subscriptions": [{"at": "C", "round": 0, "topic": "t"}],
        "publications": [{"at": "A", "round": 250, "topic": "t"}],
    },
    "faults": [
        {"kind": "crash", "node": "A", "round": 101, "until": 102},
        {"kind": "crash", "node": "B", "round": 102},
    ],
    "time": {"rounds": 400},
}
"""In round 130 C gets SYN_REQUEST of A, and the answer of A to its own CON_REQUEST, which A has sent later."""
ASKS_AND_ANSWERS = {
    "name": "asks_and_answers",
    "protocol": {"name": "delta", "delta": 2, "detection_rounds": 1},
    "overlay": {"links": [["J", "B", 3, 1], ["B", "C"]]},
    "workload": {
        "joins": [{"node": "J", "to": "B", "round": 10}],
        "subscriptions": [{"at": "J", "round": 11, "topic": "t"}],
        "publications": [{"at": "C", "round": 60, "topic": "t"}],
    },
    "faults": [
        {"kind": "crash", "node": "C", "round": 2, "until": 3},
        {"kind": "crash", "node": "B", "round": 19, "until": 22},
    ],
    "time": {"rounds": 400},
}
"""In round 24 C gets SYN_REQUEST of J, which joins, and J's answer OPERATIONAL, which J has sent later."""
CROSSED: dict[str, Any] = {
    "name": "crossed",
    "protocol": {"name": "delta", "delta": 2},
    "overlay": {"links": [["A", "B"], ["B", "C", 3]], "start": "joining", "join_root": "B"},
    "workload": {
        "subscriptions": [{"at": "C", "round": 40, "topic": "t"}],
        "publications": [{"at": "A", "round": 60, "topic": "t"}],
    },
    "faults": [{"kind": "crash", "node": node, "round": 2, "until": 3} for node in "AB"],
    "time": {"rounds": 400},
}
"""B answers A's JOIN_REQUEST in round 4, and gets A's STATUS DETACHED in round 5.

In round 7 C gets the report of B's crash, and the answer of B, which has recovered.
"""
ALONE = {
    "name": "alone",
    "protocol": {"name": "delta"},
    "overlay": {"generate": {"kind": "line", "nodes": 1, "prefix": "n"}},
    "workload": {
        "subscriptions": [{"at": "n1", "round": 0, "topic": "t"}],
        "publications": [{"at": "n1", "round": 30, "topic": "t"}],
    },
    "faults": [{"kind": "crash", "node": "n1", "round": 5, "until": 10}],
    "time": {"rounds": 200},
}
CONFIRMED_AS_IT_RECOVERS = {
    "name": "confirmed_as_it_recovers",
    "protocol": {"name": "delta", "delta": 2},
    "overlay": {"links": [["P", "S"], ["S", "R"], ["S", "Z", 6], ["R", "X"], ["X", "Y", 2]]},
    "workload": {
        "subscriptions": [{"at": "Y", "topic": "a"}, {"at": "R", "round": 4, "topic": "a", "until": 60}],
        "publications": [{"at": "P", "round": 46, "topic": "a"}],
    },
    "faults": [
        {"kind": "crash", "node": "S", "round": 6, "until": 12},
        {"kind": "crash", "node": "S", "round": 36, "until": 42},
        {"kind": "crash", "node": "R", "round": 43},
    ],
    "time": {"rounds": 400},
}
"""In round 54 S gets the last CONF of a Guided publication, and the last answer of a synchronisation point (R32)."""

SLOW_BACK = {
    "name": "slow_back",
    "protocol": {"name": "delta", "delta": 2, "detection_rounds": 2},
    "overlay": {"links": [["A", "B", 1, 6], ["B", "C", 1, 9], ["B", "D", 2, 7]]},
    "workload": {
        "subscriptions": [{"at": "C", "topic": "t"}, {"at": "D", "topic": "t"}],
        "publications": [{"at": "A", "round": 20, "topic": "t"}, {"at": "A", "round": 23, "topic": "t"}],
    },
    "faults": [{"kind": "crash", "node": "C", "round": 23, "until": 60}],
    "time": {"rounds": 400},
}
"""C sends CONF in round 22, which takes 9 rounds to B, and crashes in round 23 (rule R21)."""
SLOW_ANSWER = {
    "name": "slow_answer",
    "protocol": {"name": "delta", "delta": 2, "detection_rounds": 1},
    "overlay": {"links": [["D", "C", 3], ["C", "B", 1, 9], ["B", "A", 7, 2], ["D", "E"]]},
    "workload": {
        "subscriptions": [{"at": "E", "topic": "t", "round": 5}],
        "publications": [{"at": "A", "topic": "t", "round": 30}],
    },
    "faults": [
        {"kind": "crash", "node": "B", "round": 0, "until": 2},
        {"kind": "crash", "node": "C", "round": 20},
    ],
    "time": {"rounds": 400},
}
"""A and C request a connection over B, which is down. C's answer takes 11 rounds, and the path from C takes 8.

The report of C's failure follows the answer, with the latency of its request. The last event is in round 55.
"""

_ROUTING = "path routing_entry topology"
_ACCESSED = {
    "handle_faults": (
        f"{_ROUTING} join own_subscription peer processing status syn_request synch tombstone",
        f"{_ROUTING} join peer processing status syn_request synch tombstone",
    ),
    "confirm": ("processing", "processing"),
    "collect_copies": (
        f"{_ROUTING} call join join_request peer processing status synch tombstone",
        f"{_ROUTING} call join join_request peer processing status",
    ),
    "forward_copies": (
        "delivered detector join own_subscription path peer processing routing_entry status tombstone waiting",
        "delivered detector own_subscription processing routing_entry tombstone waiting",
    ),
    "close": (
        f"{_ROUTING} own_subscription peer processing status tombstone waiting",
        "own_subscription routing_entry tombstone topology waiting",
    ),
}
"""The relations that each phase may read, and those that it may write."""


def schedules(first: int, count: int, detector: str) -> list[RunConfig]:
    return as_runs(random_run(seed, detector) for seed in islice(short_schedules(first), count))


@pytest.mark.parametrize("detector", ["identifier", "visited"])
def test_random_crash_schedules(detector: str, sail: Session, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    count = pytestconfig.getoption("schedules") or 0
    runs = schedules(300, count, detector)
    for first in range(0, count, MOST_IN_A_JOB):
        part = numbered(runs[first : first + MOST_IN_A_JOB])
        assert differences("delta", [cut(run, MIDWAY) for run in part], sail, tmp_path / f"midway{first}") == []
        assert differences("delta", part, sail, tmp_path / f"whole{first}") == []


@dataclass(frozen=True)
class Played:
    """Some runs in both forms.

    Attributes:
        steps: The store of the dataflow steps.
        program: The store of the node program.
        touched: The relations that the phases of the dataflow steps read and wrote.
    """

    steps: Store
    program: Store
    touched: Touched


@pytest.fixture(scope="module")
def played(sail: Session, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Played:
    """Crashes, joins, and links with a slow direction.

    A job with an event in 37 rounds takes 22 CPU seconds. All events are early, so that the runs share rounds.
    """
    runs, horizon = run_configs([SLOW_BACK, SLOW_ANSWER, *map(disturbed, ("identifier", "visited"))]), 56
    if pytestconfig.getoption("schedules"):
        struck = {**JOINS, "faults": [{"kind": "crash", "node": "C", "round": 12, "until": 30}]}
        hunted = [yaml.safe_load((HUNTED / f"delta_{name}.yaml").read_text("utf-8")) for name in ("chain", "return")]
        pinned = [JOINS, struck, SHORT_CRASH, MET_ON_THE_WAY, ALONE, CONFIRMED_AS_IT_RECOVERS]
        pinned += [ASKS_AND_ANSWERS, CROSSED]
        runs += run_configs([*hunted, *pinned])
        horizon = 500
    runs, folder = numbered([cut(run, horizon) for run in runs]), tmp_path_factory.mktemp("played")
    with noted() as touched:
        steps, program = (
            run_all(runs, sail, folder, commit_every=14, form=form) for form in ("dataflow", "program")
        )  # fmt: skip
    return Played(steps, program, touched)


def test_crashes_joins_and_a_slow_direction(played: Played) -> None:
    """Phases read and write no other relations than `_ACCESSED` lists; a crash is reported after late messages."""
    assert store_differences("delta", played.steps, played.program) == []
    for name, (may_read, may_write) in _ACCESSED.items():
        reads, writes = played.touched[name]
        assert reads
        assert (name, reads - {*may_read.split()}, writes - {*may_write.split()}) == (name, set(), set())
    assert played.touched["close"][1], "something was confirmed"
    sent = rows(played.program, "message", "run_id", "kind", "sent_round", "due_round")
    reports = [[one[2:] for one in sent if one[:2] == (run, "DETECT")] for run in (0, 1)]
    assert reports == [[(23, 32)], [(0, 7), (0, 9), (20, 21), (20, 23), (20, 31)]]
    report = audited(played.program)
    assert broken(report) == {}
    assert report.runs[0].verdict == "valid"


def test_a_row_that_differs_is_told(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = forms.stored_rows

    def without_first(*given: object) -> list[forms.Row]:
        found = sorted(whole(*given), key=repr)  # type: ignore[arg-type]
        return found[1:] if given[0] is played.program and given[2] == "state_path" else found

    monkeypatch.setattr(forms, "stored_rows", without_first)
    (told,) = store_differences("delta", played.steps, played.program)
    assert (told.table, len(told.dataflow), len(told.program)) == ("state_path", 1, 0)


def test_rows_do_not_depend_on_where_blocks_end(sail: Session, tmp_path: Path) -> None:
    runs = [cut(run, MIDWAY) for run in schedules(500, 3, "visited")]
    stores = [run_all(runs, sail, tmp_path, every, form="program") for every in (1, 7, 50)]
    names = ["message", "delivery", *(f"state_{one.table.name}" for one in protocol_form("delta").states)]
    for name in names:
        by_one, few, many = (rows(store, name) for store in stores)
        assert by_one == few == many, name


@pytest.fixture(params=["dataflow", "program"])
def form(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> AskedForm:
    """The form; dataflow with ``--schedules`` only."""
    if request.param == "dataflow" and not pytestconfig.getoption("schedules"):
        pytest.skip("takes long: with --schedules only")
    return cast(AskedForm, request.param)


def test_a_detached_join_point_asks_once(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """J1 asks J0, which waits for C's answer itself, while another broker has crashed: J0 asks C once (rule R24)."""
    overlay = {"links": [["A", "B", 3], ["B", "C", 3], ["C", "J0", 5], ["J0", "J1"]]}
    faults = [{"kind": "crash", "node": "A", "round": 5, "until": 7}]
    workload = {**JOINS["workload"], "publications": []}
    given = {**JOINS, "overlay": overlay, "workload": workload, "faults": faults}
    store = run_all(run_configs([given]), sail, tmp_path, form=form)
    asked = [sent for kind, sent in rows(store, "message", "kind", "sent_round") if kind == "JOIN_REQUEST"]
    assert sorted(asked) == [10, 14]


def test_a_node_that_is_down_reports_nobody(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """J0 has crashed when C does, to which it has sent its JOIN_REQUEST: no detector of J0 reports C (rule R8)."""
    faults = [
        {"kind": "crash", "node": "J0", "round": 12, "until": 20},
        {"kind": "crash", "node": "C", "round": 13, "until": 16},
    ]
    store = run_all(run_configs([{**JOINS, "faults": faults}]), sail, tmp_path, form=form)
    names = dict(rows(store, "node", "node_id", "name"))
    reports = [
        (src, sent) for kind, src, sent in rows(store, "message", "kind", "src", "sent_round") if kind == "DETECT"
    ]
    assert [names[src] for src, sent in reports if sent == 13] == ["B"]


def test_a_call_accepted_by_a_recovering_node_has_a_row(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """It crashes again, and its calls go with it (R8). The one of J0, which cannot join, still waits (R33)."""
    store = run_all(run_configs([ACCEPTED]), sail, tmp_path, commit_every=10, form=form)
    assert broken(audited(store)) == {}
    names = dict(rows(store, "node", "node_id", "name"))
    published = rows(store, "publication", "source", "issued_round", "confirmed_round")
    assert [(names[source], *row) for source, *row in published] == [
        ("A", 100, 112), ("A", 31, None), ("C", 120, 132),
    ]  # fmt: skip
    subscribed = rows(store, "subscription", "subscriber", "issued_round", "confirmed_round", "unsubscribed_round")
    assert [(names[source], *row) for source, *row in subscribed] == [
        ("A", 0, 14, 31), ("A", 31, None, None), ("C", 0, 12, None),
    ]  # fmt: skip
    reader = StoreReader(sail, store.root)
    lost, waits = (story(reader, 0, "C", source, **which) for source, which in (("A", {"seq": 1}), ("J0", {"call": 2})))
    assert lost.verdict == (
        "lost: A accepted the call in round 31, while recovering from its crash in round 20, and crashed before it"
        " sent a message for the call: A was down (rounds 32 to 49);"
        " excused: A crashed before the publication was confirmed (crash in round 32)"
    )
    assert waits.verdict == (
        "not issued: it still waits at J0, where it is issued once the node has joined and is OPERATIONAL"
    )


def test_a_confirmed_publication_does_not_wait_for_a_failed_recipient(
    form: AskedForm, sail: Session, tmp_path: Path
) -> None:
    """The recipients that S computes again are without a live node, and nobody would confirm the publication."""
    store = run_all(run_configs([CONFIRMED_AS_IT_RECOVERS]), sail, tmp_path, form=form)
    assert broken(audited(store)) == {}
    assert rows(store, "state_processing") == []


def test_a_status_does_not_replace_a_request(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """C answers SYN_REQUEST, so A becomes OPERATIONAL, and J VALID_JOINED (Algorithm 7)."""
    store = run_all(run_configs([MET_ON_THE_WAY, ASKS_AND_ANSWERS]), sail, tmp_path, form=form)
    assert broken(audited(store)) == {}
    assert rows(store, "state_syn_request") == []
    assert rows(store, "state_join", "run_id", "status") == [(1, "VALID_JOINED")]
    assert rows(store, "delivery", "run_id") == [(0,), (1,)]


def test_a_join_point_keeps_the_connection_to_a_node_that_it_has_answered(
    form: AskedForm, sail: Session, tmp_path: Path
) -> None:
    """A is ATTACHED when its STATUS DETACHED arrives. Otherwise B would not forward C's J and SUB to A."""
    store = run_all(run_configs([CROSSED]), sail, tmp_path, form=form)
    report = audited(store)
    assert (report.verdict, broken(report)) == ("valid", {})
    sent = rows(store, "message", "kind", "due_round", "body")
    assert [due for kind, due, body in sent if kind == "STATUS" and "DETACHED" in body] == [5]
    assert len(rows(store, "delivery")) == 1


def test_a_joining_node_issues_one_j_for_two_answers_of_its_join_point(
    form: AskedForm, sail: Session, tmp_path: Path
) -> None:
    """C sends a second JOIN_REQUEST in round 7. A visited list does not show that C has issued its J before."""
    protocol = {**CROSSED["protocol"], "detector": "visited"}
    store = run_all(run_configs([{**CROSSED, "protocol": protocol}]), sail, tmp_path, form=form)
    assert broken(audited(store)) == {}
    joiner = next(node for node, name in rows(store, "node", "node_id", "name") if name == "C")
    sent = rows(store, "message", "kind", "src", "dst", "fate")
    assert [fate for kind, _, dst, fate in sent if (kind, dst) == ("PAR_TOP", joiner)] == ["delivered"] * 2
    assert len([kind for kind, src, *_ in sent if (kind, src) == ("J", joiner)]) == 1


def test_a_node_without_neighbours_recovers_its_own_entry(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """A view without links has the path from the node to itself."""
    store = run_all(run_configs([ALONE]), sail, tmp_path, form=form)
    assert broken(audited(store)) == {}
    entry = rows(store, "state_routing_entry", "origin", "distance", "responsible")
    path = rows(store, "state_path", "target", "path", "responsible")
    assert (entry, path) == ([(0, 0, 0)], [(0, (0,), 0)])
    assert len(rows(store, "delivery")) == 1


def test_a_joining_node_gets_older_messages_before_newer_ones(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """Otherwise the visited lists judge D's SUB a duplicate, and J would publish to nobody (rules R3, R16)."""
    store = run_all(run_configs([OLD_AND_NEW]), sail, tmp_path, form=form)
    assert broken(audited(store)) == {}
    subscriber_and_round = rows(store, "delivery", "subscriber", "round")
    sent = rows(store, "message", "message_id", "kind", "sent_round", "dst")
    joiner = max(dst for *_, dst in sent)
    assert subscriber_and_round == [(0, 73)]
    assert [kind for _, kind, round_, dst in sent if dst == joiner and round_ == 42] == [
        "PAR_TOP", "PAR_SUB", "SUB", "UNSUB",
    ]  # fmt: skip


def test_a_recipient_has_one_row_where_two_nodes_of_its_path_ask_at_once(
    sail: Session, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """In round 25 of this schedule two recovering nodes of one path send SYN_REQUEST to one node (rule R26)."""
    runs = [cut(run, 25) for run in as_runs([random_run(4124, "identifier")])]
    if pytestconfig.getoption("schedules"):
        assert differences("delta", runs, sail, tmp_path / "forms") == []
    store = run_all(runs, sail, tmp_path)
    recipients = rows(store, "state_processing", "node_id", "source", "source_seq", "recipient")
    assert len(recipients) == len(set(recipients)) > 0


def numbered(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Returns runs with the ids of a job of their own."""
    return forms.numbered(runs)
