"""Finds the last node that received a missing publication, and the cause of the loss.

The path leads from the publisher to the subscriber. A copy is a message that carries the publication. "The last node"
is the last node of the path that received the publication. "The arrival" is the round in which it received the
publication. "A later node" follows the last node on the path.

If the protocol reports that a node holds the publication back (`Protocol.waits`), this wait is the cause. Otherwise the
cause is the first of the following that applies:

1. The publisher accepted the call, and crashed before it sent a message for it.
2. A copy to a later node was lost in a crash of its receiver or by a link fault. If several copies were lost, the cause
   is the one that was sent last. If no copy was lost, the cause is the first copy to a later node that its receiver
   dropped as a duplicate.
3. The last node knew the subscription, crashed and recovered. At the arrival, the protocol had not yet reported the
   node as restored.
4. The publication arrived at the last node before any matching subscription. The cause is one of these: the subscriber
   issued its subscription later; a message with the subscription was lost, or dropped as a duplicate; a crash led to
   the confirmation of the subscription before it had arrived everywhere; or the subscription was still under way.
5. A later node was down.
6. The last node crashed before it forwarded the publication.
7. A link lost another message between two nodes of the path. The message was sent up to the arrival. It belongs to no
   call, or contains a matching subscription. If links lost several such messages, the cause is the one that was due
   last.
8. A node on the path crashed. The cause is the latest crash up to the arrival, or else the first crash after it.
9. A link was replaced up to the arrival. The cause is the latest replacement.
10. A link fault may have delayed the subscription. This cause requires a history without messages that name the
    subscription.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pipelines.errors import plural
from pipelines.why.facts import (
    LINKED,
    LOST,
    UNLINKED,
    Downtime,
    LinkFault,
    MessageFact,
    RunFacts,
    SubscriptionFact,
    Trail,
    make_trail,
    or_never,
    rounds_of,
)

CRASH, LINK, UNDER_WAY, IN_FLIGHT, DUPLICATE, WAITING, WAITED, DETOUR, UNEXPLAINED = (
    "crash", "link", "subscription_under_way", "in_flight", "taken_for_duplicate", "waiting", "waited", "detour",
    "unexplained",
)  # fmt: skip
_SHOWN = 3


@dataclass(frozen=True)
class Cause:
    """The reason why a publication did not reach the subscriber, or reached it late.

    Attributes:
        kind: ``crash``: a node crashed; ``link``: a link lost or delayed a message, or was replaced;
            ``subscription_under_way``: the publication arrived before the subscription, or a link fault may have
            delayed the subscription; ``in_flight``: a message that may lead to the delivery is in flight, or the runs
            are not finished; ``taken_for_duplicate``: a node dropped a copy as a duplicate; ``waiting``: a node holds
            the publication back; ``waited``: a node held the publication back for some rounds; ``detour``: the delivery
            did not use the fastest path; ``unexplained``; or a kind that `telling.exemption` returns.
        node: The node of the event, for example the crashed node or the receiver of the lost copy.
        round: The round of the event.
        text: The cause as a phrase.
        until: For a crash, the round of the recovery; None if the node did not recover.
        fault: The link fault that caused the event; None if no link fault caused it.
    """

    kind: str
    node: int
    round: int
    text: str
    until: int | None = None
    fault: LinkFault | None = None

    def as_dict(self, names: Mapping[int, str]) -> dict[str, Any]:
        """Returns a JSON-serialisable dict; only crashes have ``until``, and only link faults have ``fault``."""
        row: dict[str, Any] = {"kind": self.kind, "node": names[self.node], "round": self.round}
        row |= {"until": self.until} if self.kind == CRASH else {}
        if self.fault is not None:
            src, dst = (None if end is None else names[end] for end in (self.fault.src, self.fault.dst))
            row["fault"] = {"kind": self.fault.kind, "from": src, "to": dst}
            row["fault"] |= {"round": self.fault.round, "until": self.fault.until}
        return row | {"text": self.text}


@dataclass(frozen=True)
class MissingDelivery:
    """A missing delivery of publication ``publication``, source and call number, to the end of ``trail``.

    ``node`` is the last node of the path that received the publication, in round ``round``. ``subscriptions`` are the
    subscriber's matching subscriptions.
    """

    trail: Trail
    publication: tuple[int, int]
    node: int
    round: int
    subscriptions: Sequence[SubscriptionFact]

    @property
    def facts(self) -> RunFacts:
        """The history of the run."""
        return self.trail.facts

    @property
    def subscriber(self) -> int:
        """The last node of the path."""
        return self.trail.path[-1]

    @property
    def later_nodes(self) -> Sequence[int]:
        """The nodes of the path after `node`."""
        path = self.trail.path
        return path[path.index(self.node) + 1 :]

    @property
    def received(self) -> str:
        """A clause: the node received the publication, or published it, in the round."""
        return f"{self.name(self.node)} {received_words(self.trail, self.node, self.round)} it in round {self.round}"

    @property
    def stopped(self) -> str:
        """A clause: the node received the publication, or published it, and did not forward it."""
        is_source = received_words(self.trail, self.node, self.round) == "published"
        return f"{self.received} and did not {'send' if is_source else 'forward'} it"

    def name(self, node: int) -> str:
        """Returns the name of a node."""
        return self.facts.names[node]

    def spread(self) -> list[Trail]:
        """Returns, for each matching subscription, a trail of the messages that propagate the subscription.

        The path of these trails leads from the subscriber to ``node``.
        """
        path = self.facts.path(self.subscriber, self.node)
        return [
            make_trail(self.facts, served, path, subscription.issued_round)
            for subscription in self.subscriptions
            if (served := self.facts.spread.get((self.subscriber, subscription.subscription_id)))
        ]


def lost_because(case: MissingDelivery) -> tuple[Cause, tuple[Downtime, ...]]:
    """Returns the cause of a missing delivery, and the further downtimes that prevented the delivery."""
    if cause := waiting(case.facts, case.publication, case.subscriber, case.round):
        return cause, ()
    for find in _FINDERS:
        if cause := find(case):
            return cause, _others(case, cause)
    text = f"{case.name(case.node)} did not forward it, and no crash or loss on the path explains this"
    return Cause(UNEXPLAINED, case.node, case.round, text), ()


def waiting(facts: RunFacts, publication: tuple[int, int], subscriber: int, round_: int) -> Cause | None:
    """Returns a cause that names nodes that hold ``publication`` back at the end of the run, ``subscriber`` first.

    Returns None if no node holds the publication back.
    """
    waits = sorted({*facts.waits.get(publication, ())}, key=lambda wait: (wait[0] != subscriber, wait))
    if not waits:
        return None
    texts = [f"at {facts.names[at]}, where {reason}" for at, reason in waits[:_SHOWN]]
    more = f", and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    return Cause(WAITING, waits[0][0], round_, f"it still waits {'; '.join(texts)}{more}")


def _others(case: MissingDelivery, cause: Cause) -> tuple[Downtime, ...]:
    """Returns the downtimes, besides ``cause``, that prevented the last node from sending a copy to a later node.

    1. The downtimes of later nodes that overlap the period from the arrival to the report of ``cause.node`` by the last
       node's failure detector. Without a report the period ends in the round of the arrival.
    2. If the report was lost, the downtime of the last node in the round of the report.
    """
    facts = case.facts
    report = next((report for report in facts.reports(case.node, cause.node) if report.due > case.round), None)
    last = case.round if report is None else report.due
    found = [down for node in case.later_nodes if (down := facts.down(node, last)) and down.overlaps(case.round, last)]
    if report is not None and report.fate in LOST:
        found += [down for down in [facts.down(case.node, report.due)] if down is not None]
    return tuple(down for down in found if (down.node, down.round) != (cause.node, cause.round))


def crashed(facts: RunFacts, down: Downtime, first: int | None = None) -> str:
    """Returns a clause: the node of ``down`` was down, or was recovering if its recovery precedes round ``first``."""
    is_down = first is None or first < or_never(down.until)
    state = "was down" if is_down else "was recovering after its downtime"
    return f"{facts.names[down.node]} {state} ({rounds_of(down.round, down.until)})"


def received_words(trail: Trail, node: int, round_: int) -> str:
    """Returns ``published`` if ``node`` issued the message of ``trail`` in ``round_``, else ``received``."""
    return "published" if node == trail.path[0] and round_ == trail.start else "received"


def from_crash(down: Downtime, text: str) -> Cause:
    """Returns a cause of kind ``crash`` with the node and the rounds of ``down``, and the phrase ``text``."""
    return Cause(CRASH, down.node, down.round, text, down.until)


def lost_copy(facts: RunFacts, copy: MessageFact) -> Cause:
    """Returns the cause of the loss of ``copy``: a crash of its receiver, or a link fault."""
    what = f"the copy sent to {facts.names[copy.dst]} in round {copy.sent}"
    down = facts.down(copy.dst, copy.due)
    if copy.fate == "lost_link" or down is None:
        fault = facts.loss(copy)
        text = f"{what} was lost on the link from {facts.names[copy.src]}" + ("" if fault is None else f" ({fault})")
        return Cause(LINK, copy.dst, copy.due, text, fault=fault)
    if down.covers(copy.due):
        return from_crash(down, f"{what} arrived while {crashed(facts, down)}")
    text = f"{what} arrived in round {copy.due} and was dropped: {facts.names[copy.dst]} had crashed"
    return from_crash(down, f"{text} in round {down.round} and recovered in round {down.until}")


def _lost_call(case: MissingDelivery) -> Cause | None:
    facts, (source, _) = case.facts, case.publication
    is_confirmed = facts.publications[case.publication].confirmed_round is not None
    if not facts.confirms or is_confirmed or facts.messages.get(case.publication):
        return None
    crash = next((down for down in facts.downs.get(source, []) if down.round > case.round), None)
    if crash is None:
        return None
    before = facts.down(source, case.round)
    held = f"{case.name(source)} accepted the call in round {case.round}"
    if before is not None and before.is_restoring(case.round):
        held += f", while recovering from its crash in round {before.round}"
    return from_crash(crash, f"{held}, and crashed before it sent a message for the call: {crashed(facts, crash)}")


def _lost_copy(case: MissingDelivery) -> Cause | None:
    beyond = case.trail.copies_beyond(case.node)
    lost = [copy for copy in beyond if copy.fate in LOST]
    if lost:
        cause = lost_copy(case.facts, lost[-1])
        return replace(cause, text=f"{cause.text}; it was not resent")
    return _taken_for_duplicate(case, beyond)


def _taken_for_duplicate(case: MissingDelivery, copies: Sequence[MessageFact]) -> Cause | None:
    """Returns a cause for the first of ``copies`` that its receiver dropped as a duplicate, or None.

    The cause names the link fault that let other messages overtake the copy, or else the crash that delayed it.
    """
    for copy in copies:
        if copy.fate == "duplicate":
            text = f"{case.name(copy.dst)} dropped the first copy that it received, in round {copy.due}, as a duplicate"
            fault = case.facts.overtaking(copy)
            downs = [down for node in case.trail.path for down in case.facts.downs.get(node, [])]
            felt = [down for down in downs if down.overlaps(case.trail.start, copy.due)]
            if fault is None and felt:
                down = max(felt, key=lambda down: down.round)
                late = f"newer messages had arrived first, because {crashed(case.facts, down, case.trail.start)}"
                return from_crash(down, f"{text}: {late}")
            text += "" if fault is None else f": other messages had overtaken it ({fault})"
            return Cause(DUPLICATE, copy.dst, copy.due, text, fault=fault)
    return None


def _forgotten(case: MissingDelivery) -> Cause | None:
    down = case.facts.down(case.node, case.round)
    if down is None or not down.is_restoring(case.round):
        return None
    knew = any(spread.knows(case.node, down.round) for spread in case.spread())
    own = any(subscription.issued_round < down.round for subscription in case.subscriptions)
    if not (knew if case.node != case.subscriber else own):
        return None
    lost = "its subscription" if case.node == case.subscriber else f"the subscription of {case.name(case.subscriber)}"
    what = f"{case.received} and did not deliver it" if case.node == case.subscriber else case.stopped
    back = f"had recovered in round {down.until} from its crash in round {down.round} without {lost}"
    return from_crash(down, f"{what}: {case.name(case.node)} {back}")


def _issued_later(case: MissingDelivery) -> Cause | None:
    first = min((subscription.issued_round for subscription in case.subscriptions), default=None)
    is_own = case.node == case.subscriber != case.publication[0]
    if first is None or first < case.round or (first == case.round and not is_own):  # messages precede calls
        return None
    text = f"{case.received}, before {case.name(case.subscriber)} subscribed in round {first}"
    return Cause(UNDER_WAY, case.node, case.round, text)


def _unknown_subscription(case: MissingDelivery) -> Cause | None:
    ways = case.spread()
    down = case.facts.down(case.node, case.round)
    has_restored = down is not None and down.restored is not None  # the restored routing table may have it
    if case.node == case.subscriber or not ways or has_restored:
        return None
    before = case.trail.first_arrival(case.node)
    if any(spread.reached(before) == case.node for spread in ways):
        return None
    way = ways[0]
    issued = f"the subscription that {case.name(case.subscriber)} issued in round {way.start}"
    unaware = f"{case.stopped}: {case.name(case.node)} did not know {issued}"
    beyond = way.copies_beyond(way.reached(before))
    lost = [copy for copy in beyond if copy.fate in LOST]
    if lost:
        cause = lost_copy(case.facts, lost[-1])
        return replace(cause, text=f"{unaware}, of which {cause.text}")
    later = way.arrivals.get(case.node)
    if later is None:
        dropped = _taken_for_duplicate(case, beyond)
        return None if dropped is None else replace(dropped, text=f"{unaware}, of which {dropped.text}")
    if early := _early_confirmation(case, way):
        confirmed_round, down = early
        text = f"{unaware}, which was confirmed in round {confirmed_round}"
        text += f" because {crashed(case.facts, down, way.start)}, but arrived only in round {later[0].due}"
        return from_crash(down, text)
    return Cause(UNDER_WAY, case.node, case.round, f"{unaware}, which arrived only in round {later[0].due}")


def _distant_subscription(case: MissingDelivery) -> Cause | None:
    """Returns a cause if no matching subscription can reach the last node before the publication, else None."""
    if not _is_spread_unknown(case):
        return None
    latency = case.facts.latency(case.facts.path(case.subscriber, case.node))
    issued = min(subscription.issued_round for subscription in case.subscriptions)
    if issued + latency <= case.round:
        return None
    there = f"{plural(latency, 'round')} to {case.name(case.node)}"
    text = f"the subscription that {case.name(case.subscriber)} issued in round {issued} takes {there}"
    return Cause(UNDER_WAY, case.node, case.round, f"{case.stopped}: {text}")


def _delayed_subscription(case: MissingDelivery) -> Cause | None:
    """Returns a cause if a link fault may have delayed the subscriptions on their way to the last node, else None."""
    if not _is_spread_unknown(case):
        return None
    issued = min(subscription.issued_round for subscription in case.subscriptions)
    links = [*pairwise(case.facts.path(case.subscriber, case.node))]
    for fault in case.facts.link_faults:
        is_then = fault.round <= case.round and issued < or_never(fault.until)
        if fault.kind in ("delay", "reorder") and is_then and any(fault.is_on(*link) for link in links):
            text = f"{case.stopped}: the subscription that"
            text += f" {case.name(case.subscriber)} issued in round {issued} may have been delayed ({fault})"
            return Cause(UNDER_WAY, case.node, case.round, text, fault=fault)
    return None


def _is_spread_unknown(case: MissingDelivery) -> bool:
    """Returns whether the arrivals of the subscriber's matching subscriptions must be estimated from link latencies.

    The protocol then forwards subscriptions on a tree and confirms no calls, and no message names a subscription.
    """
    return case.facts.routes_on_tree and not case.facts.confirms and bool(case.subscriptions) and not case.spread()


def _early_confirmation(case: MissingDelivery, way: Trail) -> tuple[int, Downtime] | None:
    """Returns the round in which a subscription was confirmed too early, and the crash that led to the confirmation.

    If more nodes fail than protocol ``delta`` tolerates, a node confirms a subscription without the answers of the
    nodes behind a failed node. Returns None if the publication was issued before the confirmation, or if no node of
    ``way``, the trail of the subscription, was down before it.
    """
    issued = (one.confirmed_round for one in case.subscriptions if one.issued_round == way.start)
    confirmed_round = min((round_ for round_ in issued if round_ is not None), default=None)
    if confirmed_round is None or confirmed_round > case.trail.start:
        return None
    downs = (down for node in way.path[1:] for down in case.facts.downs.get(node, []))
    first = next((down for down in downs if down.overlaps(way.start, confirmed_round)), None)
    return None if first is None else (confirmed_round, first)


def _next_down(case: MissingDelivery) -> Cause | None:
    for node in case.later_nodes:
        down = case.facts.down(node, case.round)
        if down is not None and down.overlaps(case.round, case.round):
            return from_crash(down, f"{case.stopped}: {crashed(case.facts, down, case.round)}")
    return None


def _own_crash(case: MissingDelivery) -> Cause | None:
    for down in case.facts.downs.get(case.node, []):
        if down.round > case.round:
            return from_crash(down, f"{case.stopped} before its crash: {crashed(case.facts, down)}")
    return None


def _any_loss(case: MissingDelivery) -> Cause | None:
    facts, path = case.facts, set(case.trail.path)
    ids = {subscription.subscription_id for subscription in case.subscriptions}
    served = [*facts.others, *(m for messages in facts.messages.values() for m in messages if _names(m.body, ids))]
    lost = [m for m in served if m.fate == "lost_link" and {m.src, m.dst} <= path and m.sent <= case.round]
    if not lost:
        return None
    last = max(lost, key=lambda message: message.at)
    fault = facts.loss(last)
    text = (
        f"{case.stopped}; the last message lost on the path before that was"
        f" {last.kind}, sent from {case.name(last.src)} to {case.name(last.dst)} in round {last.sent}"
    )
    return Cause(LINK, last.dst, last.due, text + ("" if fault is None else f" ({fault})"), fault=fault)


def _names(value: object, ids: Collection[int]) -> bool:
    """Returns whether the JSON value of a message names one of the subscriptions ``ids``, at any depth."""
    if isinstance(value, Mapping):
        return value.get("subscription_id") in ids or any(_names(inner, ids) for inner in value.values())
    return isinstance(value, list) and any(_names(inner, ids) for inner in value)


def _any_crash(case: MissingDelivery) -> Cause | None:
    downs = [down for other in case.trail.path for down in case.facts.downs.get(other, [])]
    if not downs:
        return None
    before = [down for down in downs if down.round <= case.round]
    down = max(before, key=lambda d: d.round) if before else min(downs, key=lambda d: d.round)
    which = "the last crash on the path before that" if before else "the first crash on the path after that"
    text = f"{case.stopped}; {which}"
    return from_crash(down, f"{text}: {crashed(case.facts, down)}")


def _any_replacement(case: MissingDelivery) -> Cause | None:
    changes = [(at, kind, ends) for ends, of_link in case.facts.changes.items() for at, kind in of_link]
    last = max((at for at, _, _ in changes if at <= case.round), default=None)
    if last is None:
        return None
    changed = sorted({(kind, min(ends), max(ends)) for at, kind, ends in changes if at == last}, reverse=True)
    words = {LINKED: "added", UNLINKED: "removed"}
    links = " and ".join(f"link {case.name(a)} - {case.name(b)} {words[kind]}" for kind, a, b in changed)
    text = f"the last change of links before that was in round {last}: {links}"
    return Cause(LINK, case.node, last, f"{case.stopped}; {text}")


_FINDERS = (
    _lost_call, _lost_copy, _forgotten, _issued_later, _unknown_subscription, _distant_subscription, _next_down,
    _own_crash, _any_loss, _any_crash, _any_replacement, _delayed_subscription,
)  # fmt: skip
"""The functions that find the causes of the module's docstring, in the order of the list."""
