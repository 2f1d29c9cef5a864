"""Stories of publications of protocol ginger: what waits, for what, and what came in spite of failures.

Run 0, where C1 sees nobody but its edge broker:      Run 1, where all are mended:

    C0 - B0 - B1 - C1                                   C1 - B1 - B0 - B2 - C2, C0 at B0
"""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario
from pipelines.why import Question, Story, stories
from pipelines.why.telling import story as story_of


def failing(
    links: list[list[str]], clients: dict[str, str], crash: str, calls: list[tuple[str, int, str]], **settings: Any
) -> dict[str, Any]:
    return scenario(
        protocol={"name": "ginger", "timer_rounds": 20, **settings},
        overlay={"links": links, "clients": [{"name": name, "at": at} for name, at in clients.items()]},
        workload={
            "subscriptions": [{"at": name, "topic": "t"} for name in clients],
            "publications": [
                {"at": at, "round": round_, "topic": "t", "guarantee": guarantee, "keys": ["k"]}
                for at, round_, guarantee in calls
            ],
        },
        faults=[{"kind": "crash", "node": crash, "round": 50}],
    )


STUCK = failing(
    [["B0", "B1"]], {"C0": "B0", "C1": "B1"}, "B1",
    [("C0", 40, "causal"), ("C0", 70, "total"), ("C0", 72, "eventual"), ("C1", 70, "causal")], max_hops=1,
)  # fmt: skip
MENDED = failing(
    [["B0", "B1"], ["B0", "B2"]], {"C0": "B0", "C1": "B1", "C2": "B2"}, "B0",
    [("C1", 48, "total"), ("C2", 49, "causal"), ("C0", 60, "total")],
)  # fmt: skip
LOCKED = failing(
    [["B0", "B1"], ["B0", "B2"]], {"C0": "B0", "C1": "B1", "C2": "B2"}, "B0",
    [("C1", 30, "total"), ("C1", 31, "causal"), ("C1", 48, "total"), ("C1", 49, "causal")],
)  # fmt: skip

APART = {
    **failing(
        [["B0", "B1"], ["B1", "B2"], ["B0", "B3"]], {"C0": "B3", "C1": "B1"}, "B0", [("C1", 150, "causal")], root="B2",
        max_hops=2,
    ),
    "faults": [{"kind": "crash", "node": broker, "round": 50} for broker in ("B0", "B1")],
}  # fmt: skip
"""C1 finds B2, which was no member. B3 sees no live broker, so it does not connect to B2."""

NOT_RETURNED = {
    **failing([["B0", "B1"]], {"C0": "B0", "C1": "B1"}, "B1", [("C0", 40, "causal")]),
    "faults": [
        {"kind": "loss", "links": [["B0", "C0"]], "direction": "forward", "rate": 1.0, "round": 41, "until": 44}
    ],
}
"""The edge broker of C0 returns the publication to C0 over a link that loses it."""


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return run_all(
        run_configs([STUCK, MENDED, LOCKED, APART, NOT_RETURNED]), sail, tmp_path_factory.mktemp("why_ginger")
    )


@pytest.fixture(scope="module")
def reader(store: Store) -> StoreReader:
    return StoreReader(store.session, store.root)


def story(reader: StoreReader, subscriber: str, source: str, nth: int, run: int = 0) -> Story:
    """Of the nth publication in a run."""
    return story_of(reader, run, subscriber, source, nth)


def test_a_message_that_came_before_the_failure(reader: StoreReader) -> None:
    assert story(reader, "C1", "C0", 1).ended == "delivered"


def test_a_total_order_message_waits_for_a_client_that_found_no_broker(reader: StoreReader) -> None:
    found = story(reader, "C0", "C0", 2)
    assert (found.ended, found.cause and found.cause.kind) == ("lost", "waiting")
    assert found.verdict.startswith("lost: it still waits at B0, where C1 has not locked its key items")


def test_a_message_that_never_got_in_names_the_lock(reader: StoreReader) -> None:
    assert "at B0, where key item k is locked by call 3 of C0" in story(reader, "C1", "C0", 3).verdict


def test_a_message_whose_client_has_no_broker(reader: StoreReader) -> None:
    assert "it still waits at C1, where the client has no edge broker" in story(reader, "C0", "C1", 1).verdict


def test_a_message_waits_at_a_broker_that_is_not_current(reader: StoreReader) -> None:
    """Rule G34."""
    verdict = story(reader, "C0", "C1", 1, run=3).verdict
    assert "it still waits at B2, where the broker is not yet connected to a current broker of topic t" in verdict


def test_what_failures_delayed_is_delivered(store: Store, reader: StoreReader) -> None:
    asked = [
        Question(run, subscriber, source, seq)
        for run, subscriber, source, seq in rows(store, "delivery", "run_id", "subscriber", "source", "source_seq")
        if run == 1
    ]
    told = stories(reader, asked)
    assert len(told) == 9
    assert {one.ended for one in told} == {"delivered"}
    assert any(one.late_rounds for one in told)


def test_a_delivered_message_names_the_lock_that_it_waited_for(reader: StoreReader) -> None:
    """C1 - B1 - B0 - B2: call 2 locks k at B1 in round 31; its TotalAck is at B0 in 34, and at B1 unlocked in 35."""
    found = story(reader, "C2", "C1", 2, run=2)
    assert found.cause is not None
    assert (found.ended, found.cause.kind, found.cause.round) == ("delivered", "waited", 32)
    assert found.cause.text == "it waited at B1 from round 32 to 35: key item k was locked by call 2 of C1"


def test_a_delivered_message_names_the_crash_that_delayed_its_lock(reader: StoreReader) -> None:
    found = story(reader, "C2", "C1", 4, run=2)
    assert found.cause is not None
    assert (found.ended, found.cause.kind, found.names[found.cause.node]) == ("delivered", "crash", "B0")
    assert found.cause.round == 50
    assert found.cause.text.startswith("it waited at B1 from round 50 to ")
    assert "key item k was locked by call 4 of C1, longer because B0 was down (from round 50 on)" in found.cause.text


def test_a_total_order_message_names_the_crash_that_kept_its_keys_locked(reader: StoreReader) -> None:
    found = story(reader, "C2", "C1", 3, run=2)
    assert found.cause is not None
    assert (found.ended, found.cause.kind, found.cause.round) == ("delivered", "crash", 50)
    assert "its key items stayed locked until a failure was repaired, longer because B0 was down" in found.cause.text


def test_what_nothing_delayed_names_the_broker_that_orders_it(reader: StoreReader) -> None:
    """Total order takes longer than the links."""
    found = story(reader, "C2", "C1", 1, run=2)
    assert (found.ended, found.cause and found.cause.kind) == ("delivered", "waited")
    assert found.verdict.endswith("it waited at B2 from round 33 to 35")


def test_a_publication_that_does_not_return_to_its_publisher_is_explained(reader: StoreReader) -> None:
    found = story(reader, "C0", "C0", 1, run=4)
    assert (found.ended, found.cause and found.cause.kind) == ("lost", "link")
    assert found.verdict.startswith(
        "lost: the copy sent to C0 in round 41 was lost on the link from B0 (loss: rounds 41 to 43)"
    )
    assert "C0 sends it to B0 in round 40: received in round 41" in str(found)
    assert story(reader, "C1", "C0", 1, run=4).ended == "delivered"
