"""Replays the history of a topic to judge its convergence and closure (rules K9, K18).

A *disturbance* of a topic is the start of the run, a subscription, an unsubscription, or a crash of a subscriber. After
each disturbance the topic converges to a legitimate state. Then closure must hold until the next disturbance.

The replay of a round applies crashes and crash reports first, then subscriptions and unsubscriptions, then other
changes of explicit state. Then it checks whether the state is legitimate. In a round without changes, the replay
checks only the messages in flight, and only if one of them contradicted a legitimate state in the previous round.

A topic has many messages, but only the checks of a few rounds read messages. So the replay keeps messages as Arrow
columns, and decodes only the messages that a check reads.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from udfs.batches import rows_of_runs
from udfs.nodes.fields import decoder_of
from udfs.nodes.world import Flight
from udfs.skipring.history import ConfigurationChange
from udfs.skipring.legitimate import Convergence, TopicState, broken, diameter, nth, point_of, supervisor_of, undirected

MESSAGE = pa.struct([
    ("message_id", pa.int64()), ("kind", pa.string()), ("src", pa.int64()), ("dst", pa.int64()),
    ("sent_round", pa.int64()), ("due_round", pa.int64()), ("body", pa.string()),
])  # fmt: skip
"""The fields of a message in the history. Field ``body`` is JSON."""


START, CRASH = "start", "crash"
LARGE = 500
"""The number of subscribers above which `progress` omits the diameter in rounds with wrong labels.

Long lists, which occur in these rounds, make the computation slow.
"""
PATIENCE = (4, 32)
"""Slope and offset of the time limit for convergence, which `TopicReplay.stall` applies.

With the default ``silence_intervals``, the limit is 4 n + 40 intervals for n subscribers. It is more than four times
the slowest convergence from 10,010 arbitrary initial states with 2 to 40 subscribers.
"""
Row = Mapping[str, Any]
_configuration = decoder_of(ConfigurationChange)
"""Returns the `ConfigurationChange` of a row of table ``state_configuration_change``."""


class Broken(NamedTuple):
    """A violation of a guarantee; ``guarantee`` is an audit, and ``round`` None is the last round of the run."""

    guarantee: str
    round: int | None
    node: int
    detail: str


@dataclass
class Disturbance:
    """A disturbance of a topic, and the convergence of the topic after it.

    Attributes:
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


