"""The audits of protocol delta: clean runs, planted violations, and the local rule of Level 2 against its definition.

The fixed tree, with the subscriptions at their subscribers (the last one ends in round 90):

    P1 - N1 - N3 - S4[2] - X1 - X2[1]      X1 and X2 join while the run goes on
         |    |
         N2   S3 - Y1
         | |
    S1[0]  S2
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from pyspark.sql import DataFrame
from support.cases import fault
from support.copies import Plant, Planting

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import (
    Change,
    added,
    copied,
    removed,
    replaced,
    rows,
    run_all,
    run_configs,
    scenario,
)

LINKS = ["P1 N1", "N1 N2", "N1 N3", "N2 S1", "N2 S2", "N3 S3", "S3 Y1", "N3 S4", "S4 X1", "X1 X2"]
NAMES = ["P1", "N1", "N2", "N3", "S1", "S2", "S3", "Y1", "S4", "X1", "X2"]
WORKLOAD = {
    "joins": [{"node": "X1", "to": "S4", "round": 3}, {"node": "X2", "to": "X1", "round": 9}],
    "subscriptions": [
        {"at": "S1", "round": 40, "topic": "a"},
        {"at": "X2", "round": 40, "topic": "a"},
        {"at": "S4", "round": 40, "topic": "a", "until": 90},
    ],
    "publications": [{"at": "P1", "round": round_, "topic": "a"} for round_ in (60, 140)],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits_delta")


@pytest.fixture(scope="module")
def clean(sail: Session, root: Path) -> Store:
    """Run d has δ = d."""
    parts = {"overlay": {"links": [link.split() for link in LINKS]}, "workload": WORKLOAD}
    scenarios = [scenario(protocol={"name": "delta", "delta": delta}, **parts) for delta in range(4)]
    return run_all(run_configs(scenarios), sail, root)


@pytest.fixture(scope="module")
def ids(clean: Store) -> dict[str, int]:
    return {row.name: row.node_id for row in clean.read("node").where("run_id = 0").collect()}


def test_clean_runs_break_nothing(clean: Store) -> Planting:
    [runs] = yield [Plant(clean)]
    assert (runs.verdict, runs.broken) == ("valid", set())


def test_a_fault_delays_the_deadline_of_calls_during_the_fault_only(clean: Store, ids: dict[str, int]) -> Planting:
    """δ = 1, latency 1, detection after 5 rounds, 10 links: the grace is 2·2·(5 + 2·2) + 2·10 = 56 rounds.

    The publication of round 60 is never confirmed. The last message is due in round 150. The last change is a message
    that waits, after the fault, for a delayed message.
    """
    never = replaced(f"run_id = 0 and source = {ids['P1']} and issued_round = 60", confirmed_round="null")
    slow = replaced("run_id = 0 and sent_round = 61", due_round="80")
    faults: list[tuple[list[Change], dict[str, Change]]] = [
        ([], {}), (fault("pause", 10, ids["Y1"], 20), {}), (fault("pause", 61, ids["Y1"], 62), {}),
        (fault("delay", 61, until=62), {}), (fault("delay", 61, until=62), {"message": slow}),
        (fault("pause", 61, ids["Y1"], 93), {}), (fault("pause", 117, ids["Y1"], 120), {}),
        (fault("pause", 61, ids["Y1"], 94), {}), (fault("pause", 10, ids["Y1"]), {}),
        (fault("pause", 10, ids["Y1"], 20) + fault("delay", 76, until=80), {}),
        (fault("delay", 40, until=50), {}), (fault("delay", 40, until=50), {"message": slow}),
    ]  # fmt: skip
    copies = yield [Plant(clean, 1, publication=never, fault_event=of, **more) for of, more in faults]
    found = [[row[-1] for row in copy.found("ends_in_time")] for copy in copies]
    deadlines = [116, 116, 119, 119, 136, 150, 116, None, None, 136, 116, 136]
    words = "publication of round 60 had to end by round {}, ended never"
    assert found == [[] if deadline is None else [words.format(deadline)] for deadline in deadlines]


def test_a_crash_loses_a_call_that_waits_for_the_join(sail: Session, root: Path) -> Planting:
    """C joins in round 85. Its call of round 0 has no deadline before, although A's crash ends early.

    C crashes after its join call, or before it.
    """
    runs = [waiting_for_the_join(crash_round) for crash_round in (92, 40)]
    [found] = yield [Plant(run_all(run_configs(runs), sail, root))]
    assert found.broken == set()


def waiting_for_the_join(crash_round: int) -> dict[str, Any]:
    """C subscribes in round 0, joins in round 85, and crashes in ``crash_round``."""
    return scenario(
        protocol={"name": "delta"},
        overlay={"links": [["A", "B", 3], ["B", "C", 1]]},
        workload={
            "subscriptions": [{"at": "C", "round": 0, "topic": "t"}], "joins": [{"node": "C", "to": "B", "round": 85}],
        },
        faults=[
            {"kind": "crash", "node": "A", "round": 1, "until": 3},
            {"kind": "crash", "node": "C", "round": crash_round, "until": crash_round + 1},
        ],
    )  # fmt: skip


def all_down(join_round: int | None, *others: dict[str, Any], until: int | None = None) -> dict[str, Any]:
    """B, which subscribes, is down while A crashes and recovers; C joins at A in ``join_round``."""
    subscription = {"at": "B", "topic": "t", **({} if until is None else {"until": until})}
    joins = [] if join_round is None else [{"node": "C", "to": "A", "round": join_round}]
    return scenario(
        protocol={"name": "delta", "delta": 2, "detection_rounds": 2},
        overlay={"links": [["A", "B"], ["A", "C"]] if joins else [["A", "B"]]},
        workload={
            "subscriptions": [subscription], "publications": [{"at": "A", "round": 150, "topic": "t"}], "joins": joins,
        },
        faults=[
            {"kind": "crash", "node": "B", "round": 50, "until": 90},
            {"kind": "crash", "node": "A", "round": 60, "until": 61}, *others,
        ],
    )  # fmt: skip


def test_a_run_without_an_operational_node_is_beyond_the_bound(sail: Session, root: Path) -> Planting:
    """The proof of Lemma 4 needs an OPERATIONAL node. C has joined, joins later, or is down when it would join.

    B's subscription ends before the crashes in one run; a single node keeps its own subscriptions.
    """
    down = {"kind": "crash", "node": "C", "round": 9, "until": 11}
    alone = {**all_down(None), "overlay": {"generate": {"kind": "line", "nodes": 1, "prefix": "B"}}}
    alone["workload"] = {"subscriptions": [{"at": "B1", "topic": "t"}]}
    alone["faults"] = [{"kind": "crash", "node": "B1", "round": 50, "until": 90}]
    runs = [all_down(None), all_down(10), all_down(100), all_down(10, down), all_down(None, until=20), alone]
    store = run_all(run_configs(runs), sail, root)
    [found] = yield [Plant(store)]
    words = "2 nodes not OPERATIONAL (A, B), and no other node has joined"
    assert found.beyond == [(run, 60, words) for run in (0, 2, 3)]
    assert found.broken == set()
    assert {row["run_id"] for row in found.violations if row["guarantee"] == "exactly_once"} == {0, 2, 3}
    assert [run for run, *_ in rows(store, "delivery", "run_id")] == [1]


def random_scenario(seed: int) -> dict[str, Any]:
    """A random tree that stands or joins node by node, subscriptions of which some end, publications."""
    draw = random.Random(seed)
    n = draw.randrange(2, 13)
    names = [f"N{i}" for i in range(1, n + 1)]
    subscriptions: list[dict[str, Any]] = [
        {"at": name, "round": draw.randrange(10), "topic": draw.choice("ab")} for name in draw.sample(names, 1 + n // 2)
    ]
    for subscription in subscriptions[::3]:
        subscription["until"] = subscription["round"] + draw.choice([1, 5, 40])
    publications = [
        {"at": draw.choice(names), "round": draw.randrange(0, 80, 8), "topic": draw.choice("ab")} for _ in range(9)
    ]
    return scenario(
        protocol={"name": "delta", "delta": seed % 4},
        overlay={"generate": {"kind": "random_tree", "nodes": n}, "start": draw.choice(["joined", "joining"])},
        workload={"subscriptions": subscriptions, "publications": publications},
    )


@pytest.fixture(scope="module")
def random_runs(sail: Session, root: Path) -> Store:
    return run_all(run_configs([random_scenario(seed) for seed in range(40)]), sail, root)


def test_random_runs_break_nothing(random_runs: Store) -> Planting:
    [runs] = yield [Plant(random_runs)]
    assert (runs.verdict, runs.broken) == ("valid", set())
    assert {row[0] for row in rows(random_runs, "delivery", "run_id")}, "something was delivered"
    ended = {row[0] is not None for row in rows(random_runs, "subscription", "ended_round")}
    assert ended == {True, False}, "some subscriptions ended, some stayed"


def at(ids: dict[str, int], run_id: int, node: str, subscription: int | None = None) -> str:
    row = f"run_id = {run_id} and node_id = {ids[node]}"
    return row if subscription is None else f"{row} and subscription_id = {subscription}"


def link(ids: dict[str, int], a: str, b: str) -> dict[str, int]:
    low, high = sorted((ids[a], ids[b]))
    return {"a": low, "b": high}


def is_link(ids: dict[str, int], a: str, b: str) -> str:
    ends = link(ids, a, b)
    return f"a = {ends['a']} and b = {ends['b']}"


def entry(ids: dict[str, int], origin: str, responsible: str) -> dict[str, str]:
    return {"origin": str(ids[origin]), "first_hop": str(ids[responsible]), "responsible": str(ids[responsible])}


Violation = tuple[int, str, str]
"""A run, a node, and the detail of a violation."""


def check(store: Store, table: str, audit: str, *planted: tuple[Change, list[Violation]], silent: str = "") -> Planting:
    """Plants each change in a table, and compares the violations of one audit; those of audit ``silent`` are none."""
    copies = yield [Plant(store, **{table: change}) for change, _ in planted]
    for copy, (_, expected) in zip(copies, planted, strict=True):
        assert copy.found(audit) == sorted((run, node, None, None, detail) for run, node, detail in expected)
        assert not silent or copy.found(silent) == []


def test_join_consistency_finds_links(clean: Store, ids: dict[str, int]) -> Planting:
    near = f"{at(ids, 1, 'N3')} and {is_link(ids, 'P1', 'N1')}"
    name = "-".join(sorted(("P1", "N1"), key=ids.__getitem__))
    far = added(run_id=1, node_id=ids["X2"], is_marked=False, **link(ids, "P1", "N1"))
    own = removed(f"{at(ids, 0, 'X2')} and {is_link(ids, 'X1', 'X2')}")
    other = "-".join(sorted(("X1", "X2"), key=ids.__getitem__))
    yield from check(
        clean, "state_topology", "join_consistency",
        (removed(near), [(1, "N3", f"TOP lacks the link {name}")]),
        (replaced(near, is_marked="true"), [(1, "N3", f"TOP still marks the link {name}")]),
        (copied(near), [(1, "N3", f"TOP holds more than once the link {name}")]),
        (far, [(1, "X2", f"TOP holds, beyond its reach, the link {name}")]),
        (own, [(0, "X2", f"TOP lacks the link {other}")]),
    )  # fmt: skip


def test_links_of_a_node_that_has_not_joined_are_not_valid(clean: Store, ids: dict[str, int]) -> Planting:
    detached = removed(f"{at(ids, 1, 'X2')} and status = 'VALID_JOINED'")
    [runs] = yield [Plant(clean, node_status=detached)]
    broken = runs.found("join_consistency")
    assert [row[:2] for row in broken] == [(1, "S4"), (1, "X1")]
    assert all(row[4].startswith("TOP holds, beyond its reach,") for row in broken)


def test_level_1_finds_entries(clean: Store, ids: dict[str, int]) -> Planting:
    own, near = at(ids, 1, "S1", 0), at(ids, 1, "N1", 0)
    of = "subscription 0 of S1 has"
    way = "the way is 2 hops by N2"
    stale = added(run_id=1, node_id=ids["N3"], subscription_id=2, origin=ids["S4"], responsible=ids["S4"])
    yield from check(
        clean, "state_routing_entry", "level_1",
        (removed(near), [(1, "N1", f"{of} no entry")]),
        (removed(own), [(1, "S1", f"{of} no entry")]),
        (copied(near), [(1, "N1", f"{of} 2 entries")]),
        (copied(near, origin=str(ids["N2"])), [(1, "N1", f"{of} 2 entries")]),
        (replaced(near, origin=str(ids["N2"])), [(1, "N1", f"{of} an entry from N2")]),
        (replaced(near, origin="null"), [(1, "N1", f"{of} an entry from nowhere")]),
        (replaced(near, responsible=str(ids["P1"])), [(1, "N1", f"{of} an entry via P1, the way is via N2")]),
        (replaced(own, responsible=str(ids["N2"])), [(1, "S1", f"{of} an entry via N2, the way is via S1")]),
        (replaced(near, first_hop=str(ids["P1"])), [(1, "N1", f"{of} an entry 2 hops off by P1, {way}")]),
        (replaced(near, distance="1"), [(1, "N1", f"{of} an entry 1 hops off by N2, {way}")]),
        (stale, [(1, "N3", "subscription 2 of S4 has ended and still has an entry")]),
    )  # fmt: skip


def test_what_level_1_finds_is_not_held_against_far_nodes(clean: Store, ids: dict[str, int]) -> Planting:
    """N1 is the next hop of P1 and N3, which are far from S1 and right."""
    changes = (
        removed(at(ids, 1, "N1", 0)),
        copied(at(ids, 1, "N1", 0)),
        replaced(at(ids, 1, "N1", 0), **entry(ids, "S2", "N2")),
        replaced(at(ids, 1, "N1", 0), **entry(ids, "S3", "N3")),
        added(run_id=1, node_id=ids["N3"], subscription_id=2, origin=ids["S4"], responsible=ids["S4"]),
    )
    yield from check(clean, "state_routing_entry", "level_2", *((change, []) for change in changes))


def test_level_2_finds_missing_and_superfluous_entries(clean: Store, ids: dict[str, int]) -> Planting:
    far = at(ids, 1, "S4", 0)
    stale = added(run_id=1, node_id=ids["P1"], subscription_id=2, origin=ids["N3"], responsible=ids["N1"])
    unknown = added(run_id=1, node_id=ids["P1"], subscription_id=9, origin=ids["N3"], responsible=ids["N1"])
    yield from check(
        clean, "state_routing_entry", "level_2",
        (removed(far), [(1, "S4", "subscription 0 of S1 has no entry")]),
        (copied(far), [(1, "S4", "subscription 0 of S1 has 2 entries")]),
        (stale, [(1, "P1", "subscription 2 of S4 has ended and still has an entry")]),
        (unknown, [(1, "P1", "subscription 9 was never issued and has an entry")]),
        silent="level_1",
    )  # fmt: skip


def test_level_2_finds_wrong_entries(clean: Store, ids: dict[str, int]) -> Planting:
    """With δ = 1, S4's entry of S1's subscription is from N1 via N3, X1's from N3 via S4."""

    far, of = at(ids, 1, "S4", 0), "subscription 0 of S1 has an entry"
    back = replaced(far, **entry(ids, "X2", "X1"))
    turns = (1, "S4", f"{of} via X1, whose own turns back"), (1, "X1", f"{of} via S4, whose own turns back")
    yield from check(
        clean, "state_routing_entry", "level_2",
        (replaced(far, origin=str(ids["N3"])), [(1, "S4", f"{of} from N3, not 2 hops away")]),
        (replaced(far, origin=str(ids["P1"])), [(1, "S4", f"{of} from P1, not 2 hops away")]),
        (replaced(far, origin="null"), [(1, "S4", f"{of} from nowhere, not 2 hops away")]),
        (replaced(far, responsible=str(ids["X1"])), [(1, "S4", f"{of} via X1, the way is via N3")]),
        (replaced(far, origin=str(ids["S3"])), [(1, "S4", f"{of} from S3, that of N3 asks for N1")]),
        (back, [*turns]),
        silent="level_1",
    )  # fmt: skip


