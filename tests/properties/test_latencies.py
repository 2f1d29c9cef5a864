"""Messages over links whose directions have different latencies: each takes the latency of its own direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.testing import audited, rows, run_all, run_configs, scenario

LINKS = [["A", "B", 3, 9], ["B", "C", 2, 14], ["B", "D", 5, 1]]
TOPIC = {
    "subscriptions": [{"at": at, "topic": "t"} for at in "ACD"],
    "publications": [{"at": at, "topic": "t", "round": at_round} for at in "AC" for at_round in (100, 300, 500)],
}
CLIENTS = {
    "subscriptions": [{"at": at, "topic": "t"} for at in "PST"],
    "publications": [
        {"at": "P", "topic": "t", "round": at_round, "guarantee": "total", "keys": ["k"]}
        for at_round in (150, 260, 450)
    ],
}
CRASH = [{"kind": "crash", "node": "B", "round": 200, "until": 240}]
ATTACHED = [{"name": name, "at": at} for name, at in (("P", "A"), ("S", "C"), ("T", "D"))]
CASES: dict[str, dict[str, Any]] = {
    "delta": {"protocol": {"name": "delta", "delta": 1, "detection_rounds": 20}, "workload": TOPIC, "faults": CRASH},
    "epidemic": {"protocol": {"name": "epidemic", "recovery": "combined_pull"}, "workload": TOPIC},
    "flooding": {"protocol": {"name": "flooding"}, "workload": TOPIC},
    "forwarding": {"protocol": {"name": "forwarding"}, "workload": TOPIC},
    "ginger": {
        "protocol": {"name": "ginger", "detection_rounds": 20, "timer_rounds": 150}, "workload": CLIENTS,
        "overlay": {"links": LINKS, "clients": ATTACHED}, "faults": CRASH,
    },
    "gossipsub": {"protocol": {"name": "gossipsub"}, "workload": TOPIC, "faults": CRASH},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_message_takes_the_latency_of_its_direction(name: str, sail: Session, tmp_path: Path) -> None:
    case = {"overlay": {"links": LINKS}, "time": {"rounds": 3000}, **CASES[name]}
    store = run_all(run_configs([scenario(**case)]), sail, tmp_path)
    links = {(src, dst): latency for src, dst, latency in rows(store, "link", "src", "dst", "latency_rounds")}
    sent = [
        (src, dst, due - at) for src, dst, at, due in rows(store, "message", "src", "dst", "sent_round", "due_round")
    ]
    over_links = [one for one in sent if one[:2] in links]
    assert [one for one in over_links if one[2] != links[one[:2]]] == []
    assert {one[:2] for one in over_links} >= {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert audited(store, name).verdict == "valid"


def test_a_message_without_link_takes_the_latencies_of_its_path(sail: Session, tmp_path: Path) -> None:
    """B fails for good: A, C and D connect, and their messages take the links of B."""
    case = {**CASES["ginger"], "time": {"rounds": 3000}, "faults": [{"kind": "crash", "node": "B", "round": 200}]}
    store = run_all(run_configs([scenario(**case)]), sail, tmp_path)
    sent = rows(store, "message", "src", "dst", "sent_round", "due_round")
    taken = {(src, dst): due - at for src, dst, at, due in sent if 1 not in (src, dst) and {src, dst} <= {0, 2, 3}}
    expected = {(0, 2): 3 + 2, (2, 0): 14 + 9, (0, 3): 3 + 5, (3, 0): 1 + 9, (2, 3): 14 + 5, (3, 2): 1 + 2}
    assert {pair: rounds for pair, rounds in taken.items() if pair[0] != pair[1]} == {
        pair: rounds for pair, rounds in expected.items() if pair in taken
    }
    assert {(0, 2), (2, 0)} <= taken.keys()
    assert audited(store, "ginger").verdict == "valid"
