"""Protocol ``epidemic`` against a plain program that plays it one dispatcher and one message after the other."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from oracles.epidemic.network import Story, play

from pipelines.contract.run_inputs import Inputs
from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.testing import audited, copied, found, planted, rows, run_all, run_configs, scenario

PREDICATES = ("x > 3", "x > 6", "x < 5", "x >= 0")
LAST_ROUND = 60
LOSS = {"kind": "loss", "rate": 0.15, "kinds": ["EVENT", "GOSSIP"]}
CRASHES = [
    {"kind": "crash", "node": "N2", "round": 14, "until": 24},
    {"kind": "crash", "node": "N5", "round": 17, "until": 20},
]
SWAPS = [
    {"generate": {"kind": "replace", "count": 4, "rounds": [12, 24], "after": [0, 4]}},
]
VARIANTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "no recovery": ({"recovery": "none"}, [LOSS]),
    "push": ({"recovery": "push"}, [LOSS]),
    "subscriber pull": ({"recovery": "subscriber_pull"}, [LOSS]),
    "publisher pull": ({"recovery": "publisher_pull"}, [LOSS]),
    "combined pull": ({"recovery": "combined_pull"}, [LOSS]),
    "push and pull": ({"recovery": "push_pull", "fanout": 2, "push_draw": "subscribers"}, [LOSS]),
    "without loss": ({"recovery": "push_pull"}, []),
    "unicast that loses": ({"recovery": "push_pull", "out_of_band_loss": 0.3, "out_of_band_rounds": 3}, [LOSS]),
    "small caches": ({"recovery": "push_pull", "buffer": 4, "eviction": "random"}, [LOSS]),
    "own events": ({"recovery": "combined_pull", "buffer": 6, "caching": "subscriber_or_source"}, [LOSS]),
    "foreign first": ({"recovery": "push", "buffer": 5, "eviction": "foreign_first", "push_patterns": "local"}, [LOSS]),
    "small LostBuffer": ({"recovery": "combined_pull", "lost_buffer": 2, "lost_rounds": 9}, [LOSS]),
    "at once": ({"recovery": "combined_pull", "gossip_on_detection": True, "gossip_rounds": 15}, [LOSS]),
    "adaptive": ({"recovery": "push_pull", "adaptive": True, "gossip_rounds_max": 16}, [LOSS]),
    "crashes": ({"recovery": "push_pull", "p_forward": 0.5}, CRASHES),
    "reconfiguration": ({"recovery": "push_pull"}, SWAPS),
    "reconfiguration and crashes": ({"recovery": "combined_pull", "broken_route": "unicast"}, [*SWAPS, *CRASHES]),
    "reconfiguration and loss": ({"recovery": "publisher_pull"}, [*SWAPS, LOSS]),
    "crashes and loss": ({"recovery": "combined_pull", "adaptive": True}, [*CRASHES, LOSS]),
}


def _scenario(place: int, settings: dict[str, Any], faults: list[Any]) -> dict[str, Any]:
    draw = random.Random(place)
    names = [f"N{n}" for n in range(1, 8)]
    subscriptions: list[dict[str, Any]] = [
        {"at": name, "round": draw.choice([0, 0, 1, 15]), "where": where}
        for name in names
        for where in draw.sample(PREDICATES, draw.choice([0, 1, 1, 2]))
    ]
    for row in draw.sample(subscriptions, 2):
        row["until"] = draw.randint(16, 24)
    publications = [
        {"at": at, "round": draw.randint(8, 26), "content": {"x": draw.randint(0, 9)}}
        for at in draw.sample(names, 3)
        for _ in range(12)
    ]
    latency = [draw.choice([1, 1, 2, 3]) for _ in names]
    links = [[name, names[draw.randint(0, n - 1)], latency[n]] for n, name in enumerate(names) if n]
    return scenario(
        protocol={"name": "epidemic", "gossip_rounds": 6, "push_rounds": 25, "lost_rounds": 25, **settings},
        overlay={"links": links}, workload={"subscriptions": subscriptions, "publications": publications},
        faults=faults, time={"rounds": LAST_ROUND},
    )  # fmt: skip


def _broken_route(what: str) -> dict[str, Any]:
    """C misses A's second event, knows it in round 13, and may ask in round 14 or later, when B is linked no more."""
    return scenario(
        protocol={"name": "epidemic", "recovery": "publisher_pull", "gossip_rounds": 12, "broken_route": what},
        overlay={"links": [["A", "B"], ["B", "C"]]},
        workload={
            "subscriptions": [{"at": "C", "topic": "t"}],
            "publications": [{"at": "A", "round": round_, "topic": "t"} for round_ in (8, 10, 11)],
        },
        faults=[
            {"kind": "loss", "rate": 1.0, "kinds": ["EVENT"], "links": [["B", "C"]], "round": 11, "until": 12},
            {"kind": "replace", "link": ["B", "C"], "by": ["A", "C"], "round": 14},
        ],
        time={"rounds": LAST_ROUND},
    )  # fmt: skip


