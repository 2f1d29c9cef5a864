"""The audits of protocol repository find what is planted, and its views measure.

In the run that is disturbed two repositories serve topic news, which p owns: s1 and s2 may subscribe, s3 may not. The
links lose a fifth of all messages for 60 rounds, r1 crashes and comes back, s2 turns to r1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.copies import Plant, Planting
from support.repository.scenes import NEWS, TIMERS, calls, chain, down

from pipelines.engines.session import Session
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import (
    Change,
    added,
    copied,
    removed,
    replaced,
    run_all,
    run_configs,
    scenario,
)

R1, R2, P, S1, S2, S3 = range(3, 9)
OWNED = {NEWS: {"owner": "p", "publishers": ["p"], "subscribers": ["s1", "s2"]}}
DISTURBED = chain(
    settings={"topics": OWNED},
    published=[30, 35, 62, 63, 110],
    calls=[{"at": "s2", "round": 100, "kind": "steer", "topic": NEWS, "peer": "r1"}],
    faults=[
        {"kind": "loss", "round": 20, "until": 80, "rate": 0.2},
        {"kind": "crash", "node": "r1", "round": 50, "until": 70},
    ],
    rounds=920,
)
CUT_SHORT = chain(published=[30, 58], rounds=60, faults=[{"kind": "crash", "node": "r2", "round": 40}])
WAITING = chain(
    published=[30], rounds=60, settings={"topics": {NEWS: {"owner": "s1", "publishers": [], "subscribers": ["s2"]}}}
)
UNHEARD = chain(
    published=[30], rounds=38, faults=[{"kind": "loss", "round": 30, "until": 32, "rate": 1.0, "links": [["p", "b1"]]}]
)
HELD_UP = chain(
    published=[30, 33],
    rounds=37,
    faults=[{"kind": "loss", "round": 30, "until": 31, "rate": 1.0, "links": [["p", "b1"]]}],
)

DETOUR = scenario(
    protocol={"name": "repository", **TIMERS, "reroute_rounds": 5},
    overlay={
        "links": [["b1", "b2"], ["b2", "b3"], ["b3", "b4"], ["b4", "b1"]],
        "servers": {"generate": {"count": 2}},
        "clients": [{"name": "p", "at": "b1"}, {"name": "s", "at": "b3"}],
    },
    workload={
        "subscriptions": [{"at": "s", "round": 1, "topic": NEWS}],
        "publications": [{"at": "p", "round": round_, "topic": NEWS} for round_ in range(100, 300, 10)],
    },
    faults=[down("b2", 150, 250)],
    time={"rounds": 900},
)
"""A ring of four brokers, with repositories at b1 and b2."""
BACK_AGAIN = chain(
    settings={"topics": {NEWS: {"owner": "s3", "publishers": ["p", "s2"], "subscribers": ["s1", "s3"]}}},
    published=[100, 200, ("s2", 240), 360],
    calls=[
        calls("deregister", "s3", 150, topic=NEWS, peer="p", role="publisher"),
        calls("register", "s3", 300, topic=NEWS, peer="p", role="publisher"),
    ],
    rounds=900,
)
"""r2, which does not steer p, stores what p sends before it is refused; r1 and r2 pass that."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits_repository")


@pytest.fixture(scope="module")
def clean(sail: Session, root: Path) -> Store:
    """The run that is disturbed."""
    return run_all(run_configs([DISTURBED], seeds=[3]), sail, root)


@pytest.fixture(scope="module")
def ended(sail: Session, root: Path) -> Store:
    """Runs that end while something waits."""
    return run_all(run_configs([CUT_SHORT, WAITING, UNHEARD, HELD_UP]), sail, root)


def asked(store: Store, text: str) -> list[tuple[Any, ...]]:
    found = StoreReader(store.session, store.root).sql(text).toArrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_nothing_breaks(clean: Store) -> Planting:
    [run] = yield [Plant(clean)]
    assert (run.verdict, run.broken) == ("valid", set())
    assert asked(clean, "select subscriber, count(1) from delivery group by subscriber") == [(S1, 5), (S2, 5)]
    assert asked(clean, "select distinct is_settled from settled_run") == [(True,)]


