"""The replay of one topic: its disturbances, its convergence after each disturbance, and violations of guarantees.

A run has many messages, but only the checks of a few rounds read messages. So the replay keeps messages as Arrow
columns, and decodes only the messages that a check reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from udfs.nodes.world import Flight
from udfs.skipring.definition import broken, diameter, nth, undirected
from udfs.skipring.history import ConfigurationChange
from udfs.skipring.legitimate import Convergence, Snapshot

MESSAGE = pa.struct([
    ("message_id", pa.int64()), ("kind", pa.string()), ("src", pa.int64()), ("dst", pa.int64()),
    ("sent_round", pa.int64()), ("due_round", pa.int64()), ("topic", pa.string()), ("body", pa.string()),
])  # fmt: skip
"""The fields of a message in the history. Field ``body`` is JSON."""


def flights_at(rows: pa.StructArray, round_: int) -> list[Flight]:
    """Returns those messages in `rows` that are in flight at the end of round `round_`, ascending by id.

    Argument `rows` has the fields of `MESSAGE`, and ascends by id.
    """
    is_in_flight = pc.and_(pc.less_equal(rows.field("sent_round"), round_), pc.greater(rows.field("due_round"), round_))
    names = ("message_id", "kind", "src", "dst", "sent_round", "due_round")
    return [
        Flight(**{name: row[name] for name in names}, fate=None, message=json.loads(row["body"]))
        for row in rows.filter(is_in_flight).to_pylist()
    ]


def flights_of(rows: pa.StructArray, down: Mapping[int, int]) -> Iterator[tuple[str, pa.StructArray]]:
    """Yields each topic with its messages, except those that were due at a node after its crash.

    Args:
        rows: The messages of a run, ascending by id, with the fields of `MESSAGE`.
        down: The round of the crash of each crashed node.
    """
    for node, round_ in down.items():
        is_met = pc.and_(pc.equal(rows.field("dst"), node), pc.greater_equal(rows.field("due_round"), round_))
        rows = rows.filter(pc.invert(is_met))
    topic = rows.field("topic")
    for name in sorted(topic.unique().to_pylist()):
        yield name, rows.filter(pc.equal(topic, name))


START, CRASH = "start", "crash"
LARGE = 500
"""The number of subscribers above which `Measured.diameter` is omitted in rounds with wrong labels.

Long lists, which occur in these rounds, make the computation slow.
"""
PATIENCE = (4, 32)
"""Slope and offset of the time limit for convergence, which `TopicReplay.is_overdue` applies.

