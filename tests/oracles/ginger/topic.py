"""A broker's state of one topic, and the pass over its entry queue."""

from __future__ import annotations

from dataclasses import dataclass, field

from oracles.ginger.messages import Event, Id, Publication


@dataclass
class Pending:
    """A total-order message whose keys are closed and that is not processed; ``sent`` is the coverage sent upwards."""

    m: Publication
    is_from_below: bool
    covered: set[int]
    acked: set[int] = field(default_factory=set)
    sent: frozenset[int] | None = None


@dataclass
class Topic:
    """The state of a topic at a broker: ``brokers`` are neighbours in the sub-tree, ``clients`` are synced clients."""

    brokers: set[int] = field(default_factory=set)
    clients: set[int] = field(default_factory=set)
    entry: list[tuple[int, Publication]] = field(default_factory=list)
    pending: dict[Id, Pending] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)
    seen: set[Id] = field(default_factory=set)
    processed: set[Id] = field(default_factory=set)

    def closed(self) -> set[str]:
        return {key for waiting in self.pending.values() for key in waiting.m.keys}

    def next_entry(self) -> tuple[int, Publication] | None:
        """Removes and returns the first message that may enter; the keys of an earlier message block later ones."""
        closed, blocked = self.closed(), set[str]()
        for place, (client, m) in enumerate(self.entry):
            if m.keys.isdisjoint(blocked) and (m.is_total or m.keys.isdisjoint(closed)):
                del self.entry[place]
                return client, m
            blocked |= m.keys
        return None
