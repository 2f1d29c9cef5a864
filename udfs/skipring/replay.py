"""The history of a run played again: when its topics became legitimate, and whether they stayed so (rules K9, K18).

A *disturbance* of a topic is its start, a subscriber that comes or goes, or one that crashes. After each of them the
topic converges anew, and the closure holds until the next one. In a round there are, in this order:

1. nodes that crash;
2. changes of what nodes want;
3. other changes of explicit state, and of databases;
4. messages that come or go; whether the state is legitimate is asked at the end, as long as that may change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

import pyarrow as pa

from udfs.batches import as_batch
from udfs.nodes.network import Flight
from udfs.skipring.flights import Flights, flights_of
from udfs.skipring.graph import broken, diameter, undirected
from udfs.skipring.history import label_from, subscription_from
from udfs.skipring.labels import Label, label_of
from udfs.skipring.legitimate import Convergence, Snapshot
from udfs.skipring.state import Subscription

START, CRASH = "start", "crash"
LARGE = 500
"""Subscribers of a topic from which on a diameter takes too long as long as the ring is a mere list."""
Row = Mapping[str, Any]


@dataclass
class Broken:
    """What is not as the protocol promises.

    Attributes:
        guarantee: The audit that reports it.
        round: The round; None: the last one.
        node: The node.
        detail: What is wrong, in words.
    """

    guarantee: str
    round: int | None
    node: int
    detail: str


@dataclass
class Disturbance:
    """A disturbance of a topic, and what became of it.

    Attributes:
        round: The round.
        cause: ``start``, ``subscribe``, ``unsubscribe`` or ``crash``.
        node: Who came, went or crashed; None: the start.
        n_subscribers: Subscribers that are up after it.
        n_configurations: Changes of explicit state of other nodes from it on, until the next disturbance.
        seen: How the topic converged.
        changed_round: The first round after the topic was clean in which an explicit edge changed.
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
    """How far a topic is in a round.

    Attributes:
        round: A round in which something changed.
        n_subscribers: Subscribers that are up.
        n_recorded: Those of them that the database has.
        n_wrong_labels: Those whose label is none, or not the one in the database.
        max_degree: The most neighbours that one of them has.
        n_edges: Edges between them, without directions.
        diameter: The most hops between two of them; None: some do not reach each other, or there are more than `LARGE`
            of them and some labels are wrong.
    """

    round: int
    n_subscribers: int
    n_recorded: int
    n_wrong_labels: int
    max_degree: int
    n_edges: int
    diameter: int | None