With the default ``silence_intervals``, the limit is 4 n + 40 intervals for n subscribers. It is more than four times
the slowest convergence from 10,010 arbitrary initial states with 2 to 40 subscribers.
"""
Row = Mapping[str, Any]


@dataclass
class Broken:
    """A violation of a guarantee.

    Attributes:
        guarantee: Name of the audit that reports the violation.
        round: Round of the violation. None stands for the last round of the run.
        node: Id of the node that violates the guarantee.
        detail: A description of the violation.
    """

    guarantee: str
    round: int | None
    node: int
    detail: str


@dataclass
class Disturbance:
    """A disturbance of a topic, and the convergence of the topic after it.

    Attributes:
        round: Round of the disturbance.
        cause: ``start``, ``subscribe``, ``unsubscribe`` or ``crash``.
        node: The node that joined, left or crashed. None for cause ``start``, the start of the run.
        n_subscribers: Subscribers that are up.
        n_configurations: Changes of explicit state between this disturbance and the next one, at all nodes except
            `node`.
        seen: The convergence of the topic after the disturbance.
        changed_round: The first round after `seen.clean_round` in which explicit state changed. None if it did not
            change.
    """

    round: int
    cause: str
    node: int | None
    n_subscribers: int = 0
    n_configurations: int = 0
    seen: Convergence = field(default_factory=Convergence)
    changed_round: int | None = None


@dataclass(frozen=True)
class Measured:
    """The distance of a topic from the skip ring in a round.

    Attributes:
        round: A round in which explicit state changed.
        n_subscribers: Subscribers that are up.
        n_recorded: Subscribers that the database contains.
        n_wrong_labels: Subscribers that have no label, or a label that differs from the database.
        max_degree: The largest number of neighbours of a subscriber.
        n_edges: Undirected edges between subscribers.
        diameter: Length of the longest shortest path between two subscribers. None if the graph is not connected, or if
            it has wrong labels and more than `LARGE` subscribers.
    """

    round: int
    n_subscribers: int
    n_recorded: int
    n_wrong_labels: int
    max_degree: int
    n_edges: int
    diameter: int | None


class TopicReplay:
    """A replay of one topic, round by round."""

    def __init__(
        self, topic: str, crashed: set[int], supervisor: int | None, *, is_measured: bool, is_weighed: bool
    ) -> None:  # fmt: skip
        """Starts the replay with a topic that has no state.

        Args:
            topic: Name of the topic.
            crashed: Ids of subscribers whose crash has been reported. The caller adds to this set during the replay.
            supervisor: Id of the topic's supervisor.
            is_measured: Whether to compute in each round how far the topic is from the skip ring (`Measured`).
            is_weighed: Whether to compute the potential of the topic in each round; `stall` needs these values.
        """
        self.topic = topic
        self.kept: dict[int, ConfigurationChange | None] = {}
        self.databases: dict[int, dict[str, int | None]] = {}
        self.flights: pa.StructArray | None = None
        self.disturbances = [Disturbance(0, START, None)]
        self.measured: list[Measured] = []
        self.broken: list[Broken] = []
        self._crashed = crashed
        self._supervisor = supervisor
        self._is_measured = is_measured
        self._is_weighed = is_weighed
        self._weights: list[tuple[int, int, int]] = []
        self._is_changed = True

    @property
    def entries(self) -> dict[str, int | None]:
        """The database of the topic's supervisor: the subscriber of each label."""
        return {} if self._supervisor is None else self.databases.setdefault(self._supervisor, {})

    @property
    def members(self) -> set[int]:
        """Ids of the subscribers that are up."""
        return {node for node, own in self.kept.items() if own is not None and own.wants}

    def crash(self, round_: int, node: int) -> None:
        """Removes the state of crashed node `node`. If the node had any state, the crash is a disturbance."""
        own = self.kept.pop(node, None)
        if self.databases.pop(node, None):
            self._is_changed = True
        if own is not None and (own.wants or own.label is not None or own.neighbours or own.slots):
            self._disturb(round_, CRASH, node)

    def configure(self, round_: int, node: int, own: ConfigurationChange) -> None:
        """Sets the ring state of `node` to `own`. A change of ``wants`` is a disturbance."""
        before = self.kept.get(node)
        self.kept[node] = own
        if (before is not None and before.wants) != own.wants and round_ >= 0:
            self._disturb(round_, "subscribe" if own.wants else "unsubscribe", node)
        self._change(round_, node, "its label, edges or slots")

    def record(self, round_: int, node: int, row: Row) -> None:
        """Applies `row`, a row of table ``state_database_change``, to the database of `node`."""
        entries = self.databases.setdefault(node, {})
        if row["is_tuple"]:
            entries[row["label"]] = row["subscriber"]
        else:
            entries.pop(row["label"], None)
        self._change(round_, node, f"its tuple of label {row['label']}")

    def observe(self, round_: int, upcoming: int) -> None:
        """Checks the state of the topic at the end of `round_`, and of each later round before `upcoming`.

        `upcoming` is the round of the next change of the state. Until this round only the messages in flight change.
        """
        last = self.disturbances[-1]
        strays = [node for node, entries in self.databases.items() if entries and node != self._supervisor]
        snapshot = Snapshot(self.topic, self.kept, self.entries, self._crashed, strays)
        if self._is_changed:
            if self._is_weighed:
                self._weights.append((round_, snapshot.potential(), self._state()))
            last.n_subscribers = len(self.members)
            if self._is_measured:
                self.measured.append(self._measure(round_))
            last.seen.observe(round_, snapshot, self._in_flight(round_))
            round_ += 1
        for later in range(round_, upcoming):
            if not last.seen.is_open:
                break
            last.seen.observe(later, snapshot, self._in_flight(later))
        self._is_changed = False

    def _in_flight(self, round_: int) -> Iterator[Flight]:
        """Yields the messages in flight at the end of a round.

        As a generator, the method decodes messages only for a caller that reads them. A caller reads none if the
        explicit state is not legitimate.
        """
        if self.flights is not None:
            yield from flights_at(self.flights, round_)

    def end(self) -> None:
        """Adds violations of audits ``labels`` and ``degrees`` to `broken`, if the topic has become legitimate.

        A violation is a difference between SR(n) and the labels or edges of the last round.
        """
        if self.disturbances[-1].seen.clean_round is None:
            return
        members = self.members
        self.broken += [Broken("labels", None, *found) for found in self._wrong_labels(members)]
        self.broken += [Broken("degrees", None, *found) for found in broken(self._edges(members))]

    def is_overdue(self, run: Row) -> bool:
        """Returns whether the topic is not legitimate although the time limit for convergence has passed.

        The limit starts at the topic's last disturbance, or at the last effect of a link fault or a pause if that is
        later. It is the sum of ``detection_rounds`` and the intervals of `PATIENCE` and ``silence_intervals`` (rule
        K6).

        Args:
            run: The columns that `find_stalls` reads.
        """
        last, (slope, least) = self.disturbances[-1], PATIENCE
        is_open = last.seen.clean_round is None and last.seen.problem is not None
        n_intervals = slope * last.n_subscribers + least + run["silence_intervals"]
        since = max(last.round, run["fault_round"])
        limit = n_intervals * run["interval_rounds"] + run["detection_rounds"]
        return is_open and run["last_round"] - since >= limit

    def stall(self, last_round: int, fault_round: int) -> Broken | None:
        """Returns a violation if the overdue topic makes no progress, else None.

        The time since the last disturbance or fault has two halves. The topic makes progress if its lowest potential
        (`Snapshot.potential`) is lower in the second half than in the first half.

        Args:
            last_round: The last round of the run.
            fault_round: The last round with an effect of a link fault or a pause.
        """
        last = self.disturbances[-1]
        start = max(last.round, fault_round)
        middle = (start + last_round) // 2
        since = [one for one in self._weights if one[0] >= start] or self._weights[-1:]
        early = [one for one in since if one[0] < middle] or since[:1]
        late = [early[-1], *(one for one in since if one[0] >= middle)]
        least, round_ = min((potential, round_) for round_, potential, _ in early)
        if min(potential for _, potential, _ in late) < least:
            return None
        first_rounds = {state: at for at, _, state in reversed(since)}
        again = next((one for one in reversed(late) if first_rounds[one[2]] < one[0]), None)
        how = f"its potential has been at least {least} since round {round_}"
        if again is not None:
            how = f"its state of round {again[0]} is that of round {first_rounds[again[2]]} again"
        detail = f"topic {self.topic} is not legitimate {last_round - start} rounds after its last disturbance or fault"
        return Broken("convergence", None, self._supervisor or 0, f"{detail}: {last.seen.problem}; {how}")

    def _state(self) -> int:
        kept = ((node, own.wants, own.label, own.on_ring, own.slots) for node, own in sorted(self.kept.items()) if own)
        databases = ((node, *sorted(entries.items())) for node, entries in sorted(self.databases.items()) if entries)
        return hash((*kept, *databases))

    def _wrong_labels(self, members: set[int]) -> Iterator[tuple[int, str]]:
        wanted = {nth(index) for index in range(len(members))}
        seen: dict[str, int] = {}
        for node in sorted(members):
            own = self.kept[node]
            label = None if own is None else own.label
            if label is None or label not in wanted:
                yield node, f"it has label {label} of topic {self.topic}, and there are {len(members)} subscribers"
            elif label in seen:
                yield node, f"it has label {label} of topic {self.topic}, as node {seen[label]} has"
            else:
                seen[label] = node

    def _edges(self, members: set[int]) -> dict[int, set[int]]:
        return {node: self._references(node) & members - {node} for node in sorted(members)}

    def _references(self, node: int) -> set[int]:
        own = self.kept.get(node)
        return set() if own is None else own.neighbours

    def _disturb(self, round_: int, cause: str, node: int) -> None:
        self._is_changed = True
        self.disturbances.append(Disturbance(round_, cause, node, len(self.members)))

    def _change(self, round_: int, node: int, what: str) -> None:
        """Records that `what`, a part of explicit state, changed. A change after `clean_round` violates closure."""
        self._is_changed = True
        last = self.disturbances[-1]
        last.n_configurations += round_ >= 0 and node != last.node and node in self.kept
        clean = last.seen.clean_round
        if clean is None:
            return
        if last.changed_round is None:
            last.changed_round = round_
        detail = f"{what} of topic {self.topic} changed, which was legitimate since round {clean}"
        self.broken.append(Broken("closure", round_, node, detail))
        gone = self._references(node) - self.members
        if node not in self.kept:
            gone = {one for one in self.entries.values() if one is not None} - self.members
        for one in sorted(gone):
            detail = f"it refers to node {one} in topic {self.topic}, which has left it or is down"
            self.broken.append(Broken("departed", round_, node, detail))

    def _measure(self, round_: int) -> Measured:
        members = self.members
        label = {node: label for label, node in self.entries.items()}
        wrong = sum(own is None or own.label is None or label.get(node) != own.label
                    for node, own in self.kept.items() if node in members)  # fmt: skip
        most = max((len(self._references(node)) for node in members), default=0)
        edges = undirected(self._edges(members))
        n_edges = sum(map(len, edges.values())) // 2
        far = None if wrong and len(members) > LARGE else diameter(edges)
        return Measured(round_, len(members), len(members & label.keys()), wrong, most, n_edges, far)
