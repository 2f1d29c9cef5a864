"""Where a publication ended, and what ended it.

Where the protocol says that a node still keeps it, that is told (`Protocol.waits`). Else a publication that did
not come ended at the last node of the path that took it. What ended it there, in this order:

0. its publisher crashed before it sent any message for it: it had accepted the call and held it back;
1. a copy to a node further on was lost: the crash of its receiver, or the fault of a link; or it was taken for a
   duplicate, because others had overtaken it;
2. that node passed it on to nobody, because it had lost what it knew in a crash of its own and the protocol does not
   say that it was restored; or because it never knew the subscription: that was on its way, or lost to a crash;
3. ... or because the next nodes were down; or because it crashed while it held the publication;
4. ... or none of that shows: the newest message that a link on the path had lost is named, else the newest crash on the
   path before that, else the first one after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.why.facts import LOST, Downtime, LinkFault, MessageFact, RunFacts, SubscriptionFact, Trail, make_trail

CRASH, LINK, UNDER_WAY, IN_FLIGHT, DUPLICATE, WAITING, WAITED, UNEXPLAINED = (
    "crash", "link", "subscription_under_way", "in_flight", "taken_for_duplicate", "waiting", "waited",
    "unexplained",
)  # fmt: skip
_SHOWN = 3


@dataclass(frozen=True)
class Cause:
    """The reason why a publication ended at a node, or waited there.

    Attributes:
        kind: ``crash``; ``link``: a link lost a copy, or delayed it; ``subscription_under_way``: the node did not know
            the subscription yet; ``in_flight``; ``taken_for_duplicate``; ``waiting``: a node keeps it until something
            else happens; ``waited``: a node kept it for a time; ``unexplained``; or why nobody asked for it, see
            `asked.not_asked`.
        node: The node that crashed, or where it happened.
        round: Round of the crash, or in which it happened.
        text: The cause in words.
        until: Crashes: round in which the node recovered; None for good.
        fault: The fault of a link that it was, or that brought it about; None: none.
    """

    kind: str
    node: int
    round: int
    text: str
    until: int | None = None
    fault: LinkFault | None = None

    def as_dict(self, names: Mapping[int, str]) -> dict[str, Any]:
        """Returns it for JSON; ``until`` with crashes only, ``fault`` with faults of links only."""
        row: dict[str, Any] = {"kind": self.kind, "node": names[self.node], "round": self.round}
        row |= {"until": self.until} if self.kind == CRASH else {}
        if self.fault is not None:
            ends = {
                name: None if end is None else names[end]
                for name, end in (("from", self.fault.src), ("to", self.fault.dst))
            }
            row["fault"] = {"kind": self.fault.kind, **ends, "round": self.fault.round, "until": self.fault.until}
        return row | {"text": self.text}


@dataclass(frozen=True)
class Ending:
    """The node at which a publication ended, with the cause.

    Attributes:
        node: The last node of the path that had it.
        round: Round in which it took it, the last time.
        cause: What ended it there.
        also: Other crashes on the way because of which nobody sent it again.
    """

    node: int
    round: int
    cause: Cause
    also: tuple[Downtime, ...] = ()


@dataclass(frozen=True)
class Case:
    """A publication that did not come.

    Attributes:
        facts: The run.
        trail: Its copies.
        subscriptions: Those of the subscriber that asked for it.
        subscriber: Who did not get it.
        publication: Its source and number.
    """

    facts: RunFacts
    trail: Trail
    subscriptions: Sequence[SubscriptionFact]
    subscriber: int
    publication: tuple[int, int]
    _spread: dict[int, Trail] = field(default_factory=dict)

    def name(self, node: int) -> str:
        """Returns a node's name."""
        return self.facts.names[node]

    def spread(self) -> list[Trail]:
        """Returns the ways of the subscriptions from the subscriber to where the publication ended."""
        path = self.facts.path(self.subscriber, self.trail.reached())
        return [
            make_trail(self.facts, served, path, subscription.issued_round)
            for subscription in self.subscriptions
            if (served := self.facts.spread.get((self.subscriber, subscription.subscription_id)))
        ]


