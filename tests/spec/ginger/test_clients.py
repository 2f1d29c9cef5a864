"""What clients of `ginger` do when their broker fails (sections 4.2.3.1 and 4.3), row by row, without an engine.

The client is 9 at broker 4, and subscribes to topic t. Every case is worked out by hand from the algorithms.
"""

from __future__ import annotations

from support.ginger.items import (
    bare,
    bodies,
    got,
    had,
    kept,
    memory,
    message,
    mode,
    passed,
    play,
    remembered,
    sent,
    told,
    view,
)

from udfs.ginger.buffer import Event
from udfs.ginger.items import Item, with_message

CLIENT = [mode(), Item("neighbour", 0, "edge", 4, latency_rounds=3), Item("client_topic", 0, "subscribed", topic="t")]
OWN = with_message("history", 3, message(5, "causal"), kind="published")


def test_a_client_looks_for_a_broker_of_its_topics_when_its_own_fails() -> None:
    used = Item("client_topic", 0, "published", topic="s")
    rows = play(
        9,
        CLIENT,
        used,
        view(n6=(0, 2)),
        memory("client", told={"t": 3}),
        got(1, "NeighborDown", 9, details="4", latency_rounds=5),
    )
    assert sent(rows, "latency_rounds") == [("ParentRequest", 6, 4), ("Timer", 9, 2 * 4 + 36)]
    assert bodies(rows, "ParentRequest") == [
        {"subscribedTopics": ["s", "t"], "breakDegree": False, "isClient": True, "subscribed": ["t"]}
    ]
    known = remembered(rows)
    assert (known["is_level"], known["told"], known["dead"], kept(rows, "neighbour")) == (False, {}, [4], [])
    assert sent(play(9, CLIENT, memory("client"), got(1, "NeighborDown", 9, details="8", latency_rounds=5))) == []


def test_a_client_tells_its_new_broker_what_it_has_delivered() -> None:
    events = had(5, passed(1)), had(6, passed(2))
    buffer = told("ParentBuffer", 4, passed={"t": {(9, 1)}, "s": set()})
    rows = play(8, CLIENT, *events, memory("client", is_level=False, dead=[3]), buffer)
    (request,) = bodies(rows, "LostMessageRequest")
    assert [event[3] for event in request["events"]] == [2]
    assert request["passed"] == {"s": [], "t": [[9, 1], [9, 2]]}
    assert request["failed"] == [3]
    assert sent(play(8, CLIENT, memory("client"), buffer._replace(peer=6))) == []


def test_a_client_delivers_what_it_missed_and_publishes_again_what_nobody_has() -> None:
    """What only passed in total order is not final, and of topic s it delivers nothing; 5 is its own."""
    events = [passed(1), passed(2, "total"), passed(3, "total", "processed"), Event("passed", message(4, topic="s"), 3)]
    missing = told("LostMessages", 4, *events)
    rows = play(
        9, CLIENT, Item("client_topic", 0, "published", topic="s"), OWN, memory("client", is_level=False), missing
    )
    assert kept(rows, "delivered", "source_seq", "hops") == [(1, 4), (3, 4)]
    assert sent(rows, "source_seq", "hops") == [("Metadata", 4, 5, 1)]
    assert remembered(rows)["is_level"]
    late = play(9, CLIENT, OWN, memory("client", is_level=False), missing._replace(peer=6))
    assert (sent(late), remembered(late)["is_level"]) == ([], False)
    delivered_ = play(9, CLIENT, OWN, memory("client", is_level=False), told("LostMessages", 4, passed(5)))
    assert sent(delivered_) == []


def test_a_client_holds_deliveries_until_what_it_lacks_is_repeated() -> None:
    missing = told("LostMessages", 4, bare(1))
    rows = play(
        8, CLIENT, memory("client", is_level=False), missing, got(2, "Metadata", 4, message(2, "causal"), hops=6)
    )
    assert (kept(rows, "delivered"), kept(rows, "hold", "source_seq")) == ([], [2])
    assert sent(rows)[0] == ("Exception", 4)
    held = [row for row in rows if row.relation in ("hold", "parked", "gap", "repair")]
    over = play(8, CLIENT, held, got(1, "Repeat", 4, message(1, "causal"), details="8"))
    assert kept(over, "delivered", "source_seq", "hops") == [(1, 4), (2, 6)]


def test_a_publisher_repeats_what_somebody_lacks_and_notes_it_once_for_each() -> None:
    exception = got(1, "Exception", 4, message(5, "causal"), details="7")
    rows = play(
        9, CLIENT, OWN, memory("client"), exception, exception._replace(position=2), exception._replace(details="6")
    )
    assert sent(rows, "source_seq", "guarantee", "details") == [
        ("Repeat", 4, 5, "causal", "7"), ("Repeat", 4, 5, "causal", "7"), ("Repeat", 4, 5, "causal", "6"),
    ]  # fmt: skip
    assert kept(rows, "exception", "source_seq", "peer", "details") == [(5, 7, None), (5, 6, None)]
    assert sent(play(9, [CLIENT[0], CLIENT[2]], OWN, memory("client"), exception)) == []


def test_a_client_tells_what_it_has_delivered_and_forgets_what_everybody_has_had() -> None:
    """Of its own messages 5 is over; 6 is not, and stays in the buffer from its position on."""
    state = [
        mode(collect_every=1),
        *CLIENT[1:],
        OWN,
        with_message("history", 9, message(6, "causal"), kind="published"),
    ]
    rows = play(9, state, memory("client"), got(1, "Metadata", 4, message(5, "causal"), hops=6))
    assert sent(rows, "topic", "details", "covered") == [("Received", 4, "t", '{"9": [[5, 5]]}', [9])]
    collect = got(1, "Collect", 4, topic="t", details='{"9": [[5, 5]]}')
    over = play(9, state, had(7, passed(5)), memory("client", told={"t": 1}), collect)
    assert kept(over, "history", "kind", "position") == [("collected", 8), ("left", 7)]
    last = play(9, state[:-1], had(7, passed(5)), memory("client", told={"t": 1}), collect)
    assert kept(last, "history", "kind", "position") == [("collected", 3), ("left", 7)]
    published = play(
        9, [*state[:2], Item("client_topic", 0, "published", topic="t"), OWN], had(7, passed(5)), memory("client")
    )
    assert [kind for kind, _ in sent(published)] == []


def test_a_client_needs_no_body_of_a_topic_that_it_does_not_subscribe_to() -> None:
    elsewhere = Event("passed", message(4, topic="s").without_body(), 3)
    published = Item("client_topic", 0, "published", topic="s")
    rows = play(8, CLIENT, published, memory("client", is_level=False), told("LostMessages", 4, elsewhere))
    assert (sent(rows), remembered(rows)["is_level"]) == ([], True)