class TopicReplay(TopicState):
    """A replay of one topic, round by round. It has the state at the end of the last replayed round.

    Attributes:
        disturbances: The disturbances so far.
        broken: The violations of guarantees so far.
    """

    def __init__(self, run: Row) -> None:
        """Prepares the replay.

        Args:
            run: ``run_id, topic, last_round``, ``fault_round`` (view ``fault_end``), settings ``silence_intervals`` and
                ``detection_rounds``, ``interval_rounds`` (a Timeout interval plus the largest message delay), and
                ascending lists of structs: ``crashes`` (round, node_id), ``configurations`` and ``databases`` (columns
                of tables state_configuration_change and state_database_change, the round first), ``reports`` (round,
                peer) of crashes by the failure detector, and ``supervisors`` (node_id, name). Also ``messages``, an
                Arrow array with the fields of `MESSAGE` or None: the messages of kinds `legitimate.KINDS` that were
                delivered or are in flight, ascending by id.
        """
        points = {row["node_id"]: point_of(row["name"]) for row in run["supervisors"]}
        super().__init__(run["topic"], supervisor_of(run["topic"], points))
        self.disturbances = [Disturbance(0, START, None)]
        self.broken: list[Broken] = []
        self._run = run
        self._messages = pa.array([], MESSAGE) if run["messages"] is None else run["messages"]
        self._down = sorted((row["node_id"], row["round"]) for row in run["crashes"] or ())
        for node, round_ in self._down:  # the crash loses the messages that are due at the node from its round on
            dst, due = self._messages.field("dst"), self._messages.field("due_round")
            is_lost = pc.and_(pc.equal(dst, node), pc.greater_equal(due, round_))
            self._messages = self._messages.filter(pc.invert(is_lost))
        self._is_changed = True

    def play(self) -> Iterator[int]:
        """Replays all rounds. Yields each round that changes the state of the topic, at the end of the round."""
        changes, last = self._changes(), self._run["last_round"]
        planned = sorted(round_ for round_ in {*changes, 0, last} if round_ <= last)
        for round_, upcoming in zip(planned, [*planned[1:], last + 1], strict=True):
            for change in changes.get(round_, ()):
                change()
            if round_ >= 0:
                yield from self._observe(round_, upcoming)
        self._end()

    def _changes(self) -> dict[int, list[Callable[[], None]]]:
        """Returns the changes of each round, in the order in which the replay applies them."""
        found: list[tuple[int, int, Callable[[], None]]] = []
        wants: dict[int, bool] = {}
        for row in self._run["configurations"] or ():
            node, own = row["node_id"], _configuration(row)
            step = 3 if wants.get(node, False) == own.wants else 2
            wants[node] = own.wants
            found.append((row["round"], step, partial(self._configure, row["round"], node, own)))
        found += [(row["round"], 3, partial(self._record, row)) for row in self._run["databases"] or ()]
        found += [(round_, 1, partial(self._crash, round_, node)) for node, round_ in self._down]
        found += [(row["round"], 1, partial(self.crashed.add, row["peer"])) for row in self._run["reports"] or ()]
        changes: dict[int, list[Callable[[], None]]] = defaultdict(list)
        for round_, _, change in sorted(found, key=itemgetter(0, 1)):
            changes[round_].append(change)
        return changes

    def _crash(self, round_: int, node: int) -> None:
        """Removes the state of crashed node `node`. If the node had any state, the crash is a disturbance."""
        own = self.kept.pop(node, None)
        if self.databases.pop(node, None):
            self._is_changed = True
        if own is not None and (own.wants or own.label is not None or own.neighbours or own.slots):
            self._disturb(round_, CRASH, node)

    def _configure(self, round_: int, node: int, own: ConfigurationChange) -> None:
        """Sets the ring state of `node` to `own`. A change of ``wants`` is a disturbance."""
        before = self.kept.get(node)
        self.kept[node] = own
        if (before is not None and before.wants) != own.wants and round_ >= 0:
            self._disturb(round_, "subscribe" if own.wants else "unsubscribe", node)
        self._change(round_, node, "its label, edges or slots")

    def _record(self, row: Row) -> None:
        """Applies `row`, a row of table ``state_database_change``, to the database of its node."""
        entries = self.databases.setdefault(row["node_id"], {})
        if row["is_tuple"]:
            entries[row["label"]] = row["subscriber"]
        else:
            entries.pop(row["label"], None)
        self._change(row["round"], row["node_id"], f"its tuple of label {row['label']}")

    def _observe(self, round_: int, upcoming: int) -> Iterator[int]:
        """Checks the state of the topic at the end of `round_`, and of each later round before `upcoming`.

        `upcoming` is the round of the next change of the state. Until this round only the messages in flight change.
        Yields `round_` if the state has changed.
        """
        last = self.disturbances[-1]
        if self._is_changed:
            last.n_subscribers = len(self.members)
            yield round_
            last.seen.observe(round_, self, self._in_flight(round_))
            round_ += 1
        for later in range(round_, upcoming):
            if not last.seen.is_open:
                break
            last.seen.observe(later, self, self._in_flight(later))
        self._is_changed = False

    def _in_flight(self, round_: int) -> Iterator[Flight]:
        """Yields the messages in flight at the end of round `round_`, ascending by id.

        As a generator, the method decodes messages only for a caller that reads them. A caller reads none if the
        explicit state is not legitimate.
        """
        sent, due = self._messages.field("sent_round"), self._messages.field("due_round")
        for row in self._messages.filter(pc.and_(pc.less_equal(sent, round_), pc.greater(due, round_))).to_pylist():
            body = json.loads(row.pop("body"))
            yield Flight(**row, fate=None, message=body)

    def _end(self) -> None:
        """Adds violations of audits ``labels``, ``degrees`` and ``database`` to `broken`, if the topic is legitimate.

        A violation is a difference between SR(n) and the labels, edges or databases of the last round.
        """
        if self.disturbances[-1].seen.clean_round is None:
            return
        members = self.members
        self.broken += [Broken("labels", None, *found) for found in self._wrong_labels(members)]
        self.broken += [Broken("degrees", None, *found) for found in broken(self._edges(members))]
        self.broken += [
            Broken("database", None, node, f"topic {self.topic}: {what}") for node, what in self._wrong_tuples(members)
        ]

    def stall(self) -> Broken | None:
        """Returns a violation if the topic is overdue and makes no progress, else None.

        The time since the last disturbance or fault has two halves. The topic makes progress if its lowest potential
        (`TopicState.potential`) is lower in the second half than in the first half. The potentials require a second
        replay, which only overdue topics pay for.
        """
        if not self._is_overdue():
            return None
        last, last_round = self.disturbances[-1], self._run["last_round"]
        start = max(last.round, self._run["fault_round"])
        middle = (start + last_round) // 2
        replay = TopicReplay(self._run)
        weights = [(round_, replay.potential(), replay._state()) for round_ in replay.play()]
        since = [one for one in weights if one[0] >= start] or weights[-1:]
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
        return Broken("convergence", None, self.supervisor, f"{detail}: {last.seen.problem}; {how}")

    def _is_overdue(self) -> bool:
        """Returns whether the topic is not legitimate although the time limit for convergence has passed.

        The limit starts at the topic's last disturbance, or at the last effect of a link fault or a pause if that is
        later. It is the sum of ``detection_rounds`` and the intervals of `PATIENCE` and ``silence_intervals`` (rule
        K6).
        """
        run, last, (slope, least) = self._run, self.disturbances[-1], PATIENCE
        is_open = last.seen.clean_round is None and last.seen.problem is not None
        n_intervals = slope * last.n_subscribers + least + run["silence_intervals"]
        since = max(last.round, run["fault_round"])
        limit = n_intervals * run["interval_rounds"] + run["detection_rounds"]
        return is_open and run["last_round"] - since >= limit

    def _state(self) -> int:
        kept = ((node, own.wants, own.label, own.on_ring, own.slots) for node, own in sorted(self.kept.items()))
        databases = ((node, *sorted(entries.items())) for node, entries in sorted(self.databases.items()) if entries)
        return hash((*kept, *databases))

    def _wrong_labels(self, members: set[int]) -> Iterator[tuple[int, str]]:
        wanted = {nth(index) for index in range(len(members))}
        seen: dict[str, int] = {}
        for node in sorted(members):
            label = self.kept[node].label
            if label is None or label not in wanted:
                yield node, f"it has label {label} of topic {self.topic}, and there are {len(members)} subscribers"
            elif label in seen:
                yield node, f"it has label {label} of topic {self.topic}, as node {seen[label]} has"
            else:
                seen[label] = node

    def _wrong_tuples(self, members: set[int]) -> Iterator[tuple[int, str]]:
        wanted = {nth(index) for index in range(len(members))}
        for label in sorted(wanted - self.entries.keys()):
            yield self.supervisor, f"label {label} is missing in its database"
        down = {node for node, _ in self._down}
        for node in sorted(self.databases.keys() - down):
            for label, subscriber in sorted(self.databases[node].items()):
                own = None if subscriber is None else self.kept.get(subscriber)
                if node != self.supervisor:
                    yield node, f"it has label {label} in a database, and is not the supervisor"
                elif label not in wanted:
                    yield node, f"its database has label {label}, which is none of the first {len(members)}"
                elif own is None or not own.wants:
                    name = "-" if subscriber is None else subscriber
                    yield node, f"label {label} is of node {name}, which is no subscriber"
                elif own.label != label:
                    yield node, f"label {label} is of node {subscriber}, whose own label is {own.label or '-'}"

    def _edges(self, members: set[int]) -> dict[int, set[int]]:
        return {node: self.kept[node].neighbours & members - {node} for node in sorted(members)}

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
        named = {one for one in self.entries.values() if one is not None}
        for one in sorted((self.kept[node].neighbours if node in self.kept else named) - self.members):
            detail = f"it refers to node {one} in topic {self.topic}, which has left it or is down"
            self.broken.append(Broken("departed", round_, node, detail))

    def measure(self, round_: int) -> tuple[Any, ...]:
        """Returns the columns of `PROGRESS` from ``topic`` on: the distance of the state from the skip ring.

        Column ``diameter`` is null if two subscribers are not connected, or if the topic has wrong labels and more than
        `LARGE` subscribers.
        """
        members = self.members
        label = {node: label for label, node in self.entries.items()}
        wrong = sum(own.label is None or label.get(node) != own.label for node, own in self.kept.items() if own.wants)
        most = max((len(self.kept[node].neighbours) for node in members), default=0)
        edges = undirected(self._edges(members))
        n_edges = sum(map(len, edges.values())) // 2
        far = None if wrong and len(members) > LARGE else diameter(edges)
        return (self.topic, round_, len(members), len(members & label.keys()), wrong, most, n_edges, far)


