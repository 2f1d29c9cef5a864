"""One lost message, one dead node or one deregistration holds up nobody else: schedules made against the rules."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import pytest

from pipelines.audits.run import AuditReport
from pipelines.engines.session import Session
from pipelines.result import Result
from pipelines.testing import audited, broken, rows, run_all, run_configs, scenario

NEWS = {"topic": "news"}


def played(
    *, links: list[list[Any]], servers: dict[str, str], clients: dict[str, str], subscriptions: dict[str, int],
    publications: list[tuple[str, int]], faults: tuple[dict[str, Any], ...] = (),
    calls: tuple[dict[str, Any], ...] = (), topics: dict[str, Any] | None = None, rounds: int = 1800,
) -> dict[str, Any]:  # fmt: skip
    """Returns a scenario of the protocol."""
    return scenario(
        protocol={"name": "repository", **({"topics": topics} if topics else {})},
        overlay={
            "links": links,
            "servers": [{"name": name, "at": at} for name, at in servers.items()],
            "clients": [{"name": name, "at": at} for name, at in clients.items()],
        },
        workload={
            "subscriptions": [{"at": at, "round": round_, **NEWS} for at, round_ in subscriptions.items()],
            "publications": [{"at": at, "round": round_, **NEWS} for at, round_ in publications],
            "calls": list(calls),
        },
        faults=list(faults),
        time={"rounds": rounds},
    )


def lost(a: str, b: str, round_: int) -> dict[str, Any]:
    """Returns the loss of the messages that carry publications on a link in one round."""
    return {"kind": "loss", "links": [[a, b]], "round": round_, "until": round_ + 1, "rate": 1.0, "kinds": ["Message"]}


def owner(kind: str, round_: int, peer: str, role: str) -> dict[str, Any]:
    """Returns a call of the topic's owner."""
    return {"at": "O", "kind": kind, "round": round_, "peer": peer, "role": role, **NEWS}


