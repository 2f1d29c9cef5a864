"""Clients of `ginger` whose edge broker fails (sections 4.2.3.1 and 4.3), row by row, without an engine.

The client is 9 at broker 4, and subscribes to topic t. The expected rows are computed by hand from the algorithms.
"""

from __future__ import annotations

from typing import Any

from support.ginger.single import (
    Got,
    Ran,
    bare,
    down,
    had,
    ids,
    kept,
    memory,
    message,
    messages,
    metadata,
    missing,
    mode,
    passed,
    play,
    repair,
    sent,
    timers,
    view,
)

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event, Id
from udfs.ginger.records import BufferedEvent, ClientTopic, Discarded, Neighbour, Reported

CLIENT: list[Any] = [mode(), Neighbour(4, "edge", 3), ClientTopic("t", "subscribed")]
USED = ClientTopic("s", "published")


def own(seq: int, position: int) -> BufferedEvent:
    """Returns the row of a publication of the client."""
    return BufferedEvent(*message(seq, "causal"), position, "published", None)


OWN = own(5, 3)


def test_a_client_looks_for_a_broker_of_its_topics_when_its_own_fails() -> None:
    rows = play(9, CLIENT, USED, view(n6=(0, 2)), Reported("t", 3), down(4, 5))
    assert sent(rows, "rounds") == [("ParentRequest", 6, 4)]
    assert timers(rows) == {("parent", 0): 2 * 4 + 36}
    assert messages(rows, ms.ParentRequest) == [
        ms.ParentRequest(("s", "t"), break_degree=False, is_client=True, subscribed=("t",))
    ]
    known = repair(rows)
    assert (known.is_level, known.dead) == (False, {4})
    assert (kept(rows, "reported", "topic"), kept(rows, "neighbour", "neighbour")) == ([], [])


def test_a_client_tells_its_new_broker_what_it_has_delivered() -> None:
    events = had(5, passed(1)), had(6, passed(2))
    told = ms.ParentBuffer(missing(passed={"t": {Id(9, 1)}, "s": set()}))
    rows = play(8, CLIENT, *events, memory(is_level=False, dead={3}), Got(4, told))
    (request,) = (m.told for m in messages(rows, ms.LostMessageRequest))
    assert [event.message.source_seq for event in request.events] == [2]
    assert request.passed == {"s": set(), **ids(1, 2)}
    assert request.failed == {3: 0}
    assert sent(play(8, CLIENT, memory(is_level=False), Got(6, told))) == []


def test_a_client_tells_its_new_broker_what_everybody_has_had() -> None:
    """Messages 1 to 3 of topic t are collected, so only their ids are known. Topic s has no messages."""
    told = ms.ParentBuffer(missing(passed={"s": set(), "t": set()}))
    over = Discarded("t", 5, [], {9: [[1, 3]]})
    rows = play(8, CLIENT, over, had(6, passed(4)), memory(is_level=False), Got(4, told))
    (request,) = (m.told for m in messages(rows, ms.LostMessageRequest))
    assert (request.collected, request.passed) == ({"t": {9: [[1, 3]]}}, {"s": set(), **ids(4)})


def test_a_client_that_sees_nobody_up_asks_those_that_it_saw_before_but_for_those_that_failed() -> None:
    """Rule G21: the edge broker 4 has sent an empty view. The earlier view had 6 and 7, and 6 is down."""
    before = play(9, CLIENT, view(n6=(0, 2), n7=(0, 2)), Got(4, ms.TreeViewUpdate(())))
    rows = play(9, before, memory(dead={6}), down(4, 5), round_=8)
    assert sent(rows, "rounds") == [("ParentRequest", 7, 4)]
    assert sent(play(9, CLIENT, memory(seen={6: 4, 7: 4}), view(n8=(0, 2)), down(4, 5))) == [("ParentRequest", 8)]
    alone = play(9, before, memory(dead={6, 7}), down(4, 5), round_=8)
    assert (sent(alone), alone.ctx.statuses) == ([], ["ISOLATED"])


def test_a_client_asks_a_broker_of_an_earlier_view_again() -> None:
    """Rules G21 and G25: broker 7 has answered `joining`. No row of the present view has its latency."""
    waits = memory(seen={7: 4}, is_level=False, asked=7, awaited=7, is_promised=True)
    rows = play(9, mode(), waits, Ran("parent"))
    assert sent(rows, "rounds") == [("ParentRequest", 7, 4)]