class TopicReplay:
    """A topic while its history is played."""

    def __init__(self, topic: str, crashed: set[int], *, is_measured: bool) -> None:
        """Starts with nothing.

        Args:
            topic: The topic.
            crashed: The subscribers whose crash has been reported; the caller adds to it.
            is_measured: Whether each round is measured, which takes long in large topics.
        """
        self.topic = topic
        self.kept: dict[int, Subscription | None] = {}
        self.entries: dict[Label, int | None] = {}
        self.flights: Flights | None = None
        self.disturbances = [Disturbance(0, START, None)]
        self.measured: list[Measured] = []
        self.broken: list[Broken] = []
        self._crashed = crashed
        self._is_measured = is_measured
        self._is_changed = True

    @property
    def members(self) -> set[int]:
        """The subscribers that are up."""
        return {node for node, own in self.kept.items() if own is not None and own.wants}

    def crash(self, round_: int, node: int) -> None:
        """Takes a node out."""
        own = self.kept.pop(node, None)
        if own is not None and own != Subscription(self.topic):
            self._disturb(round_, CRASH, node)

    def configure(self, round_: int, node: int, own: Subscription) -> None:
        """Changes what a node holds."""
        before = self.kept.get(node) or Subscription(self.topic)
        self.kept[node] = own
        if before.wants != own.wants and round_ >= 0:
            self._disturb(round_, "subscribe" if own.wants else "unsubscribe", node)
        self._change(round_, node, "what it holds of the ring")

    def record(self, round_: int, supervisor: int, label: Label, row: Row) -> None:
        """Changes a tuple of the database."""
        if row["is_tuple"]:
            self.entries[label] = row["subscriber"]
        else:
            self.entries.pop(label, None)
        self._change(round_, supervisor, f"its tuple of label {label}")

    def observe(self, round_: int, upcoming: int) -> None:
        """Looks at the end of a round, and of those up to the next in which anything but messages may change."""
        last = self.disturbances[-1]
        snapshot = Snapshot(self.topic, self.kept, self.entries, self._crashed)
        if self._is_changed:
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
        """Yields the messages in flight at the end of a round; they are read when somebody asks."""
        if self.flights is not None:
            yield from self.flights.at(round_)

    def end(self) -> None:
        """Looks at the last state: it is that of a skip ring, if the topic has been clean."""
        if self.disturbances[-1].seen.clean_round is None:
            return
        members = self.members
        self.broken += [Broken("labels", None, *found) for found in self._wrong_labels(members)]
        self.broken += [Broken("degrees", None, *found) for found in broken(self._edges(members))]

    def _wrong_labels(self, members: set[int]) -> Iterator[tuple[int, str]]:
        wanted = {label_of(index) for index in range(len(members))}
        seen: dict[Label, int] = {}
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
        return set() if own is None else {*own.neighbours()}

    def _disturb(self, round_: int, cause: str, node: int) -> None:
        self._is_changed = True
        self.disturbances.append(Disturbance(round_, cause, node, len(self.members)))

    def _change(self, round_: int, node: int, what: str) -> None:
        """Notes a change of explicit state; once the topic is clean, there is to be none."""
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


class RunReplay:
    """A run while its history is played."""

    def __init__(self, run: Row, messages: pa.StructArray | None, *, is_measured: bool = False) -> None:
        """Takes the history.

        Args:
            run: ``run_id, last_round``, and lists of structs, ascending: ``crashes`` (round, node_id),
                ``configurations`` and ``databases`` (columns of the tables, the round first), ``reports`` (round,
                peer).
            messages: Those of `flights.KINDS`, ascending, without those that links lost; fields of `flights.MESSAGE`.
            is_measured: Whether topics are measured in each round.
        """
        self._is_measured = is_measured
        self._topics: dict[str, TopicReplay] = {}
        self._crashed: set[int] = set()
        self._down = {row["node_id"]: row["round"] for row in run["crashes"] or ()}
        self._agenda: dict[int, list[tuple[int, Callable[[], None]]]] = defaultdict(list)
        self._plan(run, messages)
        self._last = run["last_round"]

    def play(self) -> dict[str, TopicReplay]:
        """Plays all rounds, and returns the topics."""
        planned = sorted(round_ for round_ in {*self._agenda, 0, self._last} if round_ <= self._last)
        for round_, upcoming in zip(planned, [*planned[1:], self._last + 1], strict=True):
            for _, act in sorted(self._agenda.get(round_, ()), key=lambda item: item[0]):
                act()
            for topic in self._topics.values() if round_ >= 0 else ():
                topic.observe(round_, upcoming)
        for topic in self._topics.values():
            topic.end()
        return self._topics

    def _plan(self, run: Row, messages: pa.StructArray | None) -> None:
        wants: dict[tuple[str, int], bool] = {}
        for row in run["configurations"] or ():
            topic, own = self._topic(row["topic"]), subscription_from(row)
            is_same = wants.get((own.topic, row["node_id"]), False) == own.wants
            wants[own.topic, row["node_id"]] = own.wants
            self._at(row["round"], 3 if is_same else 2, topic.configure, row["round"], row["node_id"], own)
        for row in run["databases"] or ():
            topic, label = self._topic(row["topic"]), label_from(row["label"])
            self._at(row["round"], 3, topic.record, row["round"], row["node_id"], label, row)
        for node, round_ in sorted(self._down.items()):
            for topic in self._topics.values():
                self._at(round_, 1, topic.crash, round_, node)
        for row in run["reports"] or ():
            self._at(row["round"], 1, self._crashed.add, row["peer"])
        if messages is not None:
            for name, flights in flights_of(messages, self._down):
                self._topic(name).flights = flights

    def _topic(self, name: str) -> TopicReplay:
        return self._topics.setdefault(name, TopicReplay(name, self._crashed, is_measured=self._is_measured))

    def _at(self, round_: int, step: int, act: Callable[..., Any], *args: Any) -> None:  # noqa: ANN401
        self._agenda[round_].append((step, lambda: act(*args)))