TWO = [["b1", "b2"]]
BOTH = {"R1": "b1", "R2": "b2"}
CASES = {
    "the message of a deregistered publisher": played(
        links=TWO, servers={"R1": "b1"}, clients={"O": "b1", "P1": "b1", "P2": "b1", "S": "b1"},
        topics={"news": {"owner": "O", "publishers": ["P1", "P2"], "subscribers": ["S"]}},
        subscriptions={"S": 1}, publications=[("P2", 60), ("P1", 200), ("P1", 300)],
        calls=(owner("deregister", 61, "P2", "publisher"),), faults=(lost("P2", "b1", 60),),
    ),
    "the message of a dead publisher": played(
        links=TWO, servers=BOTH, clients={"P1": "b1", "P2": "b1", "S": "b2"}, subscriptions={"S": 1},
        publications=[("P1", 60), ("P2", 100), ("P2", 200), ("P2", 300)],
        faults=(lost("P1", "b1", 60), {"kind": "crash", "node": "P1", "round": 61}),
    ),
    "a broker that is up again": played(
        links=TWO, servers={"R1": "b2"}, clients={"P": "b1", "S": "b2"}, subscriptions={"S": 1},
        publications=[("P", 60), ("P", 400)],
        faults=(
            {"kind": "crash", "node": "b1", "round": 100, "until": 120},
            {"kind": "loss", "round": 120, "until": 130, "rate": 1.0},
        ),
    ),
    "a deregistration while a message is stored": played(
        links=TWO, servers=BOTH, clients={"O": "b1", "S1": "b1", "P": "b2", "S2": "b2"},
        topics={"news": {"owner": "O", "publishers": ["P"], "subscribers": ["S1", "S2"]}},
        subscriptions={"S1": 1, "S2": 1}, publications=[("P", 100), ("P", 200)],
        calls=(owner("deregister", 200, "P", "publisher"),),
    ),
    "founders that are replaced": played(
        links=TWO, servers=BOTH, clients={"P": "b1", "S": "b2", "T": "b2", "U": "b1"},
        subscriptions={"S": 1, "T": 1, "U": 500}, publications=[("P", at) for at in range(60, 700, 40)],
        calls=({"at": "R2", "round": 150, "kind": "join"}, {"at": "R1", "round": 250, "kind": "leave"}),
        faults=({"kind": "crash", "node": "T", "round": 100, "until": 450},),
    ),
    "what only a dead repository has": played(
        links=[["b1", "b2"], ["b2", "b3"]], servers={"R1": "b1", "R2": "b2", "R3": "b3"},
        clients={"P1": "b1", "P2": "b2", "S": "b2"}, subscriptions={"S": 1},
        publications=[("P1", 60), ("P1", 120), ("P2", 500), ("P2", 600)],
        faults=(
            {"kind": "crash", "node": "R2", "round": 100, "until": 140},
            {"kind": "partition", "links": [["b2", "b3"]], "round": 110, "until": 160},
            {"kind": "crash", "node": "P1", "round": 124}, {"kind": "crash", "node": "R1", "round": 148},
        ),
    ),
    "a dead member while another leaves": played(
        links=[["b1", "b2"], ["b2", "b3"]], servers={"R1": "b1", "R2": "b2", "R3": "b3"},
        clients={"P": "b1", "S": "b2"}, subscriptions={"S": 1}, publications=[("P", 60), ("P", 400), ("P", 700)],
        calls=({"at": "R1", "round": 200, "kind": "leave"},), faults=({"kind": "crash", "node": "R3", "round": 100},),
    ),
    "registrations that one repository had": played(
        links=TWO, servers=BOTH, clients={"O": "b1", "P": "b2", "S1": "b2", "S2": "b2"},
        topics={"news": {"owner": "O", "publishers": ["P"], "subscribers": ["S1"]}},
        subscriptions={"S1": 1, "S2": 150}, publications=[("P", 60), ("P", 400), ("P", 700), ("P", 1000)],
        calls=(owner("register", 99, "S2", "subscriber"), owner("deregister", 100, "S1", "subscriber")),
        faults=({"kind": "crash", "node": "R1", "round": 103},), rounds=2200,
    ),
    "clients that are not registered": played(
        links=TWO, servers={"R1": "b1"}, clients={"O": "b1", "P": "b1", "S": "b2", "X": "b2", "L": "b2"},
        topics={"news": {"owner": "O", "publishers": ["P"], "subscribers": ["S"]}},
        subscriptions={"S": 1, "X": 1, "L": 900}, publications=[("P", 60), ("P", 70)],
        calls=(owner("register", 1200, "L", "subscriber"),),
    ),
}  # fmt: skip


class Outcome(NamedTuple):
    """Deliveries of the cases by subscriber (publisher, round of issue), statuses, receivers, and the store."""

    report: AuditReport
    delivered: dict[str, dict[str, list[tuple[str, int]]]]
    statuses: dict[str, dict[str, list[str]]]
    got_message: dict[str, set[str]]
    result: Result