def test_a_client_delivers_what_it_missed_and_publishes_again_what_nobody_has() -> None:
    """It delivers no total-order message that only passed, and no message of topic s. Message 5 is its own."""
    events = [passed(1), passed(2, "total"), passed(3, "total", "processed"), Event("passed", message(4, topic="s"), 3)]
    lost = ms.LostMessages(missing(*events))
    rows = play(9, CLIENT, USED, OWN, memory(is_level=False), Got(4, lost))
    assert [(one.source_seq, one.hops) for one in rows.ctx.deliveries] == [(1, 4), (3, 4)]
    assert sent(rows, "source_seq", "hops") == [("Metadata", 4, 5, 1)]
    assert repair(rows).is_level
    late = play(9, CLIENT, OWN, memory(is_level=False), Got(6, lost))
    assert (sent(late), repair(late).is_level) == ([], False)
    delivered = play(9, CLIENT, OWN, memory(is_level=False), Got(4, ms.LostMessages(missing(passed(5)))))
    assert sent(delivered) == []


def test_a_client_holds_deliveries_until_what_it_lacks_is_repeated() -> None:
    lost = ms.LostMessages(missing(bare(1)))
    rows = play(8, CLIENT, memory(is_level=False), Got(4, lost), Got(4, metadata(message(2, "causal"), 6)))
    assert (rows.ctx.deliveries, kept(rows, "hold", "source_seq")) == ([], [2])
    assert sent(rows, "lacking") == [("Exception", 4, 8)]
    over = play(8, rows, Got(4, ms.Repeat(*message(1, "causal"), 8)), round_=8)
    assert [(one.source_seq, one.hops) for one in over.ctx.deliveries] == [(1, 4), (2, 6)]


def test_a_client_asks_again_for_what_it_lacks_and_the_next_broker_for_a_place_when_time_is_up() -> None:
    """Each of the two searches has a timer. The timer for missing messages has no effect without missing messages."""
    lost = ms.LostMessages(missing(bare(1)))
    waits = play(8, CLIENT, memory(is_level=False, awaited=4), Got(4, lost))
    assert sent(play(8, waits, Ran("gap"), round_=8), "source_seq", "lacking") == [("Exception", 4, 1, 8)]
    assert sent(play(8, waits, Ran("parent"), round_=8)) == []
    seeks = [mode(), USED, *view(n6=(0, 2), n7=(0, 2)), memory(is_level=False, asked=6, awaited=6)]
    assert sent(play(8, seeks, Ran("parent"))) == [("ParentRequest", 7)]
    assert sent(play(8, seeks, Ran("gap"))) == []


def test_a_publisher_repeats_what_somebody_lacks_and_notes_it_once_for_each() -> None:
    lacking = [Got(4, ms.Lacking(*message(5, "causal"), node)) for node in (7, 7, 6)]
    rows = play(9, CLIENT, OWN, lacking)
    assert sent(rows, "source_seq", "guarantee", "lacking") == [
        ("Repeat", 4, 5, "causal", 7), ("Repeat", 4, 5, "causal", 7), ("Repeat", 4, 5, "causal", 6),
    ]  # fmt: skip
    assert kept(rows, "exception", "source_seq", "lacking") == [(5, 6), (5, 7)]
    assert sent(play(9, [CLIENT[0], CLIENT[2]], OWN, memory(role="client"), lacking)) == []


def test_a_client_tells_what_it_has_delivered_and_forgets_what_everybody_has_had() -> None:
    """Collect drops the client's own message 5. Message 6 stays in the buffer."""
    state = [mode(collect_every=1), *CLIENT[1:], OWN, own(6, 9)]
    rows = play(9, state, Got(4, metadata(message(5, "causal"), 6)))
    assert sent(rows, "topic", "runs", "covered") == [("Received", 4, "t", {9: [[5, 5]]}, (9,))]
    collect = Got(4, ms.Collect("t", {9: [[5, 5]]}))
    over = play(9, state, had(7, passed(5)), Reported("t", 1), collect)
    assert kept(over, "metadata_buffer", "event", "position") == [("published", 9)]
    assert kept(over, "discarded", "position", "left", "collected") == [(7, [], {9: [[5, 5]]})]
    late = play(9, state, had(7, passed(5)), Reported("t", 1), collect, Got(4, ms.Lacking(*message(5, "causal"), 6)))
    assert sent(late) == []
    last = play(9, state[:-1], had(7, passed(5)), Reported("t", 1), collect)
    assert kept(last, "metadata_buffer", "event", "position") == []
    assert kept(play(9, state, Got(6, collect.message)), "metadata_buffer", "position") == [3, 9]
    only_published = [*state[:2], ClientTopic("t", "published"), OWN, had(7, passed(5))]
    assert sent(play(9, only_published, Got(4, ms.TreeViewUpdate(())))) == []