def test_a_repository_that_is_down_in_the_round_of_its_join_is_no_member(sail: Session, root: Path) -> Planting:
    joining = scenario(
        protocol={"name": "repository", "topics": {"news": {"owner": "p", "publishers": ["p"], "subscribers": []}}},
        overlay={
            "links": [["b1", "b2"]], "servers": [{"name": "r1", "at": "b2"}, {"name": "r2", "at": "b1"}],
            "clients": [{"name": "p", "at": "b1"}],
        },
        workload={
            "publications": [{"at": "p", "round": 130, "topic": "news"}],
            "calls": [{"at": "r2", "kind": "join", "round": 25}],
        },
        faults=[{"kind": "crash", "node": "r2", "round": 21, "until": 27}], time={"rounds": 1000},
    )  # fmt: skip
    [run] = yield [Plant(run_all(run_configs([joining]), sail, root))]
    assert run.broken == set()


def test_the_baseline_registers_nobody(sail: Session, root: Path) -> Planting:
    """Best effort delivers to s3, which the owner of the topic has not registered."""
    settings = {"topics": {NEWS: {"owner": "p", "publishers": [], "subscribers": []}}, "baseline": True}
    store = run_all(run_configs([chain(settings=settings, published=[30], rounds=200)]), sail, root)
    [run] = yield [Plant(store)]
    assert (run.verdict, run.broken) == ("valid", set())
    assert asked(store, "select subscriber from delivery") == [(S1,), (S2,), (S3,)]


AT_S2 = f"subscriber = {S2} and source_seq"
PLANTED: tuple[tuple[str, str, Change, set[str]], ...] = (
    ("never delivered", "delivery", removed(f"{AT_S2} = 2"),
     {"stored_delivered", "sync_passes_nothing", "all_or_none"}),
    ("a subscription for ever", "subscription", replaced(f"subscriber = {S1}", confirmed_round="null"),
     {"subscription_confirmed"}),
    (
        "delivered late", "delivery", replaced(f"{AT_S2} = 1", round="round + 500"),
        {"publisher_order", "repository_order", "sync_passes_nothing"},
    ),
    (
        "delivered before it is stored", "delivery", replaced(f"{AT_S2} = 5", round="111"),
        {"all_or_none", "publisher_order", "repository_order"},
    ),
    (
        "delivered in another order within a round", "state_ordered_delivery",
        replaced(f"node_id = {S1} and source_seq = 1", position="position + 5"),
        {"publisher_order", "repository_order"},
    ),
    ("delivered twice", "delivery", copied(f"{AT_S2} = 5", round="round + 1"), {"exactly_once"}),
    (
        "delivered to a stranger", "delivery", copied(f"{AT_S2} = 5", subscriber=str(S3)),
        {"authorised_only", "all_or_none"},
    ),
    (
        "a cut behind what was delivered", "state_subscribed", replaced(
            f"node_id = {S1}", cut=f"""array(named_struct('publisher', cast({P} as bigint), 'incarnation',
              cast(0 as bigint), 'n', cast(1 as bigint)))"""
        ), {"starts_at_cut"},
    ),
    (
        "stored twice", "state_slot", copied(f"node_id = {R1} and source_seq = 2", seq="seq + 50"),
        {"stored_once", "all_or_none", "repository_order"},
    ),
    (
        "not stored", "state_slot", removed(f"node_id = {R2} and source_seq = 2"),
        {"stored_once", "kept_until_stable", "all_or_none"},
    ),
    (
        "an empty disk", "state_slot", removed(f"node_id = {R2}"), {"stored_once", "kept_until_stable", "all_or_none"},
    ),
    (
        "reserved for ever", "state_slot", replaced(f"node_id = {R2} and source_seq = 2", status="'reserved'"),
        {"nothing_pending", "stored_once", "kept_until_stable", "all_or_none"},
    ),
    (
        "skipped, and a member has it", "state_incarnation",
        replaced(f"node_id = {R2} and last > 0", skipped="array(cast(1 as bigint))"), {"stored_once"},
    ),
    (
        "stored by nobody", "state_slot", replaced("source_seq = 5", status="'void'"),
        {"all_or_none", "kept_until_stable"},
    ),
    (
        "a stranger publishes", "run",
        replaced("true", parameters="replace(parameters, '\"publishers\": [\"p\"]', '\"publishers\": []')"),
        {"authorised_only"},
    ),
    (
        "a copy for ever", "state_unstable", added(
            run_id=0, node_id=P, topic=NEWS, n=9, is_acknowledged=True, sent_round=200,
            publication={"source": P, "source_seq": 9, "issued_round": 200, "matches": []},
        ), {"nothing_pending"},
    ),
    (
        "expected for ever", "state_expected", added(run_id=0, node_id=S1, topic=NEWS, seq=9, source=P, source_seq=9),
        {"nothing_pending"},
    ),
    (
        "a sync passes too much", "message", replaced(
            "kind in ('R2S-Sync', 'R2S-Rectify') and sent_round < 35", body="replace(body, '\"sync\":', '\"sync\":9')"
        ), {"sync_passes_nothing"},
    ),
    ("what repositories report of registrations", "state_registration", removed(f"client = {P}"), set()),
)  # fmt: skip
"""What is planted, its table, and the guarantees that break."""


