"""Replays the history of a run: when its topics became legitimate, and whether they stayed legitimate (rules K9, K18).

A *disturbance* of a topic is its start, or a subscription, an unsubscription or a crash of a subscriber. After each
disturbance the topic converges again, and closure holds until the next one. A round applies, in this order:

1. crashes;
2. subscriptions and unsubscriptions;
3. other changes of explicit state, and of databases;
4. messages received and sent. At the end it checks whether the state is legitimate, as long as that may change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple
from typing import Any

import pyarrow as pa

from udfs.batches import as_batch
from udfs.skipring.definition import point_of, supervisor_of
from udfs.skipring.history import configuration_from
from udfs.skipring.topic_replay import TopicReplay, flights_of

Row = Mapping[str, Any]


class RunReplay:
    """A run while its history is played."""

    def __init__(
        self, run: Row, messages: pa.StructArray | None, *, is_measured: bool = False, is_weighed: bool = False
    ) -> None:  # fmt: skip
        """Takes the history.

        Args:
            run: ``run_id, last_round``, and lists of structs, ascending: ``crashes`` (round, node_id),
                ``configurations`` and ``databases`` (columns of the tables, the round first), ``reports`` (round,
                peer), ``supervisors`` (node_id, name).
            messages: Those of `flights.KINDS`, ascending, without those that links lost; fields of `flights.MESSAGE`.
            is_measured: Whether topics are measured in each round.
            is_weighed: Whether the potential of each round is computed.
        """
        self._is_measured, self._is_weighed = is_measured, is_weighed
        self._points = {row["node_id"]: point_of(row["name"]) for row in run["supervisors"]}
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
            topic, own = self._topic(row["topic"]), configuration_from(row)
            is_same = wants.get((own.topic, row["node_id"]), False) == own.wants
            wants[own.topic, row["node_id"]] = own.wants
            self._at(row["round"], 3 if is_same else 2, topic.configure, row["round"], row["node_id"], own)
        for row in run["databases"] or ():
            self._at(row["round"], 3, self._topic(row["topic"]).record, row["round"], row["node_id"], row)
        for node, round_ in sorted(self._down.items()):
            for topic in self._topics.values():
                self._at(round_, 1, topic.crash, round_, node)
        for row in run["reports"] or ():
            self._at(row["round"], 1, self._crashed.add, row["peer"])
        if messages is not None:
            for name, flights in flights_of(messages, self._down):
                self._topic(name).flights = flights

    def _topic(self, name: str) -> TopicReplay:
        if name not in self._topics:
            supervisor = supervisor_of(name, self._points)
            self._topics[name] = TopicReplay(
                name, self._crashed, supervisor, is_measured=self._is_measured, is_weighed=self._is_weighed
            )
        return self._topics[name]

    def _at(self, round_: int, step: int, act: Callable[..., Any], *args: Any) -> None:  # noqa: ANN401
        self._agenda[round_].append((step, lambda: act(*args)))


CONVERGENCE = {
    "run_id": pa.int64(), "topic": pa.string(), "disturbance": pa.int64(), "round": pa.int64(), "cause": pa.string(),
    "node_id": pa.int64(), "n_subscribers": pa.int64(), "n_configurations": pa.int64(), "explicit_round": pa.int64(),
    "clean_round": pa.int64(), "changed_round": pa.int64(), "problem": pa.string(), "is_last": pa.bool_(),
}  # fmt: skip
"""Columns of `convergence`."""
PROGRESS = {
    "run_id": pa.int64(), "topic": pa.string(), "round": pa.int64(), "n_subscribers": pa.int64(),
    "n_recorded": pa.int64(), "n_wrong_labels": pa.int64(), "max_degree": pa.int64(), "n_edges": pa.int64(),
    "diameter": pa.int64(),
}  # fmt: skip
"""Columns of `progress`."""
BROKEN = {
    "run_id": pa.int64(), "guarantee": pa.string(), "round": pa.int64(), "node_id": pa.int64(), "detail": pa.string(),
}  # fmt: skip
"""Columns of `violations`."""


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
    """Returns the breaches of topics after they were clean: columns `BROKEN`.

    Args:
        batches: One row a run, columns as in `RunReplay`.
    """

    def rows(topic: TopicReplay) -> Iterator[tuple[Any, ...]]:
        for one in topic.broken:
            yield one.guarantee, one.round, one.node, one.detail

    return _each(batches, BROKEN, rows, stalls=True)


def _each(
    batches: Iterable[pa.RecordBatch], columns: Mapping[str, pa.DataType],
    rows: Callable[[TopicReplay], Iterator[tuple[Any, ...]]], *, is_measured: bool = False, stalls: bool = False,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    schema = pa.schema(list(columns.items()))
    for batch in batches:
        found: list[tuple[Any, ...]] = []
        for run, messages in zip(batch.drop_columns("messages").to_pylist(), batch.column("messages"), strict=True):
            topics = RunReplay(run, messages.values, is_measured=is_measured).play()
            if stalls:
                find_stalls(run, messages.values, topics)
            for _, topic in sorted(topics.items()):
                found += [(run["run_id"], *row) for row in rows(topic)]
        yield as_batch(found, schema)


def find_stalls(run: Row, messages: pa.StructArray | None, topics: Mapping[str, TopicReplay]) -> None:
    """Adds to each overdue topic that never becomes legitimate why; the run is played again for it.

    Args:
        run: As in `RunReplay`, with ``interval_rounds``: a Timeout interval and the largest delay of a message.
        messages: As in `RunReplay`.
        topics: The topics of the run; their ``broken`` change.
    """
    overdue = [one for one in topics.values() if one.is_overdue(run["last_round"], run["interval_rounds"])]
    weighed = RunReplay(run, messages, is_weighed=True).play() if overdue else {}
    for topic in overdue:
        found = weighed[topic.topic].stall(run["last_round"])
        topic.broken += [] if found is None else [found]
