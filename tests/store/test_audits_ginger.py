"""The audits of protocol ginger find what is planted.

B0 - B1 - B3      C1 at B3, C2 at B2, C3 at B0; all subscribe to t
 |
B2
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.copies import Plant, Planting

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import (
    Change,
    added,
    removed,
    replaced,
    rows,
    run_all,
    run_configs,
    scenario,
)

CLIENTS = {"C1": "B3", "C2": "B2", "C3": "B0"}
BANK = [
    ("C1", 100, "causal", {"operation": "deposit", "account": "a", "amount": 50}),
    ("C2", 120, "total", {"operation": "withdraw", "account": "a", "amount": 1000}),
    ("C3", 140, "total", {"operation": "transfer", "account": "a", "to": "b", "amount": 70}),
    ("C1", 160, "total", {"operation": "applyInterest", "account": "b", "interest": 5}),
]
PUBLICATIONS = [
    ("C1", 20, "causal", "k"),
    ("C2", 40, "causal", "k"),
    ("C3", 60, "total", "k"),
    ("C1", 80, "total", "k"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits_ginger")


@pytest.fixture(scope="module")
def clean(sail: Session, root: Path) -> Store:
    parts = scenario(
        protocol={"name": "ginger", "start_balance": 500},
        overlay={
            "links": [["B0", "B1"], ["B0", "B2"], ["B1", "B3"]],
            "clients": [{"name": name, "at": at} for name, at in CLIENTS.items()],
        },
        workload={
            "subscriptions": [{"at": name, "topic": "t"} for name in CLIENTS],
            "publications": [
                {"at": at, "round": round_, "topic": "t", "guarantee": guarantee, "keys": [key]}
                for at, round_, guarantee, key in PUBLICATIONS
            ]
            + [
                {"at": at, "round": round_, "topic": "t", "guarantee": guarantee, "content": content}
                | {"keys": [content[name] for name in ("account", "to") if name in content]}
                for at, round_, guarantee, content in BANK
            ],
        },
    )
    return run_all(run_configs([parts]), sail, root)


@pytest.fixture(scope="module")
def ids(clean: Store) -> dict[str, int]:
    return {name: node for node, name in rows(clean, "node", "node_id", "name")}


def delivered(ids: dict[str, int], at: str, source: str, nth: int = 1) -> str:
    """The delivery of a client's nth publication; its first call is its subscription."""
    return f"node_id = {ids[at]} and source = {ids[source]} and source_seq = {nth + 1}"


def test_the_clean_run_breaks_nothing(clean: Store) -> Planting:
    [run] = yield [Plant(clean)]
    assert (run.verdict, run.violations) == ("valid", [])


def test_a_total_order_message_after_what_follows_it(clean: Store, ids: dict[str, int]) -> Planting:
    change = replaced(delivered(ids, "C2", "C3"), position=str(1 << 40))
    [run] = yield [Plant(clean, state_delivered=change)]
    broken = run.found("total_order")
    assert ("C2", "C3") in [(node, source) for _, node, source, *_ in broken]
    assert "key item k of topic t: delivered after 1 total-order messages, at" in broken[0][4]


def test_an_eventual_message_on_the_other_side(clean: Store, ids: dict[str, int]) -> Planting:
    change = replaced(delivered(ids, "C1", "C2"), position=str(1 << 40))
    [run] = yield [Plant(clean, state_delivered=change)]
    broken = run.found("total_order")
    assert [(node, source, seq) for _, node, source, seq, _ in broken] == [("C1", "C2", 2)]
    assert "delivered after 2 total-order messages" in broken[0][4]


def test_an_effect_before_its_cause(clean: Store, ids: dict[str, int]) -> Planting:
    """C2 has delivered C1's message when it publishes; C3 delivers it last of all."""
    change = replaced(delivered(ids, "C3", "C1"), position=str(1 << 40))
    [run] = yield [Plant(clean, state_delivered=change)]
    broken = run.found("causal_order")
    assert ("C3", "C2", 2) in [(node, source, seq) for _, node, source, seq, _ in broken]
    assert all("which its publisher knew" in detail for *_, detail in broken)


def test_a_delivery_that_never_came(clean: Store, ids: dict[str, int]) -> Planting:
    where = f"subscriber = {ids['C2']} and source = {ids['C3']} and source_seq = 2"
    [run] = yield [Plant(clean, delivery=removed(where))]
    broken = run.found("exactly_once")
    assert [(node, source) for _, node, source, *_ in broken] == [("C2", "C3")]


@pytest.mark.parametrize(
    ("table", "row", "detail"),
    [
        ("pending", {}, "still pending on topic t"),
        ("entry_queue", {}, "still waits to enter topic t"),
        ("locked", {"key_item": "k"}, "still locks key item k of topic t"),
    ],
)
def test_what_is_left_over(clean: Store, ids: dict[str, int], table: str, row: dict[str, str], detail: str) -> Planting:
    change = added(run_id=0, node_id=ids["B1"], topic="t", source=ids["C1"], source_seq=3, **row)
    [run] = yield [Plant(clean, **{f"state_{table}": change})]
    assert run.found("nothing_waiting") == [(0, "B1", "C1", 3, detail)]


