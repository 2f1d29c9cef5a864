"""Second failures in just the rounds in which repairs and elections bear them least: all guarantees hold all the same.

`support.ginger.adversary` designs them; without an engine in `support.ginger.nodes`, then some of them on one, as runs
of one job. tests/perf/ginger_adversarial.py makes thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from oracles.ginger.messages import Publication
from oracles.ginger.network import Setup
from support.ginger.adversary import TREES, base, chosen
from support.ginger.nodes import plain, played
from support.ginger.setups import FIRST_ROUND, Crashing, Timed, stored

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import audited, broken, rows, run_all, run_configs, scenario
from udfs.ginger.messages import JOINING

Swept = Callable[..., Crashing]
ROUNDS = range(209, 231)
"""Of A's failure: from before R's is noticed to after B has its new parent."""
N_STRIKES = 4
"""To each of the trees."""


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


@pytest.fixture(scope="module")
def cases() -> list[Crashing]:
    drawn = (strike for seed, tree in enumerate(TREES) for strike in chosen(base(tree, seed), seed, N_STRIKES))
    return [*map(survivors, ROUNDS), early(), *(strike.case for strike in drawn)]


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory, cases: list[Crashing]) -> Store:
    return stored(cases, sail, tmp_path_factory.mktemp("ginger_adversary"))


def test_a_broker_alone_after_an_election_is_the_root(store: Store, cases: list[Crashing]) -> None:
    """B asks A, which it has elected, and nobody else is left: whenever A fails, B and D are one tree."""
    name = {(run, node): name for run, node, name in rows(store, "node", "run_id", "node_id", "name")}
    near = rows(store, "state_neighbour", "run_id", "node_id", "neighbour", "relationship")
    up = {(run, name[run, node], name[run, other]) for run, node, other, kind in near if kind == "parent"}
    assert {found for found in up if found[0] < len(ROUNDS)} == {(run, "B3", "B2") for run in range(len(ROUNDS))}
    assert {case.crashes[1] for case in cases[: len(ROUNDS)]} == set(ROUNDS)


def test_all_guarantees_hold_and_the_bound_follows_from_the_schedule(store: Store, cases: list[Crashing]) -> None:
    report = audited(store, "ginger")
    assert broken(report) == {}
    assert report.verdict == "valid"
    beyond = {run.run_id for run in report.beyond}
    assert beyond == {run for run, case in enumerate(cases) if played(case).beyond}
    assert beyond.isdisjoint(range(len(ROUNDS)))
    assert len(beyond) < len(TREES) * N_STRIKES // 4


def early() -> Crashing:
    """B3 is back while B2 has no parent, and asks B4, too, which joins only later."""
    late = replace(base("two children", 3), crashes={0: 208, 3: 241}, until={3: 243}, joins={4: 268})
    assert late.timed.setup.parent[4] == 3
    return late


def wrong(cases: Iterable[Crashing]) -> list[object]:
    """What is broken within the bound."""
    networks = [(case, played(case)) for case in cases]
    assert all(network.beyond == [] for _, network in networks)
    return [(case.crashes, case.until, found) for case, network in networks if (found := network.violations())]


def swept(parent: dict[int, int | None], edge: dict[int, int], latency: dict[tuple[int, int], int]) -> Swept:
    """Links that are not named take a round; buffers hold a single event, and timers are the shortest allowed."""
    timed = plain(parent, edge)
    links = {**timed.latency, **{frozenset(pair): wait for pair, wait in latency.items()}}
    timer = 6 * max(links.values())

    def case(crashes: dict[int, int], until: dict[int, int] | None = None) -> Crashing:
        settings = {"timer_rounds": timer}
        return Crashing(replace(timed, latency=links), crashes, buffer_size=1, until=until or {}, settings=settings)

    return case


def test_survivors_hold_without_an_engine() -> None:
    assert wrong(map(survivors, ROUNDS)) == []


def test_orphans_whose_grandparent_fails_too_elect() -> None:
    """B2 and B3 are left of a root, its only child, and the children of that."""
    case = swept({0: None, 1: 0, 2: 1, 3: 1}, {4: 2, 5: 3}, {(1, 2): 3})
    assert wrong(case({first: 208, 1 - first: at}) for first in (0, 1) for at in range(208, 240)) == []


def test_siblings_elect_again_when_the_winner_fails() -> None:
    """Also when it has taken one of them in, and the other one, far away, is still asking it."""
    case = swept({0: None, 1: 0, 2: 0, 3: 0}, {4: 2, 5: 3, 6: 1}, {(0, 3): 9})
    networks = [played(case({0: 208, 1: at})) for at in range(209, 320)]
    assert [network.violations() for network in networks if network.beyond or network.violations()] == []
    votes = [flight.message for network in networks for flight in network.sent if flight.kind == "RootElection"]
    gone = {len(vote.brokers) for vote in votes if vote.vote is not None}
    assert {1, 2} <= gone


def test_a_client_finds_whom_it_saw_before_its_edge_broker_failed() -> None:
    """C5 comes to B0 before B2 does, so it sees nobody there."""
    case = swept({0: None, 1: 0, 2: 1, 3: 2}, {5: 1, 6: 3}, {(1, 2): 5})
    assert wrong(case({1: 208, 0: at}) for at in range(209, 250)) == []


@pytest.mark.parametrize(
    ("seed", "crashes", "until"),
    [(20, {0: 208, 2: 290}, {}), (20, {0: 208, 2: 364}, {}), (30, {0: 208, 2: 224}, {2: 229})],
    ids=["who is below a sibling", "who came below it long ago", "a winner that is back"],
)
def test_nobody_asks_who_has_no_place_to_give(seed: int, crashes: dict[int, int], until: dict[int, int]) -> None:
    assert wrong([replace(base("Figure 5.2", seed), crashes=crashes, until=until)]) == []


@pytest.mark.parametrize(("seed", "at"), [(20, 261), (30, 271)])
def test_an_orphan_counts_a_voter_that_it_does_not_see(seed: int, at: int) -> None:
    """The root B2 declines B3 for lack of degree, and fails: its children know B3, which does not know B6."""
    case = replace(base("Figure 5.2", seed), crashes={0: 208, 2: at}, until={2: at + 6})
    assert wrong([case]) == []
    votes = [(flight.src, flight.dst) for flight in played(case).sent if flight.kind == "RootElection"]
    assert (6, 3) in votes
    assert (3, 6) in votes


def test_who_was_told_to_wait_notices_a_failure_soon() -> None:
    """B0 joins a sub-tree in order to take B3 in, and fails; B4 joins at B3 meanwhile."""
    case = replace(base("two children", 9), crashes={2: 208, 0: 226})
    network = played(case)
    assert (network.beyond, network.violations(), network.status) == ([], [], {4: "OPERATIONAL"})
    answers = [flight.message for flight in network.sent if flight.kind == "ParentResponse" and flight.src == 0]
    assert JOINING in {message.answer for message in answers}
    assert network.last_round < FIRST_ROUND + 400


def test_a_parent_that_is_back_is_gone_all_the_same() -> None:
    """The root asks its former children before they know that it failed."""
    case = swept({0: None, 1: 0, 2: 0, 3: 1}, {4: 1, 5: 2, 6: 3}, {(0, 2): 3})
    assert wrong(case({0: 208}, {0: at}) for at in range(209, 240)) == []


def test_what_followed_an_answer_that_was_put_aside_goes_with_it() -> None:
    """B1's children come to the root, which fails while they wait for what had left its buffer."""
    case = replace(base("deep", 2), buffer_size=1)
    assert wrong(replace(case, crashes={1: 208, 0: at}) for at in range(216, 228)) == []


