"""What happened to a publication, as a tree: a step is under the one that it followed from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.why.facts import Down, Message, Publication, RunFacts, Subscription
from pipelines.why.trail import HANDLED, LOST, Trail, make_trail

_Key = int | None
_ISSUED: _Key = None


@dataclass
class Step:
    """Something that happened.

    Attributes:
        event: ``published``; ``copy`` (with ``message_id, kind, from, to, sent_round, due_round, fate, bypassed,
            is_resent, is_guided``); ``delivery`` (``node, hops``); ``crash`` (``node, until, statuses``); ``detection``
            (``node, peer``); ``contact``, a message without a call that a node behind did not get (``from, to, kind,
            due_round, fate``); ``subscription`` (``node, confirmed_round``), with the copies that spread it.
        round: When; a copy's is the round in which it was sent.
        text: In words.
        data: What belongs to the event.
        steps: What followed.
    """

    event: str
    round: int
    text: str
    data: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Returns it for JSON."""
        below = [step.as_dict() for step in self.steps]
        return {"event": self.event, "round": self.round, "text": self.text, **self.data, "steps": below}


def steps(
    trail: Trail, publication: Publication, deliveries: Sequence[tuple[int, int]], named: Collection[tuple[int, int]]
) -> Step:
    """Puts together what happened.

    Args:
        trail: The copies.
        publication: The publication.
        deliveries: Round and hops of each delivery to the subscriber.
        named: Node and round of the crashes that ended it; they are told even if they were long before.
    """
    return _Teller(trail, deliveries, named).tell(publication)


def subscribing(
    facts: RunFacts, subscription: Subscription, subscriber: int, source: int, served: Sequence[Message]
) -> Step:
    """Returns how a subscription came from its subscriber to a publisher.

    Args:
        facts: The run.
        subscription: The subscription.
        subscriber: Its node.
        source: The publisher.
        served: The messages that spread it; none where the protocol sends none.
    """
    issued = subscription.issued_round
    path = facts.path(subscriber, source)
    trail = make_trail(facts, served, path, issued) if served else Trail(facts, tuple(path), issued, ())
    told = steps(trail, Publication(subscriber, 0, issued, None, None, None), (), ())
    name, confirmed = facts.names[subscriber], subscription.confirmed_round
    text = f"{name} subscribes to {subscription.predicate} in round {issued}"
    return Step("subscription", issued, text, {"node": name, "confirmed_round": confirmed}, told.steps)


