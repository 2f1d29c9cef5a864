"""What two nodes tell each other when they connect: ids that they have, and messages that the other lacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from udfs.ginger.buffer import Event, Runs, in_runs
from udfs.ginger.queue import Id


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
    members: dict[str, set[int]] = field(default_factory=dict)

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