def test_level_2_names_the_first_of_a_chain_of_wrong_entries(clean: Store, ids: dict[str, int]) -> Planting:
    """With δ = 2, an entry from Y1 at S4 asks for S3 at X1, which has N1 and is right."""
    astray = replaced(at(ids, 2, "S4", 0), origin=str(ids["Y1"]))
    detail = "subscription 0 of S1 has an entry from Y1, that of N3 asks for N2"
    yield from check(clean, "state_routing_entry", "level_2", (astray, [(2, "S4", detail)]))


def test_subscriptions_under_way_are_not_judged(clean: Store, ids: dict[str, int]) -> Planting:
    """As long as a subscription is not confirmed, nodes may have an entry or not."""
    began = replaced("run_id = 1 and subscription_id = 0", confirmed_round="null")
    lost = removed(f"{at(ids, 1, 'N1', 0)} or {at(ids, 1, 'S4', 0)}")
    [runs] = yield [Plant(clean, subscription=began, state_routing_entry=lost)]
    assert runs.found("level_1") == runs.found("level_2") == []


def pending(ids: dict[str, int]) -> list[Change]:
    """Two recipients of P1's second call, at N1."""
    row = {"run_id": 1, "node_id": ids["N1"], "source": ids["P1"], "source_seq": 2, "kind": "PUB", "round": 141}
    ways = {"S1": "N2", "X2": "N3"}
    return [added(**row, trigger=7, recipient=ids[to], responsible=ids[via]) for to, via in ways.items()]


