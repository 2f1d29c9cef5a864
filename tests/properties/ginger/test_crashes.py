"""Protocol ginger on random trees whose brokers crash, the root among them: all guarantees hold within the views.

Without an engine in `support.ginger.nodes`; then some of these runs on one, with the same deliveries.
tests/perf/ginger_runs.py makes thousands of them. Pinned schedules have a second failure during a repair or an
election; each of them broke a guarantee once. `properties/test_hunts.py` searches further ones.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from oracles.ginger.messages import Publication
from oracles.ginger.network import Setup
from support.ginger.nodes import PARENT, NodeNetwork, holding, operation_with_crash, plain, played, swept
from support.ginger.setups import (
    FIRST_ROUND,
    Crashing,
    Timed,
    bank_with_crashes,
    crashing,
    delivery_orders,
    n_refused,
)

from pipelines.engines.session import Session
from pipelines.protocols.ginger import OPERATION
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import (
    audited,
    broken,
    copied,
    found,
    planted,
    removed,
    replaced,
    rows,
    run_all,
    run_configs,
    scenario,
)
from udfs.ginger.messages import JOINING

HUNTED = Path(__file__).parents[2] / "mutation" / "hunted"
SOON = FIRST_ROUND + 100
N_BANKS = 10
N_RUNS = 24
N_SMALL = 6
SMALL = 2


@pytest.mark.parametrize("n_crashes", [1, 2])
def test_nodes_keep_all_guarantees_within_the_views(n_crashes: int) -> None:
    networks = {seed: played(crashing(seed, n_crashes)) for seed in range(250)}
    within = {seed: network for seed, network in networks.items() if not network.beyond}
    assert {seed: found for seed, network in within.items() if (found := network.violations())} == {}
    assert len(within) > (245 if n_crashes == 1 else 230)
    assert sum("RootElection" in network.kinds for network in within.values()) > 20


def sub_tree(network: NodeNetwork) -> set[tuple[int, int]]:
    """Brokers and their neighbours in the sub-tree of the topic."""
    assert (network.beyond, network.violations()) == ([], [])
    return {(b, neighbour) for b, node in network.nodes.items() for _, neighbour in node.subscriber}


def test_a_broker_outside_a_sub_tree_joins_it_to_take_in_those_who_are_in_it() -> None:
    """B1, where the sub-tree ends, fails; B0 is not in it, and nobody else is in the views of B2 and B3."""
    network = played(Crashing(plain({0: None, 1: 0, 2: 1, 3: 1}, {5: 2, 6: 3}), {1: FIRST_ROUND + 2}))
    assert sub_tree(network) == {(0, 2), (0, 3), (2, 0), (2, 5), (3, 0), (3, 6)}


def test_what_has_left_small_buffers_is_published_again() -> None:
    """Nothing is lost even with a single event in a buffer; clients are told of what was missing."""
    cases = [replace(crashing(seed, 2), buffer_size=1 + seed % 2) for seed in range(150)]
    within = {seed: network for seed, case in enumerate(cases) if not (network := played(case)).beyond}
    assert {seed: found for seed, network in within.items() if (found := network.violations())} == {}
    assert [network.lost for network in within.values() if network.lost] == []
    assert sum("Repeat" in network.kinds for network in within.values()) > 20


def test_a_total_order_operation_ends_for_every_broker_and_round_of_failure() -> None:
    """Every broker, from before its first message to after its last one: all clients deliver it, its own too."""
    networks = {(b, at): operation_with_crash(b, at) for b in PARENT for at in range(20)}
    assert {case: network.beyond for case, network in networks.items() if network.beyond} == {}
    assert {case: found for case, network in networks.items() if (found := network.violations())} == {}
    late = [network for network in networks.values() if network.last_delivery > FIRST_ROUND + 25]
    assert len(late) > 30


def survivors(at: int) -> Crashing:
    """R (B0) has children A (B1) and B (B2), D (B3) is below B, clients at A, B, D; R fails in round 208, then A."""
    parent, edge = {0: None, 1: 0, 2: 0, 3: 2}, {4: 1, 5: 2, 6: 3}
    latency = {(0, 1): 2, (0, 2): 1, (2, 3): 2, (1, 4): 1, (2, 5): 1, (3, 6): 1}
    calls = [
        (round_, Publication(client, 1 + number, "t", frozenset("k"), guarantee))
        for number, round_ in enumerate((200, 206, 212))
        for client, guarantee in ((4, "total"), (5, "causal"), (6, "total"))
    ]
    setup = Setup(parent, edge, {"t": frozenset(edge)}, [m for _, m in calls])
    timed = Timed(setup, {frozenset(pair): wait for pair, wait in latency.items()}, calls)
    return Crashing(timed, {0: 208, 1: at}, settings={"timer_rounds": 24})


def test_a_broker_alone_after_an_election_is_the_root() -> None:
    """B asks A, which it has elected, and nobody else is left: whenever A fails, B and D are one tree."""
    for network in holding(map(survivors, range(209, 231))):
        above = {
            (b, row.neighbour)
            for b, node in network.nodes.items()
            for row in node.neighbour.values()
            if row.relationship == "parent"
        }
        assert above == {(3, 2)}


def test_orphans_whose_grandparent_fails_too_elect() -> None:
    """B2 and B3 are left of a root, its only child, and the children of that."""
    case = swept({0: None, 1: 0, 2: 1, 3: 1}, {4: 2, 5: 3}, {(1, 2): 3})
    holding(case({first: 208, 1 - first: at}) for first in (0, 1) for at in range(208, 240))


def test_siblings_elect_again_when_the_winner_fails() -> None:
    """Also when it has taken one of them in, and the other one, far away, is still asking it."""
    case = swept({0: None, 1: 0, 2: 0, 3: 0}, {4: 2, 5: 3, 6: 1}, {(0, 3): 9})
    networks = holding(case({0: 208, 1: at}) for at in range(209, 320))
    votes = [flight.message for network in networks for flight in network.sent if flight.kind == "RootElection"]
    assert {1, 2} <= {len(vote.brokers) for vote in votes if vote.vote is not None}


def test_a_client_finds_whom_it_saw_before_its_edge_broker_failed() -> None:
    """C5 comes to B0 before B2 does, so it sees nobody there."""
    case = swept({0: None, 1: 0, 2: 1, 3: 2}, {5: 1, 6: 3}, {(1, 2): 5})
    holding(case({1: 208, 0: at}) for at in range(209, 250))


def test_a_parent_that_is_back_is_gone_all_the_same() -> None:
    """The root asks its former children before they know that it failed."""
    case = swept({0: None, 1: 0, 2: 0, 3: 1}, {4: 1, 5: 2, 6: 3}, {(0, 2): 3})
    holding(case({0: 208}, {0: at}) for at in range(209, 240))


def test_a_former_parent_that_is_back_votes_with_its_children() -> None:
    """Rule G29: B0 recovers below the new root, which fails: its vote names this root only, those of others also B0."""
    case = swept({0: None, 1: 0, 2: 0, 3: 1, 4: 1, 5: 2}, {6: 3}, {})
    holding(case({0: 208, 2: at}, {0: 214}) for at in range(209, 260))
    holding(case({0: 208, 2: at}, {0: 214, 2: at + 6}) for at in range(209, 260))


def test_votes_that_come_before_the_report_count() -> None:
    """Rule G13: B1 connects to the root B2 late, so its failure detector reports the failure of B2 after B0's vote."""
    case = swept({0: None, 1: 0, 2: 0}, {3: 1}, {(0, 1): 2, (0, 2): 5})
    holding(case({0: 208, 2: at}, {0: 220}) for at in range(222, 262))


