"""The audits of flooding and gossipsub find what is planted; bounds follow from overlay, faults and settings."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support.cases import lines
from support.copies import Copy, Plant, Planting

from pipelines.engines.session import Session
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import Change, added, copied, removed, replaced, rows, run_all, run_configs, scenario

RING = [["A", "B"], ["B", "C"], ["C", "D"], ["D", "E"], ["E", "A"], ["A", "C", 3]]
WORK = {
    "subscriptions": [{"at": name, "topic": "news"} for name in "ACD"],
    "publications": [{"at": "A", "round": 30, "topic": "news"}, {"at": "B", "round": 35, "topic": "news"}],
}
GOSSIP = {"name": "gossipsub", "heartbeat_rounds": 10, "d": 2, "d_lo": 1, "d_hi": 2, "d_out": 0}
CRASH = {"kind": "crash", "node": "C", "round": 33}
THREE = {
    "overlay": {"links": [["A", "B"], ["B", "C"]]},
    "workload": {"subscriptions": [{"at": "C", "topic": "news"}], "publications": WORK["publications"][:1]},
}
GONE_LATER = [{"kind": "crash", "node": "A", "round": 60}]
DOWN = {"kind": "crash", "node": "B", "round": 25}
LATE = {"kind": "duplicate", "rate": 1.0, "round": 25}


def given(protocol: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return scenario(**{"protocol": protocol, "overlay": {"links": RING}, "workload": WORK, **parts})


def line(protocol: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return given(protocol, overlay={"links": RING[:4]}, **parts)


def within(copy: Copy) -> list[bool]:
    """Returns for each run whether its faults stayed within the bound."""
    return [run.within_bound for run in sorted(copy.runs)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits_flooding")


@pytest.fixture(scope="module")
def flooding(sail: Session, root: Path) -> Store:
    return run_all(run_configs([given({"name": "flooding"})]), sail, root)


@pytest.fixture(scope="module")
def gossipsub(sail: Session, root: Path) -> Store:
    """The mesh is a part of the overlay, so gossip goes on beside it."""
    settings = {**GOSSIP, "d": 1, "d_hi": 3, "flood_publish": False}
    return run_all(run_configs([given(settings)]), sail, root)


def test_clean_runs_break_nothing(flooding: Store, gossipsub: Store) -> Planting:
    assert [copy.broken for copy in (yield [Plant(flooding), Plant(gossipsub)])] == [set(), set()]


def test_a_publication_that_another_overtook_begins_no_subscription(sail: Session, root: Path) -> Planting:
    """D subscribes in round 10. Publication 1 of A comes in round 22, number 2 had come before, 3 and 4 come later."""
    calls = {
        "subscriptions": [{"at": "D", "round": 10, "topic": "news"}],
        "publications": [{"at": "A", "round": at, "topic": "news"} for at in (0, 2, 20, 30)],
    }
    late = {"kind": "delay", "nth": 1, "from": "C", "to": "D", "rounds": [19, 19], "reorder": True}
    runs = [line({"name": "flooding"}, workload=calls, faults=[late]), line({"name": "flooding"}, workload=calls)]
    store = run_all(run_configs(runs), sail, root)
    assert sorted(rows(store, "delivery", "run_id", "source_seq", "round")) == [
        (0, 1, 22), (0, 3, 23), (0, 4, 33), (1, 3, 23), (1, 4, 33),
    ]  # fmt: skip
    owed = StoreReader(sail, store.root).sql("select run_id, source_seq from receiver").collect()
    assert {tuple(row) for row in owed} == {(0, 4), (1, 3), (1, 4)}
    [copy] = yield [Plant(store)]
    assert (copy.broken, within(copy)) == (set(), [True, True])


# D has the publication of round 30 from E in round 32, and sends it to C. C has it from B in round 32.
D_TO_C = "src = 3 and dst = 2 and source = 0"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"state_seen": removed("node_id = 4 and source = 0")},
         {"reached_everybody": ["30 E A2: never came to this node"]}),
        ({"state_seen": removed("node_id = 4 and source = 0"),
          "fault_event": added(run_id=0, round=999, kind="crash", node_id=4)}, {}),
        ({"state_seen": removed("node_id = 4 and source = 0"),
          "fault_event": added(run_id=0, round=999, kind="crash", node_id=3)},
         {"reached_everybody": ["30 E A2: never came to this node"]}),
        ({"message": removed(D_TO_C)}, {"floods_all_links": ["32 D A2: is not sent to node 2"]}),
        ({"message": replaced(D_TO_C, dst="4")},
         {"floods_all_links": ["32 D A2: is not sent to node 2", "32 D A2: is sent to node 4, from which it came"]}),
        ({"message": copied(D_TO_C, message_id="-1", sent_round="40", due_round="41")},
         {"floods_all_links": ["40 D A2: is sent to node 2 again"]}),
        ({"message": copied(D_TO_C, message_id="-1")}, {}),
    ],
    ids=["never came", "crashed", "another node crashed", "left out", "back", "again", "duplicated by the link"],
)  # fmt: skip
def test_the_audits_of_flooding(flooding: Store, changes: dict[str, Change], found: dict[str, list[str]]) -> Planting:
    [copy] = yield [Plant(flooding, **changes)]
    assert lines(copy) == found


def test_a_copy_that_travels_too_far_is_found(sail: Session, root: Path) -> Planting:
    store = run_all(run_configs([given({"name": "flooding", "max_hops": 3})]), sail, root)
    one = store.read("message").where("kind = 'PUB' and sent_round = 32").orderBy("message_id").collect()[0]
    clean, far, most = yield [
        Plant(store), *(Plant(store, message=replaced(f"message_id = {one.message_id}", body=f"'{{\"hops\":{hops}}}'"))
                        for hops in (4, 3))
    ]  # fmt: skip
    assert (clean.broken, most.broken) == (set(), set())
    found = f"32 {'ABCDE'[one.src]} {'ABCDE'[one.source]}{one.source_seq}: goes over link 4 of its way, max_hops is 3"
    assert lines(far)["bounded_hops"] == [found]


# A publishes in round 30 with max_hops 3, so B sends a copy to C in round 31 for link 2, and C one to D for link 3.
B_TO_C = "src = 1 and dst = 2 and source = 0 and sent_round = 31"
C_TO_D = "src = 2 and dst = 3 and source = 0 and sent_round = 32"


@pytest.fixture(scope="module")
def limited(sail: Session, root: Path) -> Store:
    """A ring with a chord, and the same overlay with a fault that duplicates messages from round 32 on."""
    settings = {"name": "flooding", "max_hops": 3}
    twice = {"kind": "duplicate", "rate": 1.0, "round": 32}
    return run_all(run_configs([given(settings), given(settings, faults=[twice])]), sail, root / "limited")


@pytest.mark.parametrize(
    ("run_id", "changes", "found"),
    [
        (0, {}, {}),
        (1, {}, {}),
        (0, {"message": removed(C_TO_D)}, {"forwards_copies": ["32 C A2: sends 0 of 1 copies to node 3 for link 3"]}),
        (0, {"message": copied(C_TO_D, message_id="-1")},
         {"forwards_copies": ["32 C A2: sends 2 of 1 copies to node 3 for link 3"]}),
        (0, {"message": copied(C_TO_D, message_id="-1"), "fault_event": added(run_id=0, round=32, kind="duplicate")},
         {}),
        (0, {"message": copied(C_TO_D, message_id="-1"), "fault_event": added(run_id=0, round=33, kind="duplicate")},
         {"forwards_copies": ["32 C A2: sends 2 of 1 copies to node 3 for link 3"]}),
        (1, {"message": removed(C_TO_D)}, {"forwards_copies": ["32 C A2: sends 0 of 1 copies to node 3 for link 3"]}),
        (0, {"message": replaced(C_TO_D, sent_round="33")},
         {"forwards_copies": ["32 C A2: sends 0 of 1 copies to node 3 for link 3",
                              "33 C A2: sends 1 of 0 copies to node 3 for link 3"]}),
        (0, {"message": replaced(C_TO_D, dst="1")},
         {"forwards_copies": ["32 C A2: sends 0 of 1 copies to node 3 for link 3",
                              "32 C A2: sends 1 of 0 copies to node 1 for link 3"]}),
        (0, {"message": removed("src = 0 and dst = 4 and sent_round = 30")},
         {"forwards_copies": ["30 A A2: sends 0 of 1 copies to node 4 for link 1",
                              "31 E A2: sends 1 of 0 copies to node 3 for link 2"]}),
        (0, {"message": replaced(B_TO_C, fate="'lost_crash'")},
         {"forwards_copies": ["32 C A2: sends 1 of 0 copies to node 0 for link 3",
                              "32 C A2: sends 1 of 0 copies to node 3 for link 3"]}),
        (0, {"delivery": removed("subscriber = 2 and source = 0 and round = 32")},
         {"forwards_copies": ["32 C A2: gets it, and does not deliver it"]}),
        (0, {"delivery": removed("subscriber = 0 and source = 0 and round = 30")},
         {"forwards_copies": ["30 A A2: gets it, and does not deliver it"]}),
    ],
)  # fmt: skip
def test_each_copy_is_forwarded_until_the_maximum(
    limited: Store, run_id: int, changes: dict[str, Change], found: dict[str, list[str]]
) -> Planting:
    [copy] = yield [Plant(limited, run_id, **changes)]
    assert lines(copy) == found


def dense(*faults: dict[str, Any]) -> dict[str, Any]:
    """Returns a scenario with small meshes on a complete graph, in which the faults happen."""
    return scenario(
        protocol={**GOSSIP, "d_lo": 2, "d_hi": 3, "d_out": 1, "d_lazy": 2, "prune_backoff": 4, "unsubscribe_backoff": 2,
                  "fanout_ttl": 2, "seen_ttl": 12},
        overlay={"links": [[*pair] for pair in combinations("ABCDEFGH", 2)]},
        workload={"subscriptions": [{"at": "G", "round": 20, "topic": "a"}]},
        faults=[{"kind": "crash", **fault} for fault in faults],
        time={"rounds": 400},
    )  # fmt: skip


def test_a_run_that_ends_before_the_next_heartbeat_may_have_a_full_mesh(sail: Session, root: Path) -> Planting:
    """B has four neighbours from the GRAFT of round 396 to the horizon 400; a message is in flight until round 401."""
    runs = run_configs([dense({"node": "F", "round": 369, "until": 399})], [7])
    store = run_all(runs, sail, root)
    assert max(len(mesh) for (mesh,) in rows(store, "state_topic", "mesh")) == 4
    assert max(row for (row,) in rows(store, "message", "due_round")) == 401
    [copy] = yield [Plant(store)]
    assert copy.broken == set()


def test_a_full_mesh_without_outbound_neighbours_may_grow(sail: Session, root: Path) -> Planting:
    """Rule S12: C has three inbound neighbours at the last heartbeat, and grafts G."""
    runs = run_configs([dense({"node": "E", "round": 5, "until": 6}, {"node": "E", "round": 33})], [1])
    store = run_all(runs, sail, root)
    assert (2, (0, 3, 6, 7)) in rows(store, "state_topic", "node_id", "mesh")
    silent = removed("kind = 'GRAFT' and src = 2 and sent_round >= 390")
    clean, copy = yield [Plant(store), Plant(store, message=silent)]
    assert clean.broken == set()
    assert "bounded_mesh" in copy.broken


def test_a_publication_that_was_forgotten_is_new_again(sail: Session, root: Path) -> Planting:
    """Rule S17: C has lost the ids of publications, and gets an old one from a cache, until A has forgotten it, too."""
    slow = scenario(
        protocol={**GOSSIP, "d_lo": 2, "d_hi": 3, "d_out": 1, "d_lazy": 4, "prune_backoff": 4, "unsubscribe_backoff": 2,
                  "fanout_ttl": 2, "seen_ttl": 12, "flood_publish": False, "relay": False},
        overlay={"links": [[*pair, 6] for pair in ("AB", "AC", "AD", "AE", "BC", "BD", "CD", "CE", "DE")]},
        workload={
            "subscriptions": [
                {"at": "A", "topic": "a"}, {"at": "B", "topic": "a"}, {"at": "C", "topic": "a", "until": 58},
                {"at": "D", "topic": "a", "until": 64}, {"at": "C", "round": 72, "topic": "a"},
                {"at": "E", "round": 10, "topic": "a"},
            ],
            "publications": [{"at": "A", "round": 55, "topic": "a"}],
        },
        faults=[
            {"kind": "crash", "node": node, "round": at, "until": at + 6}
            for node, at in (("C", 104), ("D", 62), ("E", 62))
        ],
        time={"rounds": 400},
    )  # fmt: skip
    store = run_all(run_configs([slow]), sail, root)
    assert [subscriber for (subscriber,) in rows(store, "delivery", "subscriber")].count(0) == 3
    [copy] = yield [Plant(store)]
    assert copy.broken == set()


def test_what_is_beyond_the_bound_of_flooding(sail: Session, root: Path) -> Planting:
    name = {"name": "flooding"}
    cases = {
        "no fault": (given(name), True), "a crash on a ring": (given(name, faults=[CRASH]), True),
        "and a recovery": (given(name, faults=[{**CRASH, "until": 50}]), True),
        "a crash on a line": (line(name, faults=[CRASH]), False),
        "loss": (given(name, faults=[{"kind": "loss", "rate": 0.5}]), False),
        "duplicates": (given(name, faults=[{"kind": "duplicate", "rate": 1.0}]), True),
        "a loop": (given({**name, "max_hops": 9}), False), "no loop": (line({**name, "max_hops": 9}), True),
        "too far": (line({**name, "max_hops": 2}), False),
        "too far, and a late crash": (line({**name, "max_hops": 2}, faults=[{**CRASH, "round": 90}]), False),
        "late duplicates without a memory": (line({**name, "max_hops": 9}, faults=[LATE]), False),
        "a publisher that crashes later": (given(name, **THREE, faults=GONE_LATER), True),
        "and a crash before": (given(name, **THREE, faults=[{**DOWN, "until": 40}, *GONE_LATER]), False),
        "all nodes crash": (
            given(name, **THREE, faults=[{**DOWN, "until": 40}, *GONE_LATER, {**DOWN, "node": "C", "round": 70}]),
            False,
        ),
    }  # fmt: skip
    store = run_all(run_configs([of for of, _ in cases.values()]), sail, root)
    [copy] = yield [Plant(store)]
    first = {name: {one.run_id: one for one in copy.beyond}.get(n) for n, name in enumerate(cases)}
    late = [first[name] for name in ("too far, and a late crash", "late duplicates without a memory")]
    assert [one and (one.round, len(one.reason.split("; "))) for one in late] == [(0, 2), (LATE["round"], 1)]
    assert dict(zip(cases, within(copy), strict=True)) == {name: expected for name, (_, expected) in cases.items()}
    assert copy.verdict == "valid"


def test_what_is_beyond_the_bound_of_gossipsub(sail: Session, root: Path) -> Planting:
    whole = {"name": "gossipsub", "heartbeat_rounds": 10}
    cases = {
        "no fault": (given(whole), True), "a crash on a ring": (given(whole, faults=[CRASH]), True),
        "and a recovery": (given(whole, faults=[{**CRASH, "until": 50}]), False),
        "a crash on a line": (line(whole, faults=[CRASH]), False),
        "a part of the overlay": (given({**GOSSIP, "d_hi": 3}), True),
        "a crash there": (given({**GOSSIP, "d_hi": 3}, faults=[CRASH]), False),
        "full meshes": (given(GOSSIP), False),
        "full meshes, and a late crash": (given(GOSSIP, faults=[{**CRASH, "round": 90}]), False),
        "loss": (given(whole, faults=[{"kind": "loss", "rate": 0.5}]), False),
        "duplicates": (given(whole, faults=[{"kind": "duplicate", "rate": 1.0}]), True),
        "a pause": (given(whole, faults=[{"kind": "pause", "node": "C", "round": 30, "until": 45}]), True),
        "a publisher that crashes later": (given(whole, **THREE, faults=GONE_LATER), True),
        "and a crash before": (given(whole, **THREE, faults=[DOWN, *GONE_LATER]), False),
    }  # fmt: skip
    store = run_all(run_configs([of for of, _ in cases.values()]), sail, root)
    [copy] = yield [Plant(store)]
    assert dict(zip(cases, within(copy), strict=True)) == {name: expected for name, (_, expected) in cases.items()}
    assert copy.verdict == "valid"


def test_views_count_copies_and_gossip(gossipsub: Store) -> None:
    reader = StoreReader(gossipsub.session, gossipsub.root)
    found = reader.sql("select sum(n_pushed), sum(n_replies), sum(n_gossiped) from push_overhead").collect()[0]
    kinds = [kind for (kind,) in rows(gossipsub, "message", "kind")]
    assert found[:2] == (kinds.count("PUB"), kinds.count("REPLY"))
    assert found[2] > 0
    degrees = reader.sql("select max(degree) from mesh_degree").collect()[0][0]
    assert degrees >= 1


def test_slow_directions_of_links_break_no_rule(sail: Session, root: Path) -> Planting:
    """B crashes while its ANNOUNCE is on its slow link to A, or C's ANNOUNCE comes to A after the publication."""
    settings = {"name": "gossipsub", "relay": False, "detection_rounds": 5, "heartbeat_rounds": 10}
    late = {"links": [["A", "B", 1, 20], ["B", "C"], ["C", "A"]]}
    subscriptions = [{"at": at, "round": at_round, "topic": "news"} for at, at_round in (("A", 0), ("C", 0), ("B", 10))]
    crashed = given(
        settings, overlay=late, workload={"subscriptions": subscriptions}, faults=[{**DOWN, "round": 12}]
    )  # fmt: skip
    few = {**settings, "d": 0, "d_lo": 0, "d_hi": 0, "d_out": 0}
    gossip = given(
        few, overlay={"links": [["A", "B"], ["A", "C", 1, 500]]},
        workload={
            "subscriptions": [{"at": at, "topic": "news"} for at in "ABC"],
            "publications": [{"at": "A", "round": 100, "topic": "news"}],
        },
    )  # fmt: skip
    store = run_all(run_configs([crashed, gossip]), sail, root)
    assert (0, 0, (2,)) in rows(store, "state_topic", "run_id", "node_id", "peers")
    [copy] = yield [Plant(store)]
    assert copy.broken == set()