def test_nothing_pending_finds_unconfirmed_messages(clean: Store, ids: dict[str, int]) -> Planting:
    [runs] = yield [Plant(clean, state_processing=pending(ids))]
    detail = "PUB of round 141 still waits for 2 recipients"
    assert runs.found("nothing_pending") == [(1, "N1", "P1", 2, detail)]


def test_nothing_pending_finds_joins_that_do_not_end(clean: Store, ids: dict[str, int]) -> Planting:
    open_join = replaced(f"run_id = 1 and node_id = {ids['X1']}", status="'ATTACHED'")
    [runs] = yield [Plant(clean, state_join=open_join)]
    assert runs.found("nothing_pending") == [(1, "X1", None, None, "joins at S4 and is still ATTACHED")]


def test_runs_that_are_not_quiet_are_not_judged(clean: Store, ids: dict[str, int]) -> Planting:
    def one_in_flight(frame: DataFrame) -> DataFrame:
        last = frame.where("run_id = 1").agg({"message_id": "max"}).collect()[0][0]
        return replaced(f"run_id = 1 and message_id = {last}", fate="'in_flight'")(frame)

    changes: dict[str, Change | list[Change]] = {
        "state_topology": removed(at(ids, 1, "N3")),
        "state_routing_entry": removed(f"{at(ids, 1, 'N1', 0)} or {at(ids, 1, 'S4', 0)}"),
        "state_processing": pending(ids),
    }
    flying, quiet = yield [Plant(clean, message=one_in_flight, **changes), Plant(clean, **changes)]
    for audit in ("join_consistency", "level_1", "level_2", "nothing_pending"):
        assert flying.found(audit) == []
        assert quiet.found(audit) != []