def test_news_of_a_failure_is_stale_when_the_broker_is_back() -> None:
    """Rule G29: B3 handles B1's answer, which says that B0 is down, long after B0 has recovered."""
    case = swept({0: None, 1: 0, 2: 1, 3: 0}, {4: 2, 5: 3}, {})
    holding(case({0: 208, 1: at}, {0: 224, 1: at + 10}) for at in range(226, 270))


def test_a_publisher_and_who_waits_for_its_messages_do_not_wait_for_each_other() -> None:
    """Rule G30: the messages of C7 have left all buffers, and its new edge broker must join the sub-tree."""
    latency = {(0, 1): 5, (0, 2): 5, (2, 4): 2, (3, 5): 5}
    case = swept({0: None, 1: 0, 2: 0, 3: 1, 4: 2, 5: 3}, {6: 0, 7: 4}, latency)
    holding(case({0: 208, 4: at}, {0: 218, 4: at + 9}) for at in range(215, 255))


def test_messages_wait_for_a_stored_answer_to_a_join() -> None:
    """B3 joins the sub-tree when B1 fails; the answer of B0 lacks a body, and later messages of B0 must not pass it."""
    case = swept({0: None, 1: 0, 2: 0, 3: 1, 4: 2}, {6: 0, 7: 4}, {(0, 1): 5, (0, 2): 5, (2, 4): 2})
    holding(case({0: 208, 1: at}, {0: 218, 1: at + 6}) for at in range(250, 290))


