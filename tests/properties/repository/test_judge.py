"""The judge of protocol `repository` finds each planted violation of a promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from oracles.repository.judge import Call, Crash, History, judged


class Sent(NamedTuple):
    """A message on a link."""

    kind: str
    src: int
    dst: int
    sent_round: int
    due_round: int
    fate: str
    message: Any


class Content(NamedTuple):
    """The content of a message."""

    topic: str
    origin: int
    to: tuple[int, ...] = ()
    designation: int = 0
    steering: int = 0
    source: int = 0
    source_seq: int = 0


OWNER, P, S1, S2, X = range(2, 7)
P1, P2 = (P, 1), (P, 2)


def _clean() -> History:
    """Returns a run without a fault: P publishes twice, S1 and S2 get both; repository 1 steers all."""
    calls = [
        Call(S1, 1, "subscribe", "t", {"subscription_id": 1}),
        Call(S2, 1, "subscribe", "t", {"subscription_id": 2}),
        Call(P, 1, "publish", "t", {"matches": (1, 2)}),
        Call(P, 2, "publish", "t", {"matches": (1, 2)}),
        Call(OWNER, 1, "register", "t", {"peer": S2, "role": "subscriber"}),
    ]
    issued = {(S1, 1): 2, (S2, 1): 2, P1: 50, P2: 60, (OWNER, 1): 1}
    topics = {"t": {"owner": OWNER, "publishers": {P}, "subscribers": {S1}}}
    roles = {0: "broker", 1: "repository", **dict.fromkeys(range(2, 7), "client")}
    messages: list[Sent] = []
    for client in (S1, S2):
        content = Content("t", client, (1,), designation=5, steering=1)
        messages.append(Sent("S2R-Recovery", client, 0, 5, 6, "delivered", content))
    for one in (P1, P2):
        content = Content("t", P, (1, S1, S2), source=one[0], source_seq=one[1])
        messages.append(Sent("Message", 0, 1, issued[one] + 1, issued[one] + 2, "delivered", content))
    return History(
        roles, topics, calls, [], issued, {index: round_ + 8 for index, round_ in issued.items()},
        [(56, S1, P1), (56, S2, P1), (66, S1, P2), (66, S2, P2)], [(0, 1, "OPERATIONAL")], messages, 900,
    )  # fmt: skip


def _without(*lacking: tuple[int, tuple[int, int]]) -> Callable[[History], History]:
    def changed(of: History) -> History:
        return replace(of, delivered=[one for one in of.delivered if one[1:] not in lacking])

    return changed


def _swapped(of: History) -> History:
    first, second, *others = of.delivered[1::2] + of.delivered[::2]
    return replace(of, delivered=[second, first, *others])


def _called(*calls: tuple[int, Call], is_confirmed: bool = True) -> Callable[[History], History]:
    def changed(of: History) -> History:
        issued = {(call.node, call.seq): round_ for round_, call in calls}
        done = {index: round_ + 5 for index, round_ in issued.items()} if is_confirmed else {}
        confirmed = {**of.confirmed, **done}
        return replace(
            of, calls=[*of.calls, *(call for _, call in calls)], issued={**of.issued, **issued}, confirmed=confirmed
        )

    return changed


def _deregistered(client: int, role: str, round_: int) -> Callable[[History], History]:
    return _called((round_, Call(OWNER, 2, "deregister", "t", {"peer": client, "role": role})))


def _unconfirmed(index: tuple[int, int]) -> Callable[[History], History]:
    return lambda of: replace(of, confirmed={one: round_ for one, round_ in of.confirmed.items() if one != index})


def _sent(one: Sent) -> Callable[[History], History]:
    return lambda of: replace(of, messages=[*of.messages, one])


def _gossiped(fate: str) -> Callable[[History], History]:
    """Adds repository 7, which sends repository 1 something; it is lost, or comes."""
    sent = _sent(Sent("Gossip-ACK", 7, 1, 12, 13, fate, Content("t", 7, (1,))))
    return lambda of: sent(replace(of, roles={**of.roles, 7: "repository"}))


def _ended(begin: int, end: int, status: str) -> Callable[[History], History]:
    return lambda of: replace(of, crashes=[Crash(1, begin, end)], statuses=[*of.statuses, (end, 1, status)])


def _two_orders(of: History) -> History:
    """Another publisher's message comes before P's at S1, and after it at S2."""
    of = _called((50, Call(S1, 2, "publish", "t", {"matches": (1, 2)})))(of)
    topics = {"t": {"owner": OWNER, "publishers": {P, S1}, "subscribers": {S1, S2}}}
    of = replace(of, topics=topics, calls=[call for call in of.calls if call.kind != "register"])
    return replace(of, delivered=[(55, S1, (S1, 2)), *of.delivered, (67, S2, (S1, 2))])


def _dead(node: int, round_: int) -> Callable[[History], History]:
    return lambda of: replace(of, crashes=[*of.crashes, Crash(node, round_, None)])


def _both(*changes: Callable[[History], History]) -> Callable[[History], History]:
    def changed(of: History) -> History:
        for change in changes:
            of = change(of)
        return of

    return changed


PLANTED: dict[str, tuple[Callable[[History], History], set[str]]] = {
    "nothing": (lambda of: of, set()),
    "twice": (lambda of: replace(of, delivered=[*of.delivered, (70, S1, P2)]), {"once"}),
    "without a subscription": (lambda of: replace(of, delivered=[*of.delivered, (70, OWNER, P1)]),
                               {"asked", "authorised"}),
    "the second before the first": (_swapped, {"publisher_order"}),
    "two orders": (_two_orders, {"same_order"}),
    "lost": (_without((S1, P2), (S2, P2)), {"complete"}),
    "to one and not to all": (_without((S2, P2)), {"complete"}),
    "to one, and its publisher dies": (_both(_without((S2, P2)), _dead(P, 64)), {"complete"}),
    "to one, and both publisher and repository die": (
        _both(_without((S2, P2)), _dead(P, 64), _dead(1, 67)), set(),
    ),
    "to one, though its publisher is deregistered": (
        _both(_without((S2, P2)), _deregistered(P, "publisher", 61)), {"complete"},
    ),
    "confirmed to a deregistered publisher, and lost": (
        _both(_without((S1, P2), (S2, P2)), _deregistered(P, "publisher", 61)), {"complete"},
    ),
    "to a deregistered subscriber": (_deregistered(S1, "subscriber", 20), {"authorised"}),
    "to a deregistered subscriber, and two repositories hear each other": (
        _both(_deregistered(S1, "subscriber", 20), _gossiped("delivered")), {"authorised"},
    ),
    "to a deregistered subscriber, and two repositories are cut off from each other": (
        _both(_deregistered(S1, "subscriber", 20), _gossiped("lost_link")), set(),
    ),
    "of a deregistered publisher": (_deregistered(P, "publisher", 52), {"authorised"}),
    "a copy for a stranger": (
        _sent(Sent("Message", P, 0, 51, 52, "lost_link", Content("t", P, (X,), source=P, source_seq=1))),
        {"authorised"},
    ),
    "a subscription is never confirmed": (_unconfirmed((S1, 1)), {"confirmed"}),
    "a publication is never confirmed": (_unconfirmed(P1), {"confirmed"}),
    "a registration is never confirmed": (_unconfirmed((OWNER, 1)), {"confirmed"}),
    "a recovery never ends": (_ended(100, 120, "RECOVERING"), {"repositories"}),
    "a departure never ends": (
        _both(_called((300, Call(1, 1, "leave", "", {}))),
              lambda of: replace(of, roles={**of.roles, 7: "repository"})), {"repositories"},
    ),
    "a request at the end": (_sent(Sent("S2R-NAK", S1, 0, 890, 891, "delivered", Content("t", S1, (1,)))), {"quiet"}),
}  # fmt: skip
"""A change of the clean run, and the checks that find it."""


@pytest.mark.parametrize("name", PLANTED)
def test_the_judge_finds_what_is_planted(name: str) -> None:
    change, expected = PLANTED[name]
    assert {one.split(":")[0] for one in judged(change(_clean()))} == expected
