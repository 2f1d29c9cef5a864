"""What a node program is told of links that are replaced, of neighbours that recover, and of equal predicates."""

from __future__ import annotations

import pytest

from udfs.nodes.context import Context
from udfs.nodes.local import LocalNetwork
from udfs.nodes.program import NodeProgram
from udfs.nodes.records import message
from udfs.nodes.run import LinkReplacement, Links, first_after
from udfs.nodes.world import ProgramError, RoundDue, World

LINE = {(0, 1): 1, (1, 2): 3}


@message("PING")
class Ping:
    """A message."""


def _noticing(told: list[tuple[object, ...]], *, notices: bool = True) -> type[NodeProgram]:
    class Noticing(NodeProgram):
        messages = (Ping,)
        notices_links = notices

        def on_round(self, due: RoundDue, ctx: Context) -> None:
            links = due.links
            told.append((
                ctx.round, ctx.node, sorted(links.removed), sorted(links.added), sorted(links.recovered),
                list(ctx.neighbours), due.is_paused,
            ))  # fmt: skip
            for call in due.calls:
                ctx.send(call.peer or 0, Ping())

    return Noticing


def test_both_ends_of_a_replaced_link_notice_also_while_they_pause() -> None:
    told: list[tuple[object, ...]] = []
    network = LocalNetwork(_noticing(told), links=LINE)
    network.replace((1, 2), (0, 2), 5)
    network.pause(1, 4, 9)
    network.play(20)
    assert told == [
        (5, 0, [], [2], [], [1, 2], False), (5, 1, [2], [], [], [0], True), (5, 2, [1], [0], [], [0], False),
    ]  # fmt: skip


def test_neighbours_of_the_round_notice_that_a_node_recovers() -> None:
    told: list[tuple[object, ...]] = []
    network = LocalNetwork(_noticing(told), links=LINE)
    network.crash(2, 3, 8)
    network.replace((1, 2), (0, 2), 5)
    network.play(20)
    assert told == [
        (5, 0, [], [2], [], [1, 2], False), (5, 1, [2], [], [], [0], False),
        (8, 0, [], [], [2], [1, 2], False), (8, 2, [], [], [], [0], False),
    ]  # fmt: skip


def test_a_program_that_does_not_notice_links_is_not_woken() -> None:
    told: list[tuple[object, ...]] = []
    network = LocalNetwork(_noticing(told, notices=False), links=LINE)
    network.crash(2, 3, 8)
    network.replace((0, 1), (0, 2), 5)
    network.play(20)
    assert told == [(8, 2, [], [], [], [0, 1], False)]


def test_messages_take_the_latency_of_the_link_that_begins() -> None:
    network = LocalNetwork(_noticing([]), links=LINE)
    network.replace((0, 1), (0, 2), 5, latency_rounds=4)
    network.call(0, "steer", 5, peer=2)
    rows = network.play(20)
    assert [(one.src, one.dst, one.sent_round, one.due_round) for one in rows.handled] == [(0, 2, 5, 9)]


def test_messages_take_the_latency_of_their_round() -> None:
    network = LocalNetwork(_noticing([]), links=LINE)
    network.replace((1, 2), (1, 2), 9, latency_rounds=7)
    network.call(1, "steer", 5, peer=2)
    network.call(1, "steer", 9, peer=2)
    rows = network.play(30)
    assert [(one.sent_round, one.due_round) for one in rows.handled] == [(5, 8), (9, 16)]


def test_no_message_takes_a_link_that_has_ended() -> None:
    network = LocalNetwork(_noticing([]), links=LINE)
    network.replace((1, 2), (0, 2), 5)
    network.call(1, "steer", 8, peer=2)
    with pytest.raises(ProgramError, match="sends PING to node 2, to which it has no link"):
        network.play(20)


def test_a_link_may_take_the_place_of_one_with_its_ends() -> None:
    told: list[tuple[object, ...]] = []
    network = LocalNetwork(_noticing(told), links=LINE)
    network.replace((1, 2), (1, 2), 5)
    network.play(20)
    assert told == [(5, 1, [2], [2], [], [0, 2], False), (5, 2, [1], [1], [], [1], False)]


def test_a_block_that_starts_later_has_the_links_of_its_round() -> None:
    swaps = [LinkReplacement(5, 1, 2, 0, 2, 4), LinkReplacement(9, 0, 2, 1, 2, 2)]
    both = {**LINE, (1, 0): 1, (2, 1): 3}
    assert Links(both, swaps, 4).now == both
    assert Links(both, swaps, 5).now == {(0, 1): 1, (1, 0): 1, (0, 2): 4, (2, 0): 4}
    assert Links(both, swaps, 9).now == {(0, 1): 1, (1, 0): 1, (1, 2): 2, (2, 1): 2}
    assert [first_after(Links(both, swaps, 0).rounds, after) for after in (0, 5, 9)] == [5, 9, None]


@pytest.mark.parametrize("at_start", [False, True])
def test_subscriptions_with_equal_predicates_have_one_pattern(at_start: bool) -> None:
    found = []

    class Looking(NodeProgram):
        messages = (Ping,)

        @classmethod
        def start(cls, world: World) -> None:
            if at_start:
                found.append(dict(world.predicates))

        def on_round(self, due: RoundDue, ctx: Context) -> None:
            if not at_start:
                found.append(dict(ctx.run.patterns))

    network = LocalNetwork(Looking, links=LINE)
    for number, predicate in ((7, "x > 1"), (3, "x > 1"), (5, "x > 2")):
        network.call(0, "subscribe", 1, subscription_id=number, predicate=predicate)
    network.play(1)
    expected: dict[int, str | int] = {3: "x > 1", 5: "x > 2", 7: "x > 1"} if at_start else {3: 3, 5: 5, 7: 3}
    assert found == [expected]