def test_a_broker_that_is_back_finds_others_when_its_new_parent_fails() -> None:
    """Rule G31: B1 recovers below B0, which fails before B2 is its child, so B1 has seen nobody else."""
    case = swept({0: None, 1: 0, 2: 1}, {3: 2, 4: 1}, {(1, 2): 5})
    holding(case({1: 208, 0: at}, {1: 222}) for at in range(224, 260))


def test_a_vote_that_names_the_former_incarnation_of_a_parent_is_answered() -> None:
    """Rule G32: B1 is the root again, and parent of B2, when B3 hears of the failure of B0 and votes."""
    case = swept({0: None, 1: 0, 2: 1, 3: 1, 4: 3}, {5: 1, 6: 1}, {(0, 1): 5, (1, 3): 5})
    holding(case({1: 208, 0: at}, {1: 213}) for at in range(214, 250))


def test_a_child_that_crashed_before_it_was_accepted_is_not_waited_for() -> None:
    """Rules G25 and G28: B3 recovers before its first request arrives; B1 and a client wait for the same broker."""
    latency = {(0, 1): 2, (0, 2): 5, (3, 4): 5}
    case = swept({0: None, 1: 0, 2: 0, 3: 0, 4: 3, 5: 2, 6: 0}, {7: 0, 8: 1}, latency)
    holding(case({0: 208, 3: at}, {3: at + 1}) for at in range(214, 250))


def hunted(name: str) -> dict[str, Any]:
    """Returns a scenario of folder ``hunted``."""
    parts: dict[str, Any] = yaml.safe_load((HUNTED / f"{name}.yaml").read_text("utf-8"))
    return parts


def second(name: str, broker: str, at: int, until: int | None = None) -> dict[str, Any]:
    """Returns a hunted scenario, in which a broker fails in round 208, with a second crash."""
    parts = hunted(name)
    crash = {"kind": "crash", "node": broker, "round": at, **({"until": until} if until else {})}
    return {**parts, "faults": [*parts["faults"], crash]}