def ending(case: Case) -> Ending:
    """Finds where a publication that did not come ended, and why."""
    trail = case.trail
    node = trail.reached()
    taken = trail.arrivals.get(node)
    round_ = taken[-1].due if taken else trail.start
    if cause := waiting(case.facts, case.publication, case.subscriber, round_):
        return Ending(node, round_, cause)
    for look in (
        _lost_call,
        _lost_copy,
        _forgotten,
        _unknown_subscription,
        _next_down,
        _own_crash,
        _any_loss,
        _any_crash,
    ):
        cause = look(case, node, round_)
        if cause is not None:
            return Ending(node, round_, cause, _others(case, node, round_, cause))
    text = f"{case.name(node)} passed it on to nobody, and no crash or loss on the way explains that"
    return Ending(node, round_, Cause(UNEXPLAINED, node, round_, text))


def waiting(facts: RunFacts, publication: tuple[int, int], subscriber: int, round_: int) -> Cause | None:
    """Returns the wait of a publication and its reason, the subscriber's own first; None: it waits nowhere."""
    waits = sorted(facts.waits.get(publication, ()), key=lambda wait: wait[0] != subscriber)
    if not waits:
        return None
    texts = dict.fromkeys(f"at {facts.names[at]}, where {reason}" for at, reason in waits[:_SHOWN])
    more = f", and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    return Cause(WAITING, waits[0][0], round_, f"it still waits {'; '.join(texts)}{more}")


def _others(case: Case, node: int, round_: int, cause: Cause) -> tuple[Downtime, ...]:
    """The other nodes behind that were not up until the failure was known; the node itself if it never knew."""
    path, facts = case.trail.path, case.facts
    report = next((report for report in facts.reports(node, cause.node) if report.due > round_), None)
    last = round_ if report is None else report.due
    found = [down for behind in path[path.index(node) + 1 :] if (down := facts.down(behind, last))]
    found = [down for down in found if down.is_felt(round_, last)]
    if report is not None and report.fate in LOST:
        found += [down for down in [facts.down(node, report.due)] if down is not None]
    return tuple(down for down in found if (down.node, down.round) != (cause.node, cause.round))


def crash_words(down: Downtime) -> str:
    """Returns when a crash was, in words."""
    back = "for good" if down.until is None else f"back in round {down.until}"
    return f"crash in round {down.round}, {back}"


def crashed(facts: RunFacts, down: Downtime) -> str:
    """Returns a node that is down, in words."""
    return f"{facts.names[down.node]} down ({crash_words(down)})"


def from_crash(down: Downtime, text: str) -> Cause:
    """Makes a cause of a crash."""
    return Cause(CRASH, down.node, down.round, text, down.until)


def lost_copy(facts: RunFacts, copy: MessageFact) -> Cause:
    """Makes a cause of a copy that was lost."""
    what = f"the copy of round {copy.sent} to {facts.names[copy.dst]}"
    down = facts.down(copy.dst, copy.due)
    if copy.fate == "lost_link" or down is None:
        fault = facts.loss(copy)
        text = f"{what} was lost on the link from {facts.names[copy.src]}" + ("" if fault is None else f" ({fault})")
        return Cause(LINK, copy.dst, copy.due, text, fault=fault)
    if down.covers(copy.due):
        return from_crash(down, f"{what} met {crashed(facts, down)}")
    text = (
        f"{what} came in round {copy.due}, when {facts.names[copy.dst]} was back from its crash in round {down.round}"
    )
    return from_crash(down, f"{text} (since round {down.until}) but could not use it")


def waited(trail: Trail, publication: tuple[int, int], round_: int) -> Cause | None:
    """Returns the longest wait of a publication that ended by a round; of equal ones one that a crash made longer.

    Waits at subscribers that are not on the way delay nobody else and do not count.
    """
    facts = trail.facts
    ended = [
        wait for wait in facts.waited.get(publication, ())
        if wait.until <= round_ and (wait.node in trail.path or not facts.deliveries.get((wait.node, *publication)))
    ]  # fmt: skip
    if not ended:
        return None
    wait = max(ended, key=lambda one: (one.until - one.since, one.crash is not None, -one.node, one.reason))
    text = f"it waited at {facts.names[wait.node]} from round {wait.since} to {wait.until}: {wait.reason}"
    if wait.crash is None:
        return Cause(WAITED, wait.node, wait.since, text)
    down = facts.down(*wait.crash)
    if down is None:
        return Cause(WAITED, wait.node, wait.since, text)
    return from_crash(down, f"{text}, longer because of {crashed(facts, down)}")