Entry = tuple[int, int, int, int]
"""An entry of a run: node, subscription, origin, responsible."""


def consistent(tree: nx.Graph[int], delta: int, live: dict[int, int], entries: list[Entry]) -> bool:
    """Level 1 and Level 2 as they are defined: P(N, S) for all nodes N and subscribers S."""
    wanted = []
    for subscription, subscriber in live.items():
        for n, path in nx.single_target_shortest_path(tree, subscriber).items():
            wanted.append((n, subscription, path[min(delta + 1, len(path) - 1)], path[min(1, len(path) - 1)]))
    return sorted(wanted) == sorted(entries)


def disturbed(draw: random.Random, nodes: list[int], tree: nx.Graph[int], entries: list[Entry]) -> list[Entry]:
    """Changes up to three entries, mostly into some that look right from their own node."""
    entries = list(entries)
    for _ in range(draw.randrange(4)):
        if not entries:
            break
        place = draw.randrange(len(entries))
        n, subscription, origin, _ = entries[place]
        kind = draw.choice(["remove", "copy", "any", "near", "near", "near", "near"])
        if kind == "remove":
            entries.pop(place)
        elif kind == "copy":
            entries.append(entries[place])
        elif kind == "any":
            entries[place] = (n, subscription, draw.choice(nodes), draw.choice(nodes))
        else:
            distance = nx.shortest_path_length(tree, n, origin)
            other = draw.choice([x for x, d in nx.single_source_shortest_path_length(tree, n).items() if d == distance])
            entries[place] = (n, subscription, other, nx.shortest_path(tree, n, other)[min(1, distance)])
    return entries