@pytest.fixture(scope="module")
def outcome(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All cases as one job."""
    store = run_all(run_configs(list(CASES.values())), sail, tmp_path_factory.mktemp("cases"))
    names = {(run, node): name for run, node, name in rows(store, "node", "run_id", "node_id", "name")}
    issued = rows(store, "publication", "run_id", "source", "source_seq", "issued_round")
    issued_round = {row[:3]: row[3] for row in issued}
    case = dict(enumerate(CASES))
    delivered: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for run, subscriber, source, seq in rows(store, "delivery", "run_id", "subscriber", "source", "source_seq"):
        at = names[run, source], issued_round[run, source, seq]
        delivered[case[run]][names[run, subscriber]].append(at)
    statuses: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for run, _, node, status in rows(store, "node_status", "run_id", "round", "node_id", "status"):
        statuses[case[run]][names[run, node]].append(status)
    got: dict[str, set[str]] = defaultdict(set)
    for run, kind, dst in rows(store, "message", "run_id", "kind", "dst"):
        got[case[run]] |= {names[run, dst]} if kind == "Message" else set()
    result = Result(store.root, store.session)
    return Outcome(audited(store, "repository"), delivered, statuses, got, result)


@pytest.mark.parametrize(
    ("case", "subscriber", "expected"),
    [
        ("the message of a deregistered publisher", "S", [("P1", 200), ("P1", 300)]),
        ("the message of a dead publisher", "S", [("P2", 100), ("P2", 200), ("P2", 300)]),
        ("a broker that is up again", "S", [("P", 60), ("P", 400)]),
        ("a deregistration while a message is stored", "S1", [("P", 100), ("P", 200)]),
        ("a deregistration while a message is stored", "S2", [("P", 100), ("P", 200)]),
        ("founders that are replaced", "S", [("P", at) for at in range(60, 700, 40)]),
        ("founders that are replaced", "T", [("P", at) for at in range(60, 700, 40)]),
        ("founders that are replaced", "U", [("P", at) for at in range(540, 700, 40)]),
        ("what only a dead repository has", "S", [("P1", 60), ("P2", 500), ("P2", 600)]),
        ("a dead member while another leaves", "S", [("P", 60), ("P", 400), ("P", 700)]),
        ("registrations that one repository had", "S1", [("P", 60)]),
        ("registrations that one repository had", "S2", [("P", 400), ("P", 700), ("P", 1000)]),
        ("clients that are not registered", "S", [("P", 60), ("P", 70)]),
    ],
)
def test_what_is_owed_is_delivered(
    outcome: Outcome, case: str, subscriber: str, expected: list[tuple[str, int]]
) -> None:
    assert sorted(outcome.delivered[case][subscriber]) == expected


def test_nobody_else_gets_anything(outcome: Outcome) -> None:
    assert set(outcome.delivered["clients that are not registered"]) == {"S"}
    assert {"X", "L"}.isdisjoint(outcome.got_message["clients that are not registered"])


def test_recoveries_and_departures_end(outcome: Outcome) -> None:
    assert outcome.statuses["what only a dead repository has"]["R2"][-1] == "OPERATIONAL"
    assert outcome.statuses["what only a dead repository has"]["R3"][-1] == "OPERATIONAL"
    assert outcome.statuses["a dead member while another leaves"]["R1"][-1] == "LEFT"


def test_all_guarantees_hold(outcome: Outcome) -> None:
    assert broken(outcome.report) == {}
    assert {run.verdict for run in outcome.report.runs} == {"valid"}


@pytest.mark.parametrize(
    ("case", "subscriber", "source", "seq", "ended", "text"),
    [
        (
            "the message of a deregistered publisher", "S", "P2", 1, "lost",
            "at P2, where its publisher was deregistered in round 61, and no repository has stored it; "
            "the copy sent to b1 in round 60 was lost",
        ),
        (
            "the message of a deregistered publisher", "S", "P1", 1, "delivered",
            "reserved for catenation number 1 of P2, which no repository has (deregistered in round 61)",
        ),
        (
            "the message of a dead publisher", "S", "P2", 1, "delivered",
            "reserved for catenation number 1 of P1, which no repository has, longer because P1 was down (from",
        ),
        ("founders that are replaced", "T", "P", 4, "delivered", "arrived while T was down (rounds 100 to 449)"),
        ("founders that are replaced", "U", "P", 12, "not_matching", "U issued in round 500 was confirmed only in"),
        ("a deregistration while a message is stored", "S1", "P", 2, "delivered", "delivered: to S1 in round"),
        ("a deregistration while a message is stored", "S2", "P", 2, "delivered", "delivered: to S2 in round"),
        ("a dead member while another leaves", "S", "P", 2, "delivered", "delivered: to S in round"),
    ],
)  # fmt: skip
def test_why_names_the_cause(
    outcome: Outcome, case: str, subscriber: str, source: str, seq: int, ended: str, text: str
) -> None:
    story = outcome.result.why([*CASES].index(case), subscriber, source, seq)
    assert story.ended == ended
    assert text in story.verdict