def delay(trail: Trail, publication: tuple[int, int], round_: int) -> Cause | None:
    """Finds what kept a publication that came late, up to the round in which it came.

    Returns:
        The longest wait of which the protocol tells; else the first copy on the way that was lost; else the crash
        because of which a copy waited or went another way; else the first copy that a fault of its link delayed; None
        where nothing of that shows.
    """
    facts = trail.facts
    if cause := waited(trail, publication, round_):
        return cause
    for copy in trail.chain():
        parent = trail.parent(copy)
        had = trail.start if parent is None else parent.due
        if copy.sent <= had:
            continue
        lost = [
            other for other in trail.copies if other.src == copy.src and other.sent < copy.sent and other.fate in LOST
        ]
        if lost:
            return lost_copy(facts, lost[0])
        between = facts.path(copy.src, copy.dst)[1:]
        felt = [down for node in between if (down := facts.down(node, copy.sent)) and down.is_felt(had, copy.sent)]
        if felt:
            text = f"{facts.names[copy.src]} had it in round {had} and sent it in round {copy.sent} only"
            return from_crash(felt[0], f"{text}, because of {crashed(facts, felt[0])}")
    lost = [copy for copy in trail.copies if copy.fate in LOST and copy.due <= round_]
    return lost_copy(facts, lost[0]) if lost else _slow_copy(trail)


def _slow_copy(trail: Trail) -> Cause | None:
    """The first copy on the way that took longer than its link does, by a fault of it."""
    facts = trail.facts
    for copy in trail.chain():
        longer = copy.due - copy.sent - facts.latency([copy.src, copy.dst])
        slow = [fault for fault in facts.link_faults if fault.kind in ("delay", "reorder") and fault.concerns(copy)]
        if longer > 0 and slow:
            text = (
                f"the copy of round {copy.sent} to {facts.names[copy.dst]} took {longer} rounds longer on the link from"
            )
            return Cause(LINK, copy.dst, copy.due, f"{text} {facts.names[copy.src]} ({slow[0]})", fault=slow[0])
    return None


def _lost_call(case: Case, node: int, round_: int) -> Cause | None:
    """The first crash of a publisher of a protocol that confirms, if it had sent nothing for the call before."""
    facts, (source, _) = case.facts, case.publication
    is_confirmed = facts.publications[case.publication].confirmed_round is not None
    if not facts.confirms or is_confirmed or facts.messages.get(case.publication):
        return None
    crash = next((down for down in facts.downs.get(source, []) if down.round > round_), None)
    if crash is None:
        return None
    before = facts.down(source, round_)
    held = f"{case.name(source)} accepted the call in round {round_}"
    if before is not None and before.is_blank(round_):
        held += f", while it recovered from its crash in round {before.round}"
    return from_crash(crash, f"{held}, and crashed before it sent anything for it: {crashed(facts, crash)}")


def _lost_copy(case: Case, node: int, round_: int) -> Cause | None:
    """The last copy to a node behind that was lost, or taken for a duplicate by a node that had none."""
    beyond = case.trail.beyond(node)
    lost = [copy for copy in beyond if copy.fate in LOST]
    if lost:
        cause = lost_copy(case.facts, lost[-1])
        return replace(cause, text=f"{cause.text}; nobody sent it again")
    for copy in beyond:
        if copy.fate == "duplicate":
            text = f"{case.name(copy.dst)} took the first copy that came to it, in round {copy.due}, for a duplicate"
            fault = case.facts.overtaking(copy)
            if fault is None and (down := _held_up(case, copy)) is not None:
                late = f"newer ones had come first, for it had been held up by {crashed(case.facts, down)}"
                return from_crash(down, f"{text}: {late}")
            text += "" if fault is None else f", where others had overtaken it ({fault})"
            return Cause(DUPLICATE, copy.dst, copy.due, text, fault=fault)
    return None


def _held_up(case: Case, copy: MessageFact) -> Downtime | None:
    """The newest crash on the way that was felt from when the publication was issued to when a copy came."""
    facts, trail = case.facts, case.trail
    downs = [down for node in trail.path for down in facts.downs.get(node, [])]
    return max((down for down in downs if down.is_felt(trail.start, copy.due)), key=lambda d: d.round, default=None)