PINNED = {
    "who is below a sibling has no place to give": second("ginger_elections", "B2", 290),
    "who came below a sibling long ago has no place to give": second("ginger_elections", "B2", 364),
    "a winner that is back has no place to give": second("ginger_winner", "B2", 224, 229),
    "a voter out of view": second("ginger_elections", "B2", 261, 267),
    "another voter out of view": second("ginger_winner", "B2", 271, 277),
    "told to wait": second("ginger_waiting", "B0", 226),
    "back before a join": second("ginger_late", "B3", 241, 243),
    **{
        f"what followed an answer that was put aside goes with it, {at}": second("ginger_buffers", "B0", at)
        for at in range(216, 228)
    },
    "orphans below two failed brokers": hunted("ginger_orphans"),
    "a voter crashes, and asks for a parent after its recovery": scenario(
        protocol={"name": "ginger", "timer_rounds": 200},
        overlay={"links": [["B0", "B1", 12], ["B0", "B6", 7], ["B1", "B5", 3]]},
        workload={},
        faults=[
            {"kind": "crash", "node": "B1", "round": 125, "until": 129},
            {"kind": "crash", "node": "B0", "round": 184, "until": 190},
            {"kind": "crash", "node": "B1", "round": 203, "until": 209},
        ],
        time={"rounds": 5000},
    ),
    "a view that arrives after a crash": second("ginger_orphans", "B1", 611, 617),
    "a view for an incarnation that had ended": second("ginger_orphans", "B1", 608, 614),
    "all brokers fail that know what a client has delivered": hunted("ginger_coverage"),
    "an election after repeated crashes": scenario(
        protocol={"name": "ginger", "timer_rounds": 30},
        overlay={"links": [["B0", "B1", 5], ["B0", "B2", 5], ["B1", "B3"]], "clients": [{"name": "C7", "at": "B2"}]},
        workload={},
        faults=[
            {"kind": "crash", "node": "B0", "round": 258, "until": 264},
            {"kind": "crash", "node": "B1", "round": 363, "until": 369},
            {"kind": "crash", "node": "B1", "round": 388, "until": 394},
            {"kind": "crash", "node": "B0", "round": 417, "until": 423},
            {"kind": "crash", "node": "B1", "round": 548},
        ],
        time={"rounds": 5000},
    ),
    "a vote for a broker that has found a parent": scenario(
        protocol={"name": "ginger", "timer_rounds": 30},
        overlay={
            "links": [["B0", "B1", 5], ["B0", "B2", 5], ["B1", "B3"]],
            "clients": [{"name": "C6", "at": "B0"}, {"name": "C7", "at": "B2"}],
        },
        workload={"subscriptions": [{"at": name, "topic": "t"} for name in ("C6", "C7")]},
        faults=[
            {"kind": "crash", "node": "B0", "round": 208, "until": 218},
            {"kind": "crash", "node": "B0", "round": 258, "until": 264},
            {"kind": "crash", "node": "B1", "round": 271, "until": 277},
            {"kind": "crash", "node": "B0", "round": 358, "until": 364},
            {"kind": "crash", "node": "B1", "round": 359, "until": 365},
        ],
        time={"rounds": 5000},
    ),
    "crashed twice": scenario(
        protocol={"name": "ginger", "total_degree": 2, "timer_rounds": 66},
        overlay={
            "links": [["B0", "B1", 8], ["B0", "B2", 2], ["B1", "B4", 9], ["B1", "B5", 7], ["B2", "B6", 5]],
            "clients": [{"name": "C10", "at": "B6", "latency": 2}],
        },
        workload={},
        faults=[
            {"kind": "crash", "node": "B0", "round": 208},
            {"kind": "crash", "node": "B6", "round": 236, "until": 242},
            {"kind": "crash", "node": "B6", "round": 246, "until": 252},
        ],
        time={"rounds": 5000},
    ),
}
"""Second failures within the bound, behind the runs of `cases` in the store."""