CONVERGENCE = {
    "run_id": pa.int64(), "topic": pa.string(), "disturbance": pa.int64(), "round": pa.int64(), "cause": pa.string(),
    "node_id": pa.int64(), "n_subscribers": pa.int64(), "n_configurations": pa.int64(), "explicit_round": pa.int64(),
    "clean_round": pa.int64(), "changed_round": pa.int64(), "problem": pa.string(), "is_last": pa.bool_(),
}  # fmt: skip
"""Columns of what `convergence` gives."""
PROGRESS = {
    "run_id": pa.int64(), "topic": pa.string(), "round": pa.int64(), "n_subscribers": pa.int64(),
    "n_recorded": pa.int64(), "n_wrong_labels": pa.int64(), "max_degree": pa.int64(), "n_edges": pa.int64(),
    "diameter": pa.int64(),
}  # fmt: skip
"""Columns of what `progress` gives."""
BROKEN = {
    "run_id": pa.int64(), "guarantee": pa.string(), "round": pa.int64(), "node_id": pa.int64(), "detail": pa.string(),
}  # fmt: skip
"""Columns of what `violations` gives."""


def convergence(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns how topics converged: one row a disturbance, columns `CONVERGENCE`.

    Args:
        batches: One row a run, columns as in `RunReplay`.
    """

    def rows(topic: TopicReplay) -> Iterator[tuple[Any, ...]]:
        for number, one in enumerate(topic.disturbances):
            head = (number, one.round, one.cause, one.node, one.n_subscribers, one.n_configurations)
            seen = (one.seen.explicit_round, one.seen.clean_round, one.changed_round, one.seen.problem)
            yield (topic.topic, *head, *seen, one is topic.disturbances[-1])

    return _each(batches, CONVERGENCE, rows)


def progress(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns how far topics are: one row a round in which explicit state changed, columns `PROGRESS`.

    Args:
        batches: One row a run, columns as in `RunReplay`.
    """

    def rows(topic: TopicReplay) -> Iterator[tuple[Any, ...]]:
        for one in topic.measured:
            yield topic.topic, *astuple(one)

    return _each(batches, PROGRESS, rows, is_measured=True)


def violations(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns what topics have broken once they were clean: columns `BROKEN`.

    Args:
        batches: One row a run, columns as in `RunReplay`.
    """

    def rows(topic: TopicReplay) -> Iterator[tuple[Any, ...]]:
        for one in topic.broken:
            yield one.guarantee, one.round, one.node, one.detail

    return _each(batches, BROKEN, rows)


def _each(
    batches: Iterable[pa.RecordBatch], columns: Mapping[str, pa.DataType],
    rows: Callable[[TopicReplay], Iterator[tuple[Any, ...]]], *, is_measured: bool = False,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    schema = pa.schema(list(columns.items()))
    for batch in batches:
        found: list[tuple[Any, ...]] = []
        for run, messages in zip(batch.drop_columns("messages").to_pylist(), batch.column("messages"), strict=True):
            for _, topic in sorted(RunReplay(run, messages.values, is_measured=is_measured).play().items()):
                found += [(run["run_id"], *row) for row in rows(topic)]
        yield as_batch(found, schema)