def _forgotten(case: Case, node: int, round_: int) -> Cause | None:
    """The node lost the subscription in a crash, and the protocol does not say that it was restored since."""
    down = case.facts.down(node, round_)
    if down is None or not down.is_blank(round_):
        return None
    knew = any(spread.path[0] == node or _has(spread, node, down.round) for spread in case.spread())
    own = any(subscription.issued_round < down.round for subscription in case.subscriptions)
    if not (knew if node != case.subscriber else own):
        return None
    lost = "its subscription" if node == case.subscriber else f"the subscription of {case.name(case.subscriber)}"
    what = "did not deliver it" if node == case.subscriber else "passed it on to nobody"
    back = f"it had recovered in round {down.until} from its crash in round {down.round} without {lost}"
    return from_crash(down, f"{case.name(node)} {what} in round {round_}: {back}")


def _has(spread: Trail, node: int, round_: int) -> bool:
    """Returns whether a subscription had come to a node before a round."""
    taken = spread.arrivals.get(node)
    return taken is not None and taken[0].due < round_


def _unknown_subscription(case: Case, node: int, round_: int) -> Cause | None:
    """No subscription that asks for it had come to the node, and no crash made it need one again."""
    ways = case.spread()
    down = case.facts.down(node, round_)
    if node == case.subscriber or not ways or (down is not None and down.restored is not None):
        return None
    before = case.trail.came(node)
    if any(spread.reached(before) == node for spread in ways):
        return None
    way = ways[0]
    issued = f"the subscription that {case.name(case.subscriber)} had issued in round {way.start}"
    unaware = f"{case.name(node)} passed it on to nobody in round {round_}: it did not know {issued}"
    lost = [copy for copy in way.beyond(way.reached(before)) if copy.fate in LOST]
    if lost:
        cause = lost_copy(case.facts, lost[-1])
        return replace(cause, text=f"{unaware}, of which {cause.text}")
    later = way.arrivals.get(node)
    if later is None:
        return None
    return Cause(UNDER_WAY, node, round_, f"{unaware}; that came to it in round {later[0].due} only")


def _next_down(case: Case, node: int, round_: int) -> Cause | None:
    """Returns the cause at the nearest node behind that was down, or not restored, when the node had it."""
    path = case.trail.path
    for behind in path[path.index(node) + 1 :]:
        down = case.facts.down(behind, round_)
        if down is not None and down.is_felt(round_, round_):
            text = f"{case.name(node)} had it in round {round_} and sent it no further"
            return from_crash(down, f"{text}, with {crashed(case.facts, down)}")
    return None


def _own_crash(case: Case, node: int, round_: int) -> Cause | None:
    """The first crash of the node after it had it."""
    for down in case.facts.downs.get(node, []):
        if down.round > round_:
            text = f"{case.name(node)} had it since round {round_} and crashed before it passed it on"
            return from_crash(down, f"{text}: {crashed(case.facts, down)}")
    return None


def _any_loss(case: Case, node: int, round_: int) -> Cause | None:
    """The newest message between nodes on the path, up to then, that a link lost."""
    facts, path = case.facts, set(case.trail.path)
    served = [*facts.others, *(message for spread in case.spread() for message in spread.copies)]
    lost = [m for m in served if m.fate == "lost_link" and {m.src, m.dst} <= path and m.sent <= round_]
    if not lost:
        return None
    last = max(lost, key=lambda message: message.at)
    fault = facts.loss(last)
    text = (
        f"{case.name(node)} had it in round {round_} and sent it no further; the last message lost on the way before"
        f" that was {last.kind} of round {last.sent} from {case.name(last.src)} to {case.name(last.dst)}"
    )
    return Cause(LINK, last.dst, last.due, text + ("" if fault is None else f" ({fault})"), fault=fault)


def _any_crash(case: Case, node: int, round_: int) -> Cause | None:
    """The newest crash of a node on the path up to then, or else the first one after it."""
    downs = [down for other in case.trail.path for down in case.facts.downs.get(other, [])]
    if not downs:
        return None
    before = [down for down in downs if down.round <= round_]
    down = max(before, key=lambda d: d.round) if before else min(downs, key=lambda d: d.round)
    which = "the last crash on the way before that" if before else "the first crash on the way after that"
    text = f"{case.name(node)} had it in round {round_} and sent it no further; {which}"
    return from_crash(down, f"{text} was of {case.name(down.node)} ({crash_words(down)})")