def test_a_message_that_was_never_repeated(clean: Store, ids: dict[str, int]) -> Planting:
    asks = added(run_id=0, node_id=ids["B1"], partner=ids["B3"], kind="LostMessageRequest")
    lacks = added(run_id=0, node_id=ids["B2"], topic="t", source=ids["C1"], source_seq=3, status="given_up")
    [run] = yield [Plant(clean, state_parked=asks, state_gap=lacks)]
    assert run.found("nothing_waiting") == [
        (0, "B1", None, None, "still waits for messages that have left the buffer of B3"),
        (0, "B2", "C1", 3, "lacks a message that has left the buffers"),
    ]


def parent_of(ids: dict[str, int], node: str, parent: str | None) -> Change:
    where = f"node_id = {ids[node]} and relationship = 'parent'"
    return removed(where) if parent is None else replaced(where, neighbour=str(ids[parent]))


def test_a_broker_without_a_parent(clean: Store, ids: dict[str, int]) -> Planting:
    [run] = yield [Plant(clean, state_neighbour=parent_of(ids, "B2", None))]
    assert run.found("one_tree") == [(0, "B2", None, None, "has no parent, and neither has node 0")]


def test_brokers_in_a_circle(clean: Store, ids: dict[str, int]) -> Planting:
    [run] = yield [Plant(clean, state_neighbour=parent_of(ids, "B1", "B3"))]
    assert [node for _, node, *_ in run.found("one_tree")] == ["B1", "B3"]


def test_a_broker_that_is_back_and_says_that_it_is_not_ready(clean: Store, ids: dict[str, int]) -> Planting:
    """What a node says of itself does not excuse it: it is up, and hangs on nobody."""
    back = added(run_id=0, round=60, kind="recovery", node_id=ids["B2"])
    crash = added(run_id=0, round=50, kind="crash", node_id=ids["B2"])
    status = added(run_id=0, node_id=ids["B2"], round=60, status="RECOVERING")
    of_b2 = parent_of(ids, "B2", None)
    [run] = yield [Plant(clean, state_neighbour=of_b2, fault_event=[back, crash], node_status=status)]
    assert [node for _, node, *_ in run.found("one_tree")] == ["B2"]


def test_a_broker_that_is_down_is_in_no_tree(clean: Store, ids: dict[str, int]) -> Planting:
    crash = added(run_id=0, round=50, kind="crash", node_id=ids["B2"])
    [run] = yield [Plant(clean, state_neighbour=parent_of(ids, "B2", None), fault_event=crash)]
    assert run.found("one_tree") == []


def test_a_node_that_says_that_it_is_alone(clean: Store, ids: dict[str, int]) -> Planting:
    status = added(run_id=0, node_id=ids["B1"], round=60, status="ISOLATED")
    [run] = yield [Plant(clean, node_status=status)]
    broken = run.found("nobody_alone")
    assert broken == [(0, "B1", None, None, "found no broker that accepts it")]


def test_a_client_without_an_edge_broker(clean: Store, ids: dict[str, int]) -> Planting:
    change = removed(f"node_id = {ids['C2']} and relationship = 'edge'")
    [run] = yield [Plant(clean, state_neighbour=change)]
    broken = run.found("nobody_alone")
    assert broken == [(0, "C2", None, None, "has no edge broker")]


def test_a_node_that_gave_up_messages(clean: Store, ids: dict[str, int]) -> Planting:
    status = added(run_id=0, node_id=ids["B1"], round=60, status="MESSAGE_LOST")
    [run] = yield [Plant(clean, node_status=status)]
    broken = run.found("nothing_lost")
    assert broken == [(0, "B1", None, None, "gave up messages that had left the buffers")]


@pytest.mark.parametrize(
    ("confirmed", "detail"), [("null", "was never confirmed"), ("21", "was confirmed in round 21")]
)
def test_a_subscription_that_is_confirmed_late(
    clean: Store, ids: dict[str, int], confirmed: str, detail: str
) -> Planting:
    """It would owe nothing of what was published before, or nothing at all."""
    change = replaced(f"subscriber = {ids['C2']}", confirmed_round=confirmed)
    [run] = yield [Plant(clean, subscription=change)]
    broken = run.found("subscribed")
    assert broken == [(0, "C2", None, None, f"its subscription to t {detail}")]


HELD = [
    {"kind": "pause", "node": "B1", "round": 2, "until": 30},
    {"kind": "pause", "node": "C2", "round": 0, "until": 30},
    {"kind": "delay", "rate": 1, "rounds": [25, 25], "links": [["C2", "B2"]], "round": 0, "until": 40},
]
"""The faults of three runs. Each holds C2's subscription to t, and the last two hold no subscription of C1 or C3."""
N_HELD = [27, 30, 50]
"""The rounds in which the fault holds C2's subscription to t. Two of its messages cross the delayed link."""