class _Teller:
    """Hangs steps under the copy that they followed from, by message id; `_ISSUED`: under the publication."""

    def __init__(self, trail: Trail, deliveries: Sequence[tuple[int, int]], named: Collection[tuple[int, int]]) -> None:
        self._trail = trail
        self._facts = trail.facts
        self._names = trail.facts.names
        self._deliveries = deliveries
        self._below: dict[_Key, list[Step]] = defaultdict(list)
        self._told = self._crashes_to_tell(named)

    def tell(self, publication: Publication) -> Step:
        topic = f" on topic {publication.topic}" if publication.topic else ""
        name = self._names[publication.source]
        for copy in self._trail.copies:
            parent = self._trail.parent(copy)
            step = self._copy(copy)
            self._below[_ISSUED if parent is None else parent.message_id].append(step)
            step.steps = self._below[copy.message_id]
        for down in self._told.values():
            self._below[self._had(down.node, down.round)].append(self._crash(down))
        for round_, hops in self._deliveries:
            self._below[self._had(self._trail.path[-1], round_ + 1)].append(self._delivery(round_, hops))
        top = self._below[_ISSUED]
        text = f"{name} publishes{topic} in round {publication.round}"
        for below in self._below.values():
            below.sort(key=lambda step: step.round)
        return Step("published", publication.round, text, {"node": name}, top)

    def _had(self, node: int, before: int) -> _Key:
        """Returns the last copy that a node took before a round."""
        taken = [copy for copy in self._trail.arrivals.get(node, []) if copy.due < before]
        return taken[-1].message_id if taken else _ISSUED

    def _crashes_to_tell(self, named: Collection[tuple[int, int]]) -> dict[tuple[int, int], Down]:
        """The crashes on the way that were felt while it was under way, and those that ended it."""
        last = max([copy.due for copy in self._trail.copies], default=self._trail.start)
        first = self._trail.start
        near = dict.fromkeys([*self._trail.path, *(copy.dst for copy in self._trail.copies)])
        return {
            (down.node, down.round): down
            for node in near
            for down in self._facts.downs.get(node, [])
            if down.is_felt(first, last) or (down.node, down.round) in named
        }

    def _copy(self, copy: Message) -> Step:
        src, dst = self._names[copy.src], self._names[copy.dst]
        marks = self._trail.marks(copy)
        bypassed = [self._names[node] for node in marks.skipped]
        notes = [
            *(["again"] if marks.is_resent else []),
            *([f"by {copy.kind}"] if marks.is_unicast else []),
            *([f"after waiting since round {marks.waited_since}"] if marks.waited_since is not None else []),
            *([f"around {' and '.join(bypassed)}"] if bypassed else []),
            *(["Guided"] if marks.is_guided else []),
        ]
        said = f" ({', '.join(notes)})" if notes else ""
        data = {
            "message_id": copy.message_id, "kind": copy.kind, "from": src, "to": dst, "sent_round": copy.sent,
            "due_round": copy.due, "fate": copy.fate, "bypassed": bypassed, "is_resent": marks.is_resent,
            "is_guided": marks.is_guided,
        }  # fmt: skip
        self._below[copy.message_id] += self._after_loss(copy) if copy.fate in LOST else []
        return Step("copy", copy.sent, f"{src} sends it to {dst}{said} in round {copy.sent}: {self._fate(copy)}", data)

    def _fate(self, copy: Message) -> str:
        dst = self._names[copy.dst]
        if copy.fate == "delivered":
            return f"taken in round {copy.due}"
        if copy.fate == "duplicate":
            first = self._trail.arrivals.get(copy.dst)
            known = f", which had it since round {first[0].due}" if first and first[0].due <= copy.due else ""
            return f"dropped as a duplicate in round {copy.due} by {dst}{known}"
        if copy.fate == "in_flight":
            return f"under way to the end, due in round {copy.due}"
        down = self._facts.down(copy.dst, copy.due)
        if copy.fate == "lost_link" or down is None:
            fault = self._facts.loss(copy) if copy.fate == "lost_link" else None
            return f"lost on the link{'' if fault is None else f' ({fault})'}, due in round {copy.due}"
        if down.covers(copy.due):
            return f"lost in round {copy.due}, {dst} is down"
        return f"lost in round {copy.due}, {dst} is back from its crash in round {down.round} and cannot use it"

    def _after_loss(self, copy: Message) -> list[Step]:
        """The crash behind a lost copy, where it is not told yet, and the report of the sender's failure detector."""
        down = self._facts.down(copy.dst, copy.due)
        if down is None or self._told.pop((down.node, down.round), None) is None:
            return []
        reports = self._facts.reports(copy.src, copy.dst)
        heard = [report for report in reports if report.sent >= down.round and report.fate == HANDLED][:1]
        return [self._crash(down), *map(self._detection, heard), *(self._contacts(copy, heard[0].due) if heard else [])]

    def _detection(self, report: Message) -> Step:
        node, peer = self._names[report.src], self._names[report.body["peer"]]
        text = f"{node} learns in round {report.due} that {peer} failed"
        return Step("detection", report.due, text, {"node": node, "peer": peer})

    def _contacts(self, copy: Message, since: int) -> list[Step]:
        """What the sender sent to nodes behind, once each, since it knew of the failure, and they did not get."""
        path = self._trail.path
        behind = path[path.index(copy.dst) + 1 :] if copy.dst in path else ()
        lost: dict[int, Message] = {}
        for message in self._facts.others:
            if message.src == copy.src and message.dst in behind and message.fate in LOST and message.sent >= since:
                lost.setdefault(message.dst, message)
        return [self._contact(message) for message in lost.values()]

    def _contact(self, message: Message) -> Step:
        src, dst = self._names[message.src], self._names[message.dst]
        text = f"{src} turns to {dst} ({message.kind}) in round {message.sent}: {self._fate(message)}"
        data = {"from": src, "to": dst, "kind": message.kind, "due_round": message.due, "fate": message.fate}
        return Step("contact", message.sent, text, data)

    def _crash(self, down: Down) -> Step:
        name = self._names[down.node]
        back = "for good" if down.until is None else f"back in round {down.until}"
        said = [f"{status} in round {round_}" for round_, status in down.statuses]
        text = f"{name} crashes in round {down.round}, {', '.join([back, *said])}"
        statuses = [{"round": round_, "status": status} for round_, status in down.statuses]
        return Step("crash", down.round, text, {"node": name, "until": down.until, "statuses": statuses})

    def _delivery(self, round_: int, hops: int) -> Step:
        name = self._names[self._trail.path[-1]]
        return Step("delivery", round_, f"{name} delivers it in round {round_}", {"node": name, "hops": hops})