CONVERGENCE = (
    ("run_id", "bigint"), ("topic", "string"), ("disturbance", "bigint"), ("round", "bigint"), ("cause", "string"),
    ("node_id", "bigint"), ("n_subscribers", "bigint"), ("n_configurations", "bigint"), ("explicit_round", "bigint"),
    ("clean_round", "bigint"), ("changed_round", "bigint"), ("problem", "string"), ("is_last", "boolean"),
)  # fmt: skip
"""Names and SQL types of the columns of `convergence`."""
PROGRESS = (
    ("run_id", "bigint"), ("topic", "string"), ("round", "bigint"), ("n_subscribers", "bigint"),
    ("n_recorded", "bigint"), ("n_wrong_labels", "bigint"), ("max_degree", "bigint"), ("n_edges", "bigint"),
    ("diameter", "bigint"),
)  # fmt: skip
"""Names and SQL types of the columns of `progress`."""
BROKEN = (
    ("run_id", "bigint"), ("guarantee", "string"), ("round", "bigint"), ("node_id", "bigint"), ("detail", "string"),
)  # fmt: skip
"""Names and SQL types of the columns of `violations`."""


@rows_of_runs(CONVERGENCE, as_arrow="messages")
def convergence(run: Row) -> Iterator[tuple[Any, ...]]:
    """Yields one row per disturbance (columns `CONVERGENCE`): the rounds in which the topic became legitimate.

    A row of the input is a topic, with the columns that `TopicReplay` reads.
    """
    topic = TopicReplay(run)
    deque(topic.play(), maxlen=0)
    for number, one in enumerate(topic.disturbances):
        head = (number, one.round, one.cause, one.node, one.n_subscribers, one.n_configurations)
        seen = (one.seen.explicit_round, one.seen.clean_round, one.changed_round, one.seen.problem)
        yield (topic.topic, *head, *seen, one is topic.disturbances[-1])


@rows_of_runs(PROGRESS, as_arrow="messages")
def progress(run: Row) -> Iterator[tuple[Any, ...]]:
    """Yields one row per topic and round in which its state changed (columns `PROGRESS`); input as in `convergence`."""
    topic = TopicReplay(run)
    return map(topic.measure, topic.play())


@rows_of_runs(BROKEN, as_arrow="messages")
def violations(run: Row) -> list[Broken]:
    """Returns one row per violation of a guarantee (columns `BROKEN`); input as in `convergence`."""
    topic = TopicReplay(run)
    deque(topic.play(), maxlen=0)
    stall = topic.stall()
    return topic.broken if stall is None else [*topic.broken, stall]