def test_a_report_comes_later_if_a_hello_arrives_from_a_node_that_is_down_again(sail: Session, root: Path) -> Planting:
    """A recovers for one round; its HELLO reaches B in round 55, and B learns of the second crash in round 66."""
    parts = {
        "name": "again",
        "protocol": {"name": "gossipsub", "relay": False, "detection_rounds": 5},
        "overlay": {"links": [["A", "B", 6]]},
        "workload": {"subscriptions": [{"at": name, "round": 0, "topic": "a"} for name in "AB"]},
        "faults": [
            {"kind": "crash", "node": "A", "round": first, "until": last} for first, last in [(43, 49), (50, 80)]
        ],
        "time": {"rounds": 120, "round_ms": 10},
    }
    store = run_all(run_configs([parts]), sail, root)
    [b] = [row[0] for row in rows(store, "node", "node_id", "name") if row[1] == "B"]

    def announced(round_: int) -> Plant:
        """Changes B's announcements to A to IHAVE messages of a round."""
        rounds = {"sent_round": f"cast({round_} as bigint)", "due_round": f"cast({round_} + 6 as bigint)"}
        where = f"src = {b} and kind = 'ANNOUNCE' and sent_round > 0"
        return Plant(store, message=replaced(where, kind="'IHAVE'", **rounds))

    before, after = yield [announced(65), announced(67)]
    assert before.found("forgets_crashed") == []
    assert after.found("forgets_crashed") != []