@pytest.mark.parametrize(("table", "change", "broken"), [one[1:] for one in PLANTED], ids=[one[0] for one in PLANTED])
def test_a_planted_violation_is_found(clean: Store, table: str, change: Change, broken: set[str]) -> Planting:
    """What repositories report of registrations changes nothing: who is authorised follows from the scenario."""
    [run] = yield [Plant(clean, **{table: change})]
    assert {row["guarantee"] for row in run.violations} == broken


def test_runs_that_end_early_are_not_decided(ended: Store) -> Planting:
    """What is missing may still come; what cannot come is excused."""
    [runs] = yield [Plant(ended)]
    assert runs.broken == set()
    assert {one.run_id for one in runs.undecided} == {0, 2, 3}
    excuses = asked(ended, "select distinct run_id, excuse from owed_message where excuse is not null")
    assert excuses == [(1, "unauthorised")]


def test_views_measure(clean: Store) -> None:
    assert asked(clean, "select name, n_stored, n_reserved, n_lacking from repository_storage where run_id = 0") == [
        ("r1", 5, 0, 0), ("r2", 5, 0, 0),
    ]  # fmt: skip
    text = """select subscriber_name, sum(n_delivered), sum(n_unsynced) from acknowledgement_lag
      where run_id = 0 group by subscriber_name"""
    lag = asked(clean, text)
    assert lag == [("s1", 5, 0), ("s2", 5, 0), ("s3", 0, 0)]
    ((role, rounds, fetched),) = asked(
        clean, "select role, recovering_rounds, n_fetched from recovery_time where run_id = 0"
    )
    assert (role, rounds > 0, fetched) == ("repository", True, 2)
    assert {name for name, _ in asked(clean, "select client_name, role from refused_event")} == {"s3"}
    for _, n_gossips, n_links in asked(clean, "select name, n_gossips, n_links from gossip_cost where run_id = 0"):
        assert 80 < n_gossips < 130 < 2 * n_gossips < n_links


@pytest.fixture(scope="module")
def settled(sail: Session, root: Path) -> Store:
    """Runs that go on until nothing waits."""
    return run_all(run_configs([DETOUR, BACK_AGAIN]), sail, root)


def test_routes_lead_around_a_broker_that_is_down(settled: Store) -> Planting:
    """b1 sends messages for s over b2, from `reroute_rounds` after its crash over b4, and over b2 when it is back."""
    [runs] = yield [Plant(settled)]
    assert (runs.verdict, runs.broken) == ("valid", set())
    assert asked(settled, "select count(1) from delivery where run_id = 0") == [(20,)]
    text = """select d.name, m.sent_round from sent_message m
      join node o on o.run_id = m.run_id and o.node_id = m.src join node d on d.run_id = m.run_id and d.node_id = m.dst
      where m.run_id = 0 and m.kind = 'Message' and o.name = 'b1' and d.name in ('b2', 'b4')"""
    ways: dict[str, list[int]] = {"b2": [], "b4": []}
    for name, round_ in asked(settled, text):
        ways[name].append(round_)
    assert ways["b4"] == list(range(161, 261, 10))
    assert ways["b2"] == [*range(101, 161, 10), *range(261, 301, 10)]


def test_what_was_stored_without_a_registration_comes_with_the_next_one(settled: Store) -> None:
    """The second message of p waits for its registration, and comes after that of s2."""
    text = "select subscriber, source, source_seq, round > 300 from delivery where run_id = 1 order by 1, 4, 2, 3"
    late = [(P, 1, False), (S2, 2, False), (P, 2, True), (P, 3, True)]
    assert sorted(asked(settled, text)) == sorted((who, *one) for who in (S1, S3) for one in late)
