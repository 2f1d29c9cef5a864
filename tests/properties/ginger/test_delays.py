"""Random runs with delays and pauses, many of them during the subscriptions (rule G6), are valid."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.testing import audited, run_all, run_configs, scenario
from udfs.ginger.tree import Tree

N_RUNS = 150
TOPICS = "tu"


def links_of(draw: random.Random) -> tuple[list[tuple[str, str, int]], list[dict[str, str]]]:
    n_brokers = draw.randint(2, 8)
    links = [(f"B{draw.randrange(node)}", f"B{node}", draw.randint(1, 4)) for node in range(1, n_brokers)]
    return links, [{"name": f"C{n}", "at": f"B{draw.randrange(n_brokers)}"} for n in range(draw.randint(2, 4))]


def confirm_rounds(links: list[tuple[str, str, int]], clients: list[dict[str, str]]) -> dict[str, int]:
    """Returns the rounds in which a subscription of each client is confirmed without faults."""
    names = ["B0", *(child for _, child, _ in links), *(client["name"] for client in clients)]
    ids = {name: node for node, name in enumerate(names)}
    pairs = [*links, *((client["name"], client["at"], 1) for client in clients)]
    latency = {way: rounds for a, b, rounds in pairs for way in ((ids[a], ids[b]), (ids[b], ids[a]))}
    tree = Tree(0, latency, range(len(links) + 1, len(names)))
    return {client["name"]: tree.confirm_rounds(ids[client["name"]]) for client in clients}


def drawn_fault(draw: random.Random, nodes: list[str], pairs: list[list[str]]) -> dict[str, Any]:
    first = draw.randint(0, 70)
    span = {"round": first, "until": first + draw.randint(1, 40)}
    if draw.random() < 0.5:
        return {"kind": "pause", "node": draw.choice(nodes)} | span
    some = {"links": [draw.choice(pairs)]} if draw.random() < 0.4 else {}
    most = draw.choice([1, 4, 15, 40])
    return {"kind": "delay", "rate": draw.choice([0.2, 0.6, 1]), "rounds": [1, most]} | some | span


def drawn(seed: int) -> dict[str, Any]:
    """Returns a scenario whose first publications may be issued as soon as subscriptions should be confirmed."""
    draw = random.Random(seed)
    links, clients = links_of(draw)
    ready = confirm_rounds(links, clients)
    subscriptions = [
        {"at": name, "round": draw.randint(1, 40), "topic": topic}
        for topic in TOPICS for name in ready if name == "C0" or draw.random() < 0.8
    ]  # fmt: skip
    publications = []
    for topic in TOPICS:
        calls = [call for call in subscriptions if call["topic"] == topic]
        first = max(call["round"] + ready[call["at"]] for call in calls)
        publications += [
            {
                "at": draw.choice(calls)["at"], "round": first + draw.choice([0, 0, 1, 3, 30, 90]), "topic": topic,
                "guarantee": draw.choice(["eventual", "causal", "total"]), "keys": [draw.choice("kl")],
            }
            for _ in range(draw.randint(1, 5))
        ]  # fmt: skip
    pairs = [[a, b] for a, b, _ in links] + [[client["name"], client["at"]] for client in clients]
    nodes = sorted({name for pair in pairs for name in pair})
    return scenario(
        protocol={"name": "ginger"},
        overlay={"links": [list(link) for link in links], "clients": clients},
        workload={"subscriptions": subscriptions, "publications": publications},
        faults=[drawn_fault(draw, nodes, pairs) for _ in range(draw.randint(1, 3))],
    ) | {"time": {"rounds": 2000}}


@pytest.mark.timeout(300)
def test_delays_and_pauses_break_no_guarantee(sail: Session, tmp_path: Path) -> None:
    report = audited(run_all(run_configs([drawn(seed) for seed in range(N_RUNS)]), sail, tmp_path), "ginger")
    found = {finding.name: finding.shown for finding in report.findings if finding.n_violations != 0}
    assert found == {}
    assert {run.verdict for run in report.runs} == {"valid"}
    assert min(len(report.beyond), N_RUNS - len(report.beyond)) > N_RUNS / 5


SLOW_JOIN = "a broker joins, and messages take longer than links do or wait for nodes that pause"


def joining(fault: dict[str, Any]) -> dict[str, Any]:
    """Returns a scenario in which B2 asks B1 in round 300, and B1 waits 20 rounds for the LostMessageRequest of B2."""
    subscriptions = [{"at": client, "topic": "t"} for client in ("C0", "C1")]
    publication = {"at": "C0", "round": 500, "topic": "t", "guarantee": "total", "keys": ["k"]}
    joins = [{"node": "B2", "to": "B1", "round": 300}]
    return scenario(
        protocol={"name": "ginger", "timer_rounds": 6},
        overlay={
            "links": [["B0", "B1"], ["B1", "B2"], ["B0", "B3"]],
            "clients": [{"name": "C0", "at": "B0"}, {"name": "C1", "at": "B3"}],
        },
        workload={"subscriptions": subscriptions, "publications": [publication], "joins": joins},
        faults=[fault],
    )


def test_a_join_while_messages_are_slow_is_beyond_the_bound(sail: Session, tmp_path: Path) -> None:
    """The timer of B1 expires in round 321, before the LostMessageRequest arrives."""
    delay = {"kind": "delay", "rate": 1.0, "rounds": [90, 90], "links": [["B1", "B2"]]}
    faults = [
        delay | {"round": 301, "until": 303},
        {"kind": "pause", "node": "B2", "round": 301, "until": 400},
        {"kind": "pause", "node": "B1", "round": 250, "until": 290},
        {"kind": "pause", "node": "B2", "round": 600, "until": 610},
        delay | {"round": 600, "until": 603},
        delay | {"round": 0, "until": 100},
    ]
    report = audited(run_all(run_configs([joining(fault) for fault in faults]), sail, tmp_path), "ginger")
    assert [(one.run_id, one.round, one.reason) for one in report.beyond] == [(0, 301, SLOW_JOIN), (1, 301, SLOW_JOIN)]
    assert {run.verdict for run in report.runs} == {"valid"}
    assert sum(finding.n_excused or 0 for finding in report.findings) == 2
