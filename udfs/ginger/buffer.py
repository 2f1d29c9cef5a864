"""metadataBuffer (section 4.3.2): the newest events of a topic, and the message ids of discarded events.

An event is the passage of a message through a node (``passed``), or its processing in total order (``processed``). When
two nodes connect, each sends the other one a `MissingSets` with the ids of the messages that the sender has received.
Except in ParentBuffer, it also contains the events that the receiver lacks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Id(NamedTuple):
    """The identity of a message within its run: its publisher, and its number among the publisher's calls."""

    source: int
    source_seq: int


class Message(NamedTuple):
    """A published message."""

    topic: str
    source: int  # the client that published it
    source_seq: int  # its number among the client's calls
    guarantee: str  # eventual, causal or total; empty if only the topic and the id are known
    keys: tuple[str, ...]  # the key items, sorted
    issued_round: int  # the round in which the client issued it

    @property
    def id(self) -> Id:
        """The id of the message within its run."""
        return Id(self.source, self.source_seq)

    @property
    def has_body(self) -> bool:
        """Whether the guarantee, key items and round are known, not only the topic and the id."""
        return self.guarantee != ""

    @property
    def is_total(self) -> bool:
        """Whether the message is delivered in total order."""
        return self.guarantee == "total"


def next_admitted(queue: Sequence[Message], locked: Collection[str]) -> int | None:
    """Returns the index of the first message in `queue` that may enter the tree; None if all must wait (rule G1).

    The messages of `queue` wait at a broker in the order of arrival. A message waits while an earlier one shares a key
    item with it. An eventual or causal message also waits while one of its key items is in `locked`.
    """
    blocked: set[str] = set()
    for position, message in enumerate(queue):
        is_free = message.is_total or not any(key in locked for key in message.keys)
        if is_free and blocked.isdisjoint(message.keys):
            return position
        blocked.update(message.keys)
    return None


Runs = dict[int, list[list[int]]]
"""A set of message ids: for each source, intervals of consecutive numbers as [first, last], ascending."""


class Event(NamedTuple):
    """An entry of a buffer: a message that passed a node, or that the node processed.

    `what` is ``passed`` or ``processed``. `hops` counts the links that `message` has traversed.
    """

    what: str
    message: Message
    hops: int


class Departed(NamedTuple):
    """An event that has left a buffer. Only the id of its message and the number of traversed links remain."""

    event: str
    source: int
    source_seq: int
    hops: int


def in_runs(runs: Mapping[int, list[list[int]]], of: Id) -> bool:
    """Returns whether message id `of` lies in one of the intervals `runs`."""
    own = runs.get(of[0])
    if not own:
        return False
    position = bisect_right(own, of[1], key=lambda run: run[0]) - 1
    return position >= 0 and of[1] <= own[position][1]


def joined(runs: Runs, others: Iterable[tuple[int, list[list[int]]]]) -> Runs:
    """Returns the union of `runs` and `others`, whose intervals may overlap."""
    found: Runs = {source: [list(run) for run in own] for source, own in runs.items()}
    for source, own in others:
        merged: list[list[int]] = []
        for first, last in sorted([*found.get(source, []), *own]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        found[source] = merged
    return found


def runs_of(ids: Collection[Id]) -> Runs:
    """Returns message ids as intervals of consecutive numbers."""
    return joined({}, ((source, [[seq, seq]]) for source, seq in sorted(ids)))


@dataclass
class MissingSets:
    """The content of ParentBuffer, LostMessageRequest, LostMessages and TopicJoined.

    Attributes:
        events: Events that the receiver lacks, in the order of the sender's buffers. An event that has left its buffer
            has a message without body. A ParentBuffer contains no events.
        passed: The ids of messages that passed the sender, by topic.
        processed: The ids of messages that the sender processed in total order, by topic.
        failed: For each broker that has failed at least once, the latest incarnation that has failed, as far as the
            sender knows.
        collected: The ids of messages that all members have received, by topic.
        members: The members of each topic. Only a ParentBuffer for a joining broker contains them.
        clients: The clients in `members`, by topic.
    """

    events: list[Event] = field(default_factory=list)
    passed: dict[str, set[Id]] = field(default_factory=dict)
    processed: dict[str, set[Id]] = field(default_factory=dict)
    failed: dict[int, int] = field(default_factory=dict)
    collected: dict[str, Runs] = field(default_factory=dict)
    members: dict[str, set[int]] = field(default_factory=dict)
    clients: dict[str, set[int]] = field(default_factory=dict)

    def has(self, event: Event) -> bool:
        """Returns whether `event` happened at the node that sent these sets."""
        known = self.passed if event.what == "passed" else self.processed
        topic, of = event.message.topic, event.message.id
        return of in known.get(topic, ()) or in_runs(self.collected.get(topic, {}), of)