class Pinned:
    """The rows of a pinned run, with the names of nodes."""

    def __init__(self, store: Store, title: str) -> None:
        self.run_id = N_RUNS + N_SMALL + N_BANKS + [*PINNED].index(title)
        self._store, self._is_run = store, f"run_id = {self.run_id}"
        self._name = dict(self._rows("node", "node_id", "name"))

    def _rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self._store.read(table).where(self._is_run).select(*columns).collect()
        return [tuple(row) for row in found]

    def messages(self, kind: str, *columns: str) -> list[tuple[Any, ...]]:
        """Returns sender, receiver and ``columns`` of the messages of a kind."""
        found = self._rows("message", "kind", "src", "dst", *columns)
        return [(self._name[src], self._name[dst], *row) for of_kind, src, dst, *row in found if of_kind == kind]

    def parents(self) -> dict[str, str]:
        """Returns the parent of each broker that has one."""
        found = self._rows("state_neighbour", "node_id", "neighbour", "relationship")
        return {self._name[node]: self._name[other] for node, other, kind in found if kind == "parent"}

    def statuses(self) -> list[tuple[str, str]]:
        """Returns the changes of nodes' statuses."""
        return [(self._name[node], status) for node, status in self._rows("node_status", "node_id", "status")]


def short(draw: Callable[[int, int], Crashing], count: int, kind: str = "ParentRequest") -> list[Crashing]:
    """Those runs of seeds from 0 on that send a kind of message and are soon quiet: a job costs as its longest run."""
    drawn = ((case, played(case)) for seed in itertools.count() if (case := draw(seed, 1 + seed % 2)))
    found = (case for case, network in drawn if network.last_round < SOON and kind in network.kinds)
    return list(itertools.islice(found, count))


def with_small_buffers(seed: int, n_crashes: int) -> Crashing:
    return replace(crashing(N_RUNS + seed, n_crashes), buffer_size=SMALL)


@pytest.fixture(scope="module")
def cases() -> list[Crashing]:
    plain = [*short(crashing, N_RUNS), *short(with_small_buffers, N_SMALL, "Repeat")]
    return [*plain, *short(bank_with_crashes, N_BANKS)]


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory, cases: list[Crashing]) -> Store:
    """Runs the cases and the pinned schedules as one job with few commits."""
    runs = run_configs([*(case.scenario for case in cases), *PINNED.values()])
    return run_all(runs, sail, tmp_path_factory.mktemp("ginger_crashes"), commit_every=1000)


def test_the_engine_delivers_as_the_nodes_do_by_themselves(store: Store, cases: list[Crashing]) -> None:
    orders = delivery_orders(store)
    n_compared = 0
    for run, case in enumerate(cases[:-N_BANKS]):
        for client, log in played(case).logs.items():
            wanted = [m.id for what, m in log if what == "deliver"]
            assert orders.get((run, f"C{client}"), []) == wanted, (run, client)
            n_compared += len(wanted)
    assert n_compared > 20 * N_RUNS


def test_all_guarantees_hold_within_the_views(store: Store, cases: list[Crashing]) -> None:
    report = audited(store, "ginger")
    assert broken(report) == {}
    assert report.verdict == "valid"
    told = {run: played(case).beyond for run, case in enumerate(cases)}
    assert {run.run_id: (run.round, run.reason) for run in report.beyond} == {
        run: (min(at for at, _ in beyond), "; ".join(reason for _, reason in sorted(beyond)))
        for run, beyond in told.items()
        if beyond
    }
    assert len(report.runs) == len(cases) + len(PINNED)
    assert sum(run.within_bound for run in report.runs[: len(cases)]) > len(cases) // 2


@pytest.mark.parametrize("title", ["a voter out of view", "another voter out of view"])
def test_an_orphan_counts_a_voter_out_of_its_view(store: Store, title: str) -> None:
    """The root B2 declines B3 for lack of degree, and fails: its children know B3, which does not know B6."""
    assert {("B6", "B3"), ("B3", "B6")} <= {*Pinned(store, title).messages("RootElection")}


def test_who_was_told_to_wait_notices_a_failure_soon(store: Store) -> None:
    """B0 joins a sub-tree in order to take B3 in, and fails. Before the repair ends, B4 joins at B3."""
    run = Pinned(store, "told to wait")
    answers = run.messages("ParentResponse", "body", "sent_round")
    assert JOINING in {json.loads(body)["answer"] for src, _, body, _ in answers if src == "B0"}
    assert max(sent for *_, sent in run.messages("Metadata", "sent_round")) < FIRST_ROUND + 400
    assert run.statuses()[-1] == ("B4", "OPERATIONAL")