def with_way(tree: nx.Graph[int], entry: Entry) -> tuple[int, ...]:
    """Returns the columns of table state_routing_entry; the way of an entry is the one that it names."""
    n, subscription, origin, responsible = entry
    return n, subscription, origin, nx.shortest_path_length(tree, n, origin), responsible, responsible


def instead(new: list[tuple[int, ...]]) -> Change:
    """Puts other rows in the place of all."""
    return lambda frame: frame.sparkSession.createDataFrame(new, frame.schema)


def test_the_local_rule_finds_exactly_what_the_definition_forbids(random_runs: Store) -> Planting:
    runs = range(40)
    trees: dict[int, nx.Graph[int]] = {run: nx.Graph() for run in runs}
    for run, node in rows(random_runs, "node", "run_id", "node_id"):
        trees[run].add_node(node)
    for run, src, dst in rows(random_runs, "link", "run_id", "src", "dst"):
        trees[run].add_edge(src, dst)
    live: dict[int, dict[int, int]] = {run: {} for run in runs}
    for run, subscription, subscriber, ended in rows(
        random_runs, "subscription", "run_id", "subscription_id", "subscriber", "ended_round"
    ):
        if ended is None:
            live[run][subscription] = subscriber
    entries: dict[int, list[Entry]] = {run: [] for run in runs}
    for run, *row in rows(
        random_runs, "state_routing_entry", "run_id", "node_id", "subscription_id", "origin", "responsible"
    ):
        entries[run].append((row[0], row[1], row[2], row[3]))
    assert all(consistent(trees[run], run % 4, live[run], entries[run]) for run in runs)
    forbidden, plants = list[set[int]](), list[Plant]()
    for attempt in range(3):
        draw = random.Random(attempt)
        changed = {run: disturbed(draw, list(trees[run]), trees[run], entries[run]) for run in runs}
        forbidden.append({run for run in runs if not consistent(trees[run], run % 4, live[run], changed[run])})
        new = [(run, *with_way(trees[run], row)) for run in runs for row in changed[run]]
        plants.append(Plant(random_runs, state_routing_entry=instead(new)))
    for copy, wrong in zip((yield plants), forbidden, strict=True):
        assert {row[0] for audit in ("level_1", "level_2") for row in copy.found(audit)} == wrong
        assert 10 < len(wrong) < 40, "both kinds were tried"
