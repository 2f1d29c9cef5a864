"""metadataBuffer (section 4.3.2) without an engine: discarded events, collected messages, contents of exchanges."""

from __future__ import annotations

from copy import deepcopy

import pytest

from udfs.ginger.buffer import Buffer, Departed, Event, Id, Message, MissingSets, Runs, in_runs, joined, runs_of


def message(seq: int, source: int = 5) -> Message:
    return Message("t", source, seq, "total", ("k",), 40)


def passed(seq: int) -> Event:
    return Event("passed", message(seq), 3)


def processed(seq: int) -> Event:
    return Event("processed", message(seq), 3)


def filled(*events: Event) -> Buffer:
    """Returns a buffer with the given events at positions from 10 on."""
    buffer = Buffer("t")
    for position, event in enumerate(events, 10):
        buffer.add(position, event)
    return buffer


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
    buffer = filled(passed(1), processed(2))
    assert [buffer.has(event) for event in (passed(1), processed(1), passed(2), processed(2), passed(3))] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_the_oldest_events_leave_a_full_buffer_and_their_ids_stay() -> None:
    buffer = filled(passed(1), passed(2), processed(1))
    assert buffer.shrink(3) == []
    assert (buffer.left, buffer.mark) == ([], -1)
    assert buffer.shrink(1) == [10, 11]
    assert buffer.left == [Departed("passed", 5, seq, 3) for seq in (1, 2)]
    assert (buffer.whole, buffer.mark) == ({12: processed(1)}, 11)
    assert buffer.events == [*(Event("passed", Message("t", 5, seq, "", (), 0), 3) for seq in (1, 2)), processed(1)]
    assert buffer.has(passed(2))
    assert not buffer.events[0].message.has_body


def test_of_what_everybody_has_had_the_ids_alone_are_left() -> None:
    buffer = filled(passed(1), processed(1), passed(2), passed(3))
    buffer.shrink(3)
    assert buffer.collect({5: [[1, 2]]}) == [11, 12]
    assert (buffer.left, buffer.whole, buffer.mark) == ([], {13: passed(3)}, 12)
    assert (set(buffer.seen), set(buffer.processed)) == ({(5, 3)}, set())
    assert buffer.has(processed(1))
    assert not buffer.has(passed(4))
    assert not buffer.add(14, passed(2))
    assert buffer.add(15, passed(4))
    assert buffer.whole == {13: passed(3), 15: passed(4)}


def test_a_buffer_that_is_empty_then_is_marked_to_its_last_event() -> None:
    buffer = filled(passed(1), passed(2))
    buffer.collect({5: [[1, 2]]})
    assert (buffer.whole, buffer.mark) == ({}, 11)
    buffer.collect({5: [[1, 2]]})
    assert buffer.mark == 11


def test_the_mark_never_goes_back() -> None:
    buffer = filled(passed(1), passed(2), passed(3))
    buffer.mark = 20
    buffer.collect({5: [[1, 1]]})
    assert buffer.mark == 20


def test_a_buffer_that_is_read_again_knows_all_ids() -> None:
    buffer = filled(passed(3), processed(4), passed(1))
    buffer.shrink(1)
    buffer.collect({6: [[1, 2]]})
    again = Buffer("t", buffer.left, buffer.whole, buffer.collected, buffer.mark)
    assert (set(again.seen), set(again.processed)) == ({(5, 1), (5, 3), (5, 4)}, {(5, 4)})
    assert again.has(Event("passed", message(2, source=6), 3))


def test_what_a_partner_lacks_names_topics_and_ids() -> None:
    told = MissingSets([passed(3)])
    told.add_ids(filled(passed(1), processed(2)))
    told.add_ids(Buffer("u"))
    assert told.passed == {"t": {(5, 1), (5, 2)}, "u": set()}
    assert told.processed == {"t": {(5, 2)}, "u": set()}


def test_a_partner_has_had_what_it_names_and_what_everybody_has_had() -> None:
    told = MissingSets(passed={"t": {Id(5, 1)}}, processed={"t": {Id(5, 2)}}, collected={"t": {5: [[7, 7]]}})
    found = {seq: (told.has(passed(seq)), told.has(processed(seq))) for seq in (1, 2, 3, 7)}
    assert found == {1: (True, False), 2: (False, True), 3: (False, False), 7: (True, True)}
    elsewhere = Event("passed", Message("u", 5, 1, "total", (), 0), 1)
    assert not told.has(elsewhere)