def test_a_broker_that_crashes_twice_ignores_the_acceptance_of_its_first_request(store: Store) -> None:
    """Rule G28: B2 accepts the first request of B6, which crashes again before the answer arrives in round 252."""
    run = Pinned(store, "crashed twice")
    assert run.parents() == {"B1": "B2", "B4": "B1", "B5": "B1", "B6": "B2"}
    answers = run.messages("ParentResponse", "due_round", "body")
    assert ("B2", "B6", 252, '{"answer":"accepted","incarnation":1,"own_incarnation":0}') in answers


FIRST_VOTES = "kind = 'RootElection' and src = 0 and sent_round = 558"
VOTE_OF_B3 = "kind = 'RootElection' and src = 3 and dst = 0 and sent_round = 564"


@pytest.mark.parametrize(
    ("audit", "where", "body", "detail"),
    [
        ("elects_highest", VOTE_OF_B3, None, "elects node 0 without a vote of node 3"),
        ("elects_highest", VOTE_OF_B3, "replace(body, '\"vote\":8', '\"vote\":9')",
         "elects node 0, and node 3 has residual degree 9"),
        ("shows_electors", "kind = 'TreeViewUpdate' and sent_round = 580", "'{\"seen\":[]}'",
         "the view for node 2 does not show elector 3"),
    ],
)  # fmt: skip
def test_an_election_that_replaces_another_one_is_judged(
    store: Store, tmp_path: Path, audit: str, where: str, body: str | None, detail: str
) -> None:
    """B0 votes without B2, and then with B2 in the same round: the last vote counts."""
    run = Pinned(store, "an election after repeated crashes").run_id
    where = f"run_id = {run} and {where}"
    change = removed(where) if body is None else replaced(where, body=body)
    without = "replace(body, ']', ',{\"broker\":2,\"incarnation\":0}]')"
    twice = copied(f"run_id = {run} and {FIRST_VOTES}", message_id="message_id - 500", body=without)
    store = planted(store, tmp_path, message=lambda sent: change(twice(sent)))
    assert (run, "B0", None, None, detail) in found(store, audit, "ginger")


def test_trees_were_mended_and_messages_sent_again(store: Store) -> None:
    kinds = {kind for (kind,) in rows(store, "message", "kind")}
    assert {"NeighborDown", "ParentRequest", "LostMessageRequest", "LostMessages", "RootElection", "Failed"} <= kinds
    answers = [json.loads(body) for kind, body in rows(store, "message", "kind", "body") if kind == "LostMessages"]
    assert any(answer["told"]["events"] for answer in answers)


def test_small_buffers_hold_no_more_and_publishers_are_told(store: Store) -> None:
    sizes = Counter(
        (run, node, topic)
        for run, node, topic, event in rows(store, "state_metadata_buffer", "run_id", "node_id", "topic", "event")
        if event != "published"
    )
    size = {run: json.loads(text)["protocol.buffer_size"] for run, text in rows(store, "run", "run_id", "parameters")}
    assert all(count <= size[run] for (run, *_), count in sizes.items())
    assert {size[run] for (run, *_), count in sizes.items() if count == size[run]} == {1, SMALL}
    told = {row[:3] for row in rows(store, "state_exception", "run_id", "source", "source_seq")}
    again = {row[1:] for row in rows(store, "message", "kind", "run_id", "source", "source_seq") if row[0] == "Repeat"}
    assert told == again != set()
    assert rows(store, "state_gap") == []


def test_some_replicas_refuse_what_an_account_cannot_pay(store: Store) -> None:
    operations = StoreReader(store.session, store.root).sql(OPERATION)
    assert operations.select("run_id").distinct().count() == N_BANKS
    assert 0 < n_refused(store) < operations.count()