BROKEN_ROUTES = ("drop", "unicast")


def _two_patterns() -> dict[str, Any]:
    """The paper's example: after four events for Pa (C, E) and three for Pb (D), one for both; C does not get it."""
    contents = [*[{"a": 1}] * 4, *[{"b": 1}] * 3]
    last = [{"at": "A", "round": 20, "content": {"a": 1, "b": 1}}, {"at": "A", "round": 22, "content": {"a": 1}}]
    where = (("C", "a = 1"), ("D", "b = 1"), ("E", "a = 1"))
    return scenario(
        protocol={"name": "epidemic", "recovery": "subscriber_pull", "caching": "subscriber_or_source"},
        overlay={"links": [["A", "B"], ["B", "C"], ["B", "D"], ["D", "E"]]},
        workload={
            "subscriptions": [{"at": at, "where": pattern} for at, pattern in where],
            "publications": [{"at": "A", "round": 8 + n, "content": c} for n, c in enumerate(contents)] + last,
        },
        faults=[{"kind": "loss", "rate": 1.0, "kinds": ["EVENT"], "links": [["B", "C"]], "round": 21, "until": 22}],
        time={"rounds": LAST_ROUND},
    )  # fmt: skip


X_ABOVE_3 = {"at": "C", "round": 13, "where": "x > 3"}


def _late_subscription(*earlier: dict[str, Any]) -> dict[str, Any]:
    """C misses A's first event and gets the second, subscribes to x > 3, and then gets the first event by REPLY."""
    patterns = [{"at": at, "where": where} for at, where in (("B", "x > 3"), ("B", "x >= 0"), ("C", "x >= 0"))]
    return scenario(
        protocol={"name": "epidemic", "recovery": "subscriber_pull", "gossip_rounds": 12},
        overlay={"links": [["A", "B"], ["B", "C"]]},
        workload={
            "subscriptions": [*patterns, *earlier, X_ABOVE_3],
            "publications": [{"at": "A", "round": round_, "content": {"x": 4}} for round_ in (8, 10, 40)],
        },
        faults=[{"kind": "loss", "nth": 1, "kinds": ["EVENT"], "from": "B", "to": "C"}],
        time={"rounds": LAST_ROUND},
    )


class Played:
    """The runs of all variants: as the engine tells them, and as the plain program does."""

    def __init__(self, store: Store, runs: list[RunConfig], inputs: Inputs) -> None:
        self.store, self.runs, self.inputs = store, runs, inputs
        head = ("run_id", "kind", "src", "dst", "sent_round", "source", "source_seq", "message_id", "fate")
        self.messages = rows(store, "message", *head)
        self.calls = rows(store, "publication", "run_id", "source_seq", "issued_round")
        self.deliveries = rows(store, "delivery", "run_id", "subscriber", "source", "source_seq", "round", "hops")

    def story(self, run: RunConfig) -> Story:
        unicast = ("REQUEST", "REPLY")
        lost = Counter(
            row[1:8]
            for row in self.messages
            if row[0] == run.run_id and row[8] == "lost_link" and row[1] not in unicast
        )
        return play(run, self.inputs, lost, LAST_ROUND)

    def of_run(self, table: list[tuple[Any, ...]], run: RunConfig) -> list[tuple[Any, ...]]:
        return sorted((row[1:] for row in table if row[0] == run.run_id), key=repr)


