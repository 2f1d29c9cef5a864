"""Rules that are broken on purpose: what a checker that finds nothing would be worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from udfs.repository import (
    dissemination,
    facts,
    fetching,
    gossip,
    membership,
    program,
    publisher,
    recovery,
    slots,
    steering,
    storage,
    subscriber,
)
from udfs.repository.at import At
from udfs.repository.client_records import PUBLISHER, Expected, Publishing, Steering, Unsynced
from udfs.repository.repository_records import Incarnation, Slot

from .schedules import Schedule, crossed, drawn


@dataclass(frozen=True)
class Broken:
    """A rule that is broken.

    Attributes:
        rule: The rule.
        what: What is done instead.
        patch: Does it.
        seeds: Schedules in which it shows.
        schedules: What it is played on, by a seed.
    """

    rule: int
    what: str
    patch: Callable[[pytest.MonkeyPatch], None]
    seeds: tuple[int, ...]
    schedules: Callable[[int], Schedule] = drawn


def _no_incarnation(at: At) -> None:
    at.node.publishing[at.topic] = Publishing(at.topic, 0)
    steering.start(at, PUBLISHER)


def _no_closing(at: At, row: Incarnation) -> None:
    row.is_closed = True


def _past_reserved(at: At) -> list[Slot]:
    passed = []
    while slot := at.node.slot.get((at.topic, at.log.frontier + 1)):
        at.log.frontier += 1
        if slot.status == "stored":
            at.node.incarnation[at.topic, slot.publisher, slot.incarnation].prefix = slot.n
            passed.append(slot)
    return passed


def _expect_and_acknowledge(at: At, one: Expected) -> None:
    at.node.expected.setdefault((at.topic, one.seq), one)
    at.node.unsynced[at.topic, one.seq] = Unsynced(at.topic, one.seq)


def _hears_all(at: At, row: Steering | None, m: Any) -> bool:
    if row is not None:
        row.heard_round, row.tries = at.round, 0
    return row is not None


def _takes_numbers_over(at: At, repository: int) -> None:
    for row in at.of(at.node.foreign_sync):
        own = at.node.subscriber.get((at.topic, row.client))
        if own is not None:
            own.sync = max(own.sync, min(row.seq, at.log.frontier))


def _volatile(*names: str) -> Callable[[pytest.MonkeyPatch], None]:
    def patch(to: pytest.MonkeyPatch) -> None:
        for name in names:
            declared = program.Repository.declared
            to.setitem(declared, name, replace(declared[name], is_durable=False))  # type: ignore[arg-type]

    return patch


def _function(module: object, name: str, other: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda to: to.setattr(module, name, other)


def _timers(*names: str) -> Callable[[pytest.MonkeyPatch], None]:
    def patch(to: pytest.MonkeyPatch) -> None:
        for name in names:
            to.setitem(program.TIMERS, name, lambda at: None)  # type: ignore[arg-type]

    return patch


def _no_fetching(to: pytest.MonkeyPatch) -> None:
    to.setattr(fetching, "ask", lambda at: None)
    _timers("fetch")(to)


def _holes_are_passed(to: pytest.MonkeyPatch) -> None:
    expect = subscriber.expect
    to.setattr(subscriber, "expect", lambda at, one: expect(at, replace(one, prev=0)))


BROKEN = (
    Broken(1, "catenation numbers without an incarnation", _function(publisher, "start", _no_incarnation), (1, 3)),
    Broken(2, "what an older incarnation lacks stays reserved", _function(slots, "close", _no_closing), (58,)),
    Broken(3, "stable is what one repository holds", _function(storage, "stable", lambda at, row: row.prefix), (3, 5)),
    Broken(4, "publishers repeat no order", _timers("reoffer"), (1, 2)),
    Broken(5, "notifications pass reserved numbers", _function(slots, "advance", _past_reserved), (1, 2)),
    Broken(6, "holes are passed", _holes_are_passed, (0, 2)),
    Broken(8, "acknowledged before it is delivered", _function(subscriber, "expect", _expect_and_acknowledge), (0, 1)),
    Broken(9, "marks do not survive a crash", _volatile("mark"), (3, 6)),
    Broken(10, "subscriptions without a cut", _function(dissemination, "cut_of", lambda cut, publisher, i: 0), (0, 2)),
    Broken(12, "answers to any designation count", _function(steering, "hear", _hears_all), (30, 42)),
    Broken(14, "subscribers do not poll", _timers("idle"), (5, 19)),
    Broken(16, "the number of a sync is taken over", _function(facts, "apply", _takes_numbers_over), (133,)),
    Broken(18, "gossip tells nothing beyond the frontier", _function(gossip, "beyond", lambda at: ()), (0,), crossed),
    Broken(19, "nothing is fetched within the bundle", _no_fetching, (1, 3)),
    Broken(20, "numbers do not survive a crash", _volatile("slot", "log", "incarnation"), (1, 3)),
    Broken(22, "nobody goes on with its own disk", _function(recovery, "_is_on_its_own", lambda at: False), (1, 3)),
    Broken(26, "leaves before others hold all", _function(membership, "_is_covered", lambda at: True), (1,)),
)
