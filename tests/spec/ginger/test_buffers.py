"""metadataBuffer (section 4.3.2) without an engine: discarded events, collected messages, contents of exchanges."""

from __future__ import annotations

from copy import deepcopy

import pytest

from udfs.ginger.buffer import Departed, Event, Id, Message, MissingSets, Runs, in_runs, joined, runs_of
from udfs.ginger.program import Ginger
from udfs.ginger.topics import Topic
from udfs.nodes.context import Context, Internal


def message(seq: int, source: int = 5) -> Message:
    return Message("t", source, seq, "total", ("k",), 40)


def passed(seq: int) -> Event:
    return Event("passed", message(seq), 3)


def processed(seq: int) -> Event:
    return Event("processed", message(seq), 3)


def filled(*events: Event, size: int = 100) -> Topic:
    """Returns a topic with the given events at positions from 10 on."""
    node = Ginger()
    node.ctx, node.repair.is_mended = Context(1, 0, {"buffer_size": size}, Internal()), True
    node._position = 9
    topic = Topic(node, "t")
    for event in events:
        topic.note(event)
    return topic


def left(topic: Topic) -> list[tuple[str, int]]:
    return [(event.event, event.source_seq) for event in topic.discarded.left]


def whole(topic: Topic) -> dict[int, Event]:
    """Returns the events that the buffer contains, by position."""
    events = topic.events[len(topic.discarded.left) :]
    return dict(zip(topic._node.metadata_buffer, events, strict=True))


@pytest.mark.parametrize(("seq", "is_in"), [*enumerate([0, 1, 1, 1, 0, 0, 0, 1, 0])])
def test_an_id_is_in_a_run_from_its_first_to_its_last_number(seq: int, is_in: int) -> None:
    assert in_runs({5: [[1, 3], [7, 7]]}, Id(5, seq)) == bool(is_in)
    assert not in_runs({5: [[1, 3], [7, 7]]}, Id(6, seq))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([[1, 3]], [[4, 5]], [[1, 5]]),
        ([[1, 3]], [[5, 6]], [[1, 3], [5, 6]]),
        ([[1, 5]], [[2, 3]], [[1, 5]]),
        ([[4, 6]], [[1, 4]], [[1, 6]]),
        ([], [[2, 2]], [[2, 2]]),
        ([[1, 1], [3, 3]], [[4, 4]], [[1, 1], [3, 4]]),
        ([[1, 1], [3, 3], [9, 9]], [[5, 5], [7, 7]], [[1, 1], [3, 3], [5, 5], [7, 7], [9, 9]]),
    ],
)
def test_runs_without_a_number_between_them_become_one(
    one: list[list[int]], other: list[list[int]], expected: list[list[int]]
) -> None:
    mine: Runs = {5: one, 9: [[1, 1]]}
    before = deepcopy(mine)
    assert joined(mine, {5: other}.items()) == {5: expected, 9: [[1, 1]]}
    assert mine == before


def test_ids_become_runs_by_source() -> None:
    assert runs_of({Id(5, 2), Id(6, 9), Id(5, 1), Id(5, 4)}) == {5: [[1, 2], [4, 4]], 6: [[9, 9]]}


def test_a_processed_message_has_passed_and_one_that_passed_need_not_be_processed() -> None:
    topic = filled(passed(1), processed(2))
    assert [topic.has(event) for event in (passed(1), processed(1), passed(2), processed(2), passed(3))] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_the_oldest_events_leave_a_full_buffer_and_their_ids_stay() -> None:
    events = (passed(1), passed(2), processed(1))
    topic = filled(*events, size=3)
    assert (left(topic), topic.discarded.position, {**topic._node.discarded}) == ([], -1, {})
    topic = filled(*events, size=1)
    assert topic.discarded.left == [Departed("passed", 5, seq, 3) for seq in (1, 2)]
    assert (whole(topic), topic.discarded.position) == ({12: processed(1)}, 11)
    assert topic.events == [*(Event("passed", Message("t", 5, seq, "", (), 0), 3) for seq in (1, 2)), processed(1)]
    assert {**topic._node.discarded} == {"t": topic.discarded}
    assert topic.has(passed(2))
    assert not topic.events[0].message.has_body


def test_of_what_everybody_has_had_the_ids_alone_are_left() -> None:
    topic = filled(passed(1), processed(1), passed(2), passed(3), size=3)
    topic.collect({5: [[1, 2]]})
    assert (left(topic), whole(topic), topic.discarded.position) == ([], {13: passed(3)}, 12)
    assert (set(topic.seen), set(topic.processed)) == ({(5, 3)}, set())
    assert topic.has(processed(1))
    assert not topic.has(passed(4))
    topic.note(passed(2))
    topic.note(passed(4))
    assert whole(topic) == {13: passed(3), 15: passed(4)}


def test_a_buffer_that_is_empty_then_is_marked_to_its_last_event() -> None:
    topic = filled(passed(1), passed(2))
    topic.collect({5: [[1, 2]]})
    assert (whole(topic), topic.discarded.position) == ({}, 11)
    topic.collect({5: [[1, 2]]})
    assert topic.discarded.position == 11


def test_the_mark_never_goes_back() -> None:
    topic = filled(passed(1), passed(2), passed(3))
    topic.discarded.position = 20
    topic.collect({5: [[1, 1]]})
    assert topic.discarded.position == 20


def test_a_buffer_that_is_read_again_knows_all_ids() -> None:
    topic = filled(passed(3), processed(4), passed(1), size=1)
    topic.collect({6: [[1, 2]]})
    again = Topic(topic._node, "t")
    for row in topic._node.metadata_buffer.values():
        again.restore(row)
    assert (set(again.seen), set(again.processed)) == ({(5, 1), (5, 3), (5, 4)}, {(5, 4)})
    assert again.events == topic.events
    assert again.has(Event("passed", message(2, source=6), 3))


def test_what_a_partner_lacks_names_topics_and_ids() -> None:
    told = MissingSets([passed(3)])
    filled(passed(1), processed(2)).tell(told)
    Topic(Ginger(), "u").tell(told)
    assert told.passed == {"t": {(5, 1), (5, 2)}, "u": set()}
    assert told.processed == {"t": {(5, 2)}, "u": set()}


def test_a_partner_has_had_what_it_names_and_what_everybody_has_had() -> None:
    told = MissingSets(passed={"t": {Id(5, 1)}}, processed={"t": {Id(5, 2)}}, collected={"t": {5: [[7, 7]]}})
    found = {seq: (told.has(passed(seq)), told.has(processed(seq))) for seq in (1, 2, 3, 7)}
    assert found == {1: (True, False), 2: (False, True), 3: (False, False), 7: (True, True)}
    elsewhere = Event("passed", Message("u", 5, 1, "total", (), 0), 1)
    assert not told.has(elsewhere)