@pytest.fixture(scope="module")
def played(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Played:
    scenarios = [_scenario(place, *variant) for place, variant in enumerate(VARIANTS.values())]
    runs = run_configs([*scenarios, *map(_broken_route, BROKEN_ROUTES), _two_patterns()])
    inputs = build_inputs(runs, None)
    store = Store(tmp_path_factory.mktemp("epidemic"), sail)
    sail.activate()
    execute(Experiment(runs, inputs, 50), sail, store, lambda progress: None)
    return Played(store, runs, inputs)


@pytest.mark.parametrize("place", range(len(VARIANTS)), ids=list(VARIANTS))
def test_the_engine_tells_what_the_plain_program_tells(played: Played, place: int) -> None:
    run = played.runs[place]
    story = played.story(run)
    assert played.of_run(played.messages, run) == sorted(story.messages, key=repr)
    assert played.of_run(played.deliveries, run) == sorted(story.deliveries, key=repr)
    cache = rows(played.store, "state_cache", "run_id", "node_id", "source", "source_seq")
    lost = rows(played.store, "state_lost", "run_id", "node_id", "source", "pattern_id", "number", "expires_round")
    assert {row[:4] for row in played.of_run(lost, run) if row[4] > LAST_ROUND} == {
        (node, *key) for node, keys in story.lost.items() for key in keys
    }
    assert played.of_run(cache, run) == sorted(((n, *k) for n, keys in story.caches.items() for k in keys), key=repr)


def test_the_comparison_has_seen_every_strategy_recover(played: Played) -> None:
    recovering = {place for place, (_, faults) in enumerate(VARIANTS.values()) if faults} - {0}
    assert recovering <= {row[0] for row in played.messages if row[1] == "REPLY"}
    ends = {(row[1], row[8]) for row in played.messages}
    assert {("EVENT", "lost_link"), ("EVENT", "lost_crash"), ("REPLY", "delivered"), ("REPLY", "duplicate")} <= ends
    assert {("REPLY", "lost_link"), ("GOSSIP", "lost_crash"), ("UNSUB", "delivered")} <= ends


def test_where_a_route_is_broken_gossip_is_dropped_or_goes_by_unicast(played: Played) -> None:
    """Settled rule 12: without the link the first dispatcher of the route is out of reach, but by unicast."""
    found = {}
    for what, run in zip(BROKEN_ROUTES, played.runs[len(VARIANTS) : -1], strict=True):
        messages = played.of_run(played.messages, run)
        assert messages == sorted(played.story(run).messages, key=repr)
        gossip = [(src, dst) for kind, src, dst, *_ in messages if kind == "GOSSIP"]
        came = {(source, seq): hops for _, source, seq, _, hops in played.of_run(played.deliveries, run)}
        found[what] = gossip, came
    assert found == {
        "drop": ([], {(0, 1): 2, (0, 3): 2}),
        "unicast": ([(2, 1)], {(0, 1): 2, (0, 2): 2, (0, 3): 2}),
    }


def test_nobody_requests_an_event_that_arrived_before_a_subscription(sail: Session, tmp_path: Path) -> None:
    """Rule E9: event 2 of x > 3 arrived for pattern x >= 0, in the second run after an unsubscription from x > 3."""
    unsubscribed = {**X_ABOVE_3, "round": 0, "until": 12}
    store = run_all(run_configs([_late_subscription(), _late_subscription(unsubscribed)]), sail, tmp_path)
    assert found(store, "asks_for_gaps", "epidemic") == []
    gossip = [row for row in rows(store, "message", "run_id", "kind", "sent_round") if row[1] == "GOSSIP"]
    assert {run for run, *_ in gossip} == {0, 1}
    assert max(sent for *_, sent in gossip) < 40


def test_a_holder_knows_an_event_by_any_of_its_patterns(played: Played) -> None:
    """Section 4.2: the event is S:Pa-5:Pb-4, C asks for S:Pa-5, and D, subscribed to Pb only, has it."""
    run = played.runs[-1]
    a, c, d, e = 0, 2, 3, 4
    [(published, *_)] = [row for row in played.of_run(played.calls, run) if row[1] == 20]
    body = rows(played.store, "message", "run_id", "kind", "source_seq", "body")
    assert {
        json.loads(row[3])["id"] for row in body if row[:3] == (run.run_id, "EVENT", published)
    } == {f"{a}:P0-5:P1-4"}  # fmt: skip
    replies = {
        (src, dst, seq) for kind, src, dst, _, _, seq, *_ in played.of_run(played.messages, run) if kind == "REPLY"
    }
    assert replies == {(d, c, published), (e, c, published)}
    delivered = [row[:3] for row in played.of_run(played.deliveries, run)]
    assert delivered.count((c, a, published)) == 1


@pytest.mark.parametrize("name", ["reconfiguration", "reconfiguration and loss"])
def test_after_reconfigurations_the_tables_are_those_of_the_new_tree(played: Played, name: str) -> None:
    """Every dispatcher has each pattern from where its subscribers are, and from nowhere else."""
    run = list(VARIANTS).index(name)
    swaps = [row for row in played.inputs.replacement.to_pylist() if row["run_id"] == run]
    links = [row for row in played.inputs.link.to_pylist() if row["run_id"] == run]
    tree = nx.Graph((row["src"], row["dst"]) for row in links)
    for swap in swaps:
        tree.remove_edge(swap["old_a"], swap["old_b"])
        tree.add_edge(swap["a"], swap["b"])
    assert nx.is_tree(tree)
    client = [row for row in rows(played.store, "state_client", "run_id", "node_id", "pattern_id") if row[0] == run]
    wanted = {
        (node, pattern, nx.shortest_path(tree, node, subscriber)[:2][-1])
        for _, subscriber, pattern in client
        for node in tree
    }
    table = rows(played.store, "state_routing_entry", "run_id", "node_id", "pattern_id", "next_hop")
    assert {row[1:] for row in table if row[0] == run} == wanted
    assert len(swaps) == 4


def test_nothing_is_broken(played: Played) -> None:
    for name in ("delivered_once", "bounded_cache", "own_events_last"):
        assert found(played.store, name, "epidemic") == []


def test_audits_that_hold_always_are_not_excused(played: Played, tmp_path: Path) -> None:
    twice = planted(
        played.store, tmp_path, delivery=copied("run_id = 1 and hops = 1 and round < 14", round="round + 1")
    )
    report = audited(twice, "epidemic")
    finding = {finding.name: finding for finding in report.findings}
    assert finding["delivered_once"].n_violations
    assert not finding["exactly_once"].n_violations
    assert {run.run_id for run in report.runs if run.verdict == "invalid"} == {1}
