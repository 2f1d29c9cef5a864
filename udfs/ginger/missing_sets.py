"""What two nodes tell each other when they connect: ids that they have, and messages that the other lacks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from udfs.ginger.buffer import Event, Id, Runs, in_runs
from udfs.ginger.queue import Message


@dataclass
class MissingSets:
    """ParentBuffer (ids only), LostMessageRequest and its answer.

    Attributes:
        events: Messages that the receiver lacks, in the order of the sender's buffers; those that have left them are
            without a body.
        passed: By topic the ids that passed at the sender.
        processed: By topic the ids that were processed there.
        failed: Brokers that the sender knows to have failed.
        back: Those of them that are up again.
        collected: By topic the messages that everybody has had.
        members: ParentBuffer for a broker that joins: who has to lock the key items of a topic.
    """

    events: list[Event] = field(default_factory=list)
    passed: dict[str, set[Id]] = field(default_factory=dict)
    processed: dict[str, set[Id]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    back: set[int] = field(default_factory=set)
    collected: dict[str, Runs] = field(default_factory=dict)
    members: dict[str, list[int]] = field(default_factory=dict)

    def name(self, topic: str) -> None:
        """Says that it is about a topic, known messages or none."""
        self.passed.setdefault(topic, set())
        self.processed.setdefault(topic, set())

    def note(self, event: Event) -> None:
        """Adds the id of an event that the sender has had."""
        self.name(event.message.topic)
        self.passed[event.message.topic].add(event.message.id)
        if event.what == "processed":
            self.processed[event.message.topic].add(event.message.id)

    def has(self, event: Event) -> bool:
        """Returns whether the sender has had an event."""
        known = self.passed if event.what == "passed" else self.processed
        topic, of = event.message.topic, event.message.id
        return of in known.get(topic, ()) or in_runs(self.collected.get(topic, {}), of)

    def text(self) -> str:
        """Returns it as JSON."""
        return json.dumps({
            "events": [[what, *message[:4], list(message.keys), message.issued_round, hops]
                       for what, message, hops in self.events],
            "passed": _listed(self.passed), "processed": _listed(self.processed), "failed": sorted(self.failed),
            **({"back": sorted(self.back)} if self.back else {}),
            **({"collected": self.collected} if self.collected else {}),
            **({"members": self.members} if self.members else {}),
        })  # fmt: skip


def _listed(ids: dict[str, set[Id]]) -> dict[str, list[Id]]:
    return {topic: sorted(of_topic) for topic, of_topic in sorted(ids.items())}


def _sets(ids: dict[str, list[Iterable[int]]]) -> dict[str, set[Id]]:
    return {topic: {(source, seq) for source, seq in of_topic} for topic, of_topic in ids.items()}


def read_missing_sets(text: str | None) -> MissingSets:
    """Reads what `MissingSets.text` returns."""
    given = json.loads(text or "{}")
    events = [
        Event(what, Message(topic, source, seq, guarantee, tuple(keys), issued), hops)
        for what, topic, source, seq, guarantee, keys, issued, hops in given["events"]
    ]
    passed, processed = _sets(given["passed"]), _sets(given["processed"])
    others = set(given.get("back", ())), given.get("collected", {}), given.get("members", {})
    return MissingSets(events, passed, processed, set(given["failed"]), *others)