@pytest.fixture(scope="module")
def held(sail: Session, root: Path) -> Store:
    """C1 publishes on t in round 20, in three more runs in round 100, and on v in round 200."""
    runs = [
        scenario(
            protocol={"name": "ginger"},
            overlay={
                "links": [["B0", "B1"], ["B0", "B2"], ["B1", "B3"]],
                "clients": [{"name": name, "at": at} for name, at in CLIENTS.items()],
            },
            workload={
                "subscriptions": [{"at": name, "topic": "t"} for name in CLIENTS]
                + [{"at": "C2", "topic": "v", "round": 150}],
                "publications": [
                    {"at": at, "round": round_, "topic": topic, "guarantee": "causal", "keys": ["k"]}
                    for at, round_, topic in (("C1", first, "t"), ("C2", 200, "v"))
                ],
            },
            faults=[fault],
        )
        for first in (20, 100)
        for fault in HELD
    ]
    return run_all(run_configs(runs), sail, root / "held")


@pytest.mark.parametrize("run_id", range(6))
def test_a_run_is_beyond_the_bound_if_a_fault_holds_a_subscription_until_a_publication(
    held: Store, run_id: int
) -> Planting:
    [run] = yield [Plant(held, run_id)]
    name = "C1" if run_id == 0 else "C2"
    told = (20, f"a fault held the subscription of {name} to t until a publication on it")
    assert [beyond[1:] for beyond in run.beyond] == ([told] if run_id < 3 else [])
    assert (run.verdict, run.found("subscribed")) == ("valid", [])


@pytest.mark.parametrize(("topic", "is_late"), [("t", True), ("t", False), ("v", True), ("v", False)])
@pytest.mark.parametrize("run_id", range(3))
def test_a_fault_excuses_the_confirmation_of_the_subscription_that_it_holds_as_long_as_it_holds_it(
    held: Store, run_id: int, topic: str, is_late: bool
) -> Planting:
    """The faults hold no subscription to v."""
    n_held = N_HELD[run_id] if topic == "t" else 0
    confirmed = (20 if topic == "t" else 200) + n_held + is_late
    change = replaced(f"subscription_id = {1 if topic == 't' else 3}", confirmed_round=str(confirmed))
    [run] = yield [Plant(held, run_id, subscription=change)]
    found = [row[1:] for row in run.found("subscribed")]
    told = f"its subscription to {topic} was confirmed in round {confirmed}"
    assert found == ([("C2", None, None, told)] if is_late else [])
    assert ("subscribed" in run.broken) is is_late


@pytest.mark.parametrize(("crashed", "is_broken"), [(20, False), (21, True)])
def test_an_earlier_crash_excuses_a_subscription_that_is_confirmed_later(
    clean: Store, ids: dict[str, int], crashed: int, is_broken: bool
) -> Planting:
    change = replaced(f"subscriber = {ids['C2']}", confirmed_round="21")
    crash = added(run_id=0, round=crashed, kind="crash", node_id=ids["B1"])
    [run] = yield [Plant(clean, subscription=change, fault_event=crash)]
    assert bool(run.found("subscribed")) is is_broken


def test_a_report_of_a_message_lost_on_links_excuses_nobody(clean: Store, ids: dict[str, int]) -> Planting:
    """The scenario has no fault."""
    lost = replaced(f"dst = {ids['B1']} and kind = 'Metadata'", fate="'lost_link'")
    where = f"subscriber = {ids['C2']} and source = {ids['C3']} and source_seq = 2"
    [run] = yield [Plant(clean, message=lost, delivery=removed(where))]
    assert (run.verdict, run.beyond) == ("invalid", [])


def test_a_deposit_after_the_withdrawal_that_it_pays(clean: Store, ids: dict[str, int]) -> Planting:
    """Without the deposit, account a holds 500, 70 of which go to b; 1,000 are refused everywhere."""
    change = removed(delivered(ids, "C2", "C1", 3))
    [run] = yield [Plant(clean, state_delivered=change)]
    broken = run.found("balances")
    assert {(source, seq) for _, _, source, seq, _ in broken} == {(None, None), ("C2", 3), ("C3", 3)}
    assert all(detail.startswith("a of t holds") and "at C2" in detail for *_, detail in broken)


def test_a_transfer_that_one_replica_refuses(clean: Store, ids: dict[str, int]) -> Planting:
    """At C3 the transfer comes first, then another account pays for the interest of b."""
    change = replaced(delivered(ids, "C3", "C1", 4), position="0")
    [run] = yield [Plant(clean, state_delivered=change)]
    broken = run.found("balances")
    assert any(detail.startswith("b of t holds") for *_, detail in broken)


def test_a_balance_below_zero(clean: Store) -> Planting:
    text = "replace(content, '\"amount\":50', '\"amount\":-5000')"
    [run] = yield [Plant(clean, publication=replaced("content like '%deposit%'", content=text))]
    broken = run.found("balances")
    assert broken
    assert all("holds -" in detail for *_, detail in broken)
