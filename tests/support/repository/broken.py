"""Deliberately broken rules, which show that the checkers and audits detect violations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from udfs.repository import (
    gossip,
    membership,
    program,
    publisher,
    recovery,
    registrations,
    repository_events,
    slots,
    steering,
    storage,
    subscriber,
    syncs,
)
from udfs.repository.at import At
from udfs.repository.client_records import PUBLISHER, Expected, Publishing, Steering, Unsynced
from udfs.repository.repository_records import Incarnation, Slot, Subscriber

from .schedules import Schedule, crossed, drawn

Step = Callable[..., Any]


@dataclass(frozen=True)
class Part:
    """A replacement of a step.

    Attributes:
        owner: The module, class or mapping that contains the step.
        name: The name or key of the step in ``owner``.
        other: A function from the original step to the replacement.
    """

    owner: Any
    name: Any
    other: Callable[[Step], Step]

    def patch(self, to: pytest.MonkeyPatch, seeds: Collection[int] | None) -> None:
        """Replaces the step; if ``seeds`` is set, only in the runs of these seeds."""
        is_mapping = isinstance(self.owner, Mapping)
        kept = self.owner[self.name] if is_mapping else getattr(self.owner, self.name)
        other = self.other(kept)

        def chosen(*given: Any, **named: Any) -> Any:
            is_broken = seeds is None or _seed(given) in seeds
            return (other if is_broken else kept)(*given, **named)

        (to.setitem if is_mapping else to.setattr)(self.owner, self.name, chosen)


@dataclass(frozen=True)
class Broken:
    """A broken rule.

    Attributes:
        rule: The number of the rule.
        what: The wrong behaviour, as a phrase.
        parts: The replacements of steps that cause the wrong behaviour.
        seeds: The seeds of schedules in which a checker must detect the wrong behaviour.
        schedules: A function from a seed to a schedule.
    """

    rule: int
    what: str
    parts: tuple[Part, ...]
    seeds: tuple[int, ...]
    schedules: Callable[[int], Schedule] = drawn

    def patch(self, to: pytest.MonkeyPatch, seeds: Collection[int] | None = None) -> None:
        """Breaks the rule; if ``seeds`` is set, only in the runs of these seeds."""
        for part in self.parts:
            part.patch(to, seeds)


def _seed(given: tuple[Any, ...]) -> int:
    """Returns the seed of the run in which a step is called; one of its arguments is a context or contains one."""
    rounds = (getattr(one, "ctx", one) for one in given)
    return int(next(one.settings["seed"] for one in rounds if hasattr(one, "settings")))


def _instead(step: Step) -> Callable[[Step], Step]:
    return lambda kept: step


def _nothing(kept: Step) -> Step:
    return lambda *given: None


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


def _holes_are_passed(expect: Step) -> Step:
    return lambda at, one: expect(at, replace(one, prev=0))


def _expect_and_acknowledge(at: At, one: Expected) -> None:
    at.node.expected.setdefault((at.topic, one.seq), one)
    at.node.unsynced[at.topic, one.seq] = Unsynced(at.topic, one.seq)


def _without_cuts(is_for: Step) -> Step:
    def changed(at: At, subscriber: Subscriber, *given: Any) -> bool:
        anywhere = tuple(replace(one, cut=()) for one in subscriber.interests)
        return bool(is_for(at, replace(subscriber, interests=anywhere), *given))

    return changed


def _hears_all(at: At, row: Steering | None, m: Any) -> bool:
    if row is not None:
        row.heard_round, row.tries = at.round, 0
    return row is not None


def _takes_numbers_over(at: At, repository: int) -> None:
    for row in at.of(at.node.foreign_sync):
        own = at.node.subscriber.get((at.topic, row.client))
        if own is not None:
            own.sync = max(own.sync, min(row.seq, at.log.frontier))


def _takes_all_for_told(on_gossip: Step) -> Step:
    def changed(at: At, m: repository_events.GossipAck) -> None:
        on_gossip(at, replace(m, seen=(repository_events.Told(at.me, at.log.frontier),)))

    return changed


def _forgets(*names: str) -> Callable[[Step], Step]:
    """Returns a change of ``on_recover`` that clears the tables ``names``; without slots, numbering restarts at 1."""

    def without(on_recover: Step) -> Step:
        def changed(node: program.Repository, ctx: Any) -> None:
            for name in names:
                getattr(node, name).clear()
            for log in node.log.values() if "slot" in names else ():
                log.last_seq = log.frontier = 0
            on_recover(node, ctx)

        return changed

    return without


def _at_recovery(*names: str) -> tuple[Part, ...]:
    return (Part(program.Repository, "on_recover", _forgets(*names)),)


def _any_designates(designated: Step) -> Step:
    def changed(at: At, *given: Any, is_own: bool) -> bool:
        return bool(designated(at, *given, is_own=True))

    return changed


def _function(module: object, name: str, other: Step) -> tuple[Part, ...]:
    return (Part(module, name, _instead(other)),)


def _timer(name: str) -> Part:
    return Part(program.TIMERS, name, _nothing)


BROKEN = (
    Broken(1, "catenation numbers without an incarnation", _function(publisher, "start", _no_incarnation), (3,)),
    Broken(2, "what an older incarnation lacks stays reserved", _function(slots, "close", _no_closing), (58,)),
    Broken(3, "stable is what one repository holds", _function(storage, "stable", lambda at, row: row.prefix), (3, 5)),
    Broken(4, "publishers repeat no order", (_timer("reoffer"),), (1, 2)),
    Broken(5, "notifications pass reserved numbers", _function(slots, "advance", _past_reserved), (1, 2)),
    Broken(6, "holes are passed", (Part(subscriber, "expect", _holes_are_passed),), (0, 2)),
    Broken(8, "acknowledged before it is delivered", _function(subscriber, "expect", _expect_and_acknowledge), (0, 1)),
    Broken(9, "marks do not survive a crash", _at_recovery("mark"), (3, 6)),
    Broken(10, "subscriptions without a cut", (Part(storage, "is_for", _without_cuts),), (0, 2)),
    Broken(12, "answers to any designation count", _function(steering, "accept_answer", _hears_all), (12,)),
    Broken(13, "orders and gossip make a repository active",
           (Part(registrations, "record_designation", _any_designates),), (1, 2)),
    Broken(14, "subscribers do not poll", (_timer("idle"),), (5, 19)),
    Broken(16, "the number of a sync is taken over", _function(syncs, "apply_syncs", _takes_numbers_over), (172,)),
    Broken(17, "gossip is taken for told before the other says so",
           (Part(program.AT_REPOSITORIES, repository_events.GossipAck, _takes_all_for_told),), (1, 3)),
    Broken(18, "gossip tells nothing beyond the frontier", _function(gossip, "unlisted_messages", lambda at: ()),
           (0,), crossed),
    Broken(19, "nothing is fetched within the bundle", (Part(recovery, "fetch", _nothing), _timer("fetch")), (1, 3)),
    Broken(20, "numbers do not survive a crash", _at_recovery("slot", "incarnation", "orphan"), (3,)),
    Broken(22, "nobody goes on with its own disk", _function(recovery, "_is_on_its_own", lambda at: False), (1, 3)),
    Broken(26, "leaves before others hold all", _function(membership, "_is_covered", lambda at: True), (136,)),
)  # fmt: skip