def test_a_broker_that_crashes_twice_ignores_the_acceptance_of_its_first_request(tmp_path: Path, sail: Session) -> None:
    """Rule G28: B2 accepts the first request of B6, which crashes again before the answer arrives in round 252."""
    crashes = [("B0", 208, None), ("B6", 236, 242), ("B6", 246, 252)]
    faults = [{"kind": "crash", "node": node, "round": at, **({"until": up} if up else {})} for node, at, up in crashes]
    links = [("B0", "B1", 8), ("B0", "B2", 2), ("B1", "B4", 9), ("B1", "B5", 7), ("B2", "B6", 5)]
    twice = scenario(
        protocol={"name": "ginger", "total_degree": 2, "timer_rounds": 66},
        overlay={"links": [[*link] for link in links], "clients": [{"name": "C10", "at": "B6", "latency": 2}]},
        workload={},
        faults=faults,
        time={"rounds": 2000},
    )
    store = run_all(run_configs([twice]), sail, tmp_path)
    assert broken(audited(store, "ginger")) == {}
    name = dict(rows(store, "node", "node_id", "name"))
    above = rows(store, "state_neighbour", "node_id", "neighbour", "relationship")
    assert {(name[node], name[other]) for node, other, kind in above if kind == "parent"} == {
        ("B1", "B2"), ("B4", "B1"), ("B5", "B1"), ("B6", "B2"),
    }  # fmt: skip
    answers = rows(store, "message", "kind", "src", "dst", "due_round", "body")
    assert [(due, body) for kind, src, dst, due, body in answers
            if kind == "ParentResponse" and (name[src], name[dst]) == ("B2", "B6") and due == 252] == [
        (252, '{"answer":"accepted","incarnation":1}')
    ]  # fmt: skip
