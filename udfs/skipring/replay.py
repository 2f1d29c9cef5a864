"""Replays the history of a run to judge the convergence and closure of its topics (rules K9, K18).

A *disturbance* of a topic is the start of the run, a subscription, an unsubscription, or a crash of a subscriber. After
each disturbance the topic converges to a legitimate state. Then closure must hold until the next disturbance.

The replay of a round applies crashes and crash reports first, then subscriptions and unsubscriptions, then other
changes of explicit state. Then it checks whether the state is legitimate. In a round without changes, the replay
checks only the messages in flight, and only if one of them contradicted a legitimate state in the previous round.
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
    """A replay of one run, round by round."""

    def __init__(
        self, run: Row, messages: pa.StructArray | None, *, is_measured: bool = False, is_weighed: bool = False
    ) -> None:  # fmt: skip
        """Schedules the changes of the history by round.

        Args:
            run: ``run_id, last_round``, ``fault_round`` (view ``fault_end``), and ascending lists of structs:
                ``crashes`` (round, node_id), ``configurations`` and ``databases`` (columns of tables
                state_configuration_change and state_database_change, the round first), ``reports`` (round, peer) of
                crashes by the failure detector, and ``supervisors`` (node_id, name).
            messages: The messages of kinds `legitimate.KINDS` that were delivered or are in flight, ascending by id,
                with the fields of `topic_replay.MESSAGE`.
            is_measured: Whether to compute in each round how far a topic is from the skip ring (`Measured`).
            is_weighed: Whether to count for each topic and round the problems of its explicit state.
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
        """Replays all rounds of the run. Returns the replays of the topics by topic name."""
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
"""Names and types of the columns of `convergence`."""
PROGRESS = {
    "run_id": pa.int64(), "topic": pa.string(), "round": pa.int64(), "n_subscribers": pa.int64(),
    "n_recorded": pa.int64(), "n_wrong_labels": pa.int64(), "max_degree": pa.int64(), "n_edges": pa.int64(),
    "diameter": pa.int64(),
}  # fmt: skip
"""Names and types of the columns of `progress`."""
BROKEN = {
    "run_id": pa.int64(), "guarantee": pa.string(), "round": pa.int64(), "node_id": pa.int64(), "detail": pa.string(),
}  # fmt: skip
"""Names and types of the columns of `violations`."""


def convergence(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields one row per disturbance (columns `CONVERGENCE`): the rounds in which the topic became legitimate.

    Args:
        batches: One row per run, with the columns that `RunReplay` reads.
    """

    def rows(topic: TopicReplay) -> Iterator[tuple[Any, ...]]:
        for number, one in enumerate(topic.disturbances):
            head = (number, one.round, one.cause, one.node, one.n_subscribers, one.n_configurations)
            seen = (one.seen.explicit_round, one.seen.clean_round, one.changed_round, one.seen.problem)
            yield (topic.topic, *head, *seen, one is topic.disturbances[-1])

    return _each(batches, CONVERGENCE, rows)


def progress(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields `Measured` for each topic and each round in which its state changed (columns `PROGRESS`).

    Args:
        batches: One row per run, with the columns that `RunReplay` reads.
    """
    return _each(
        batches, PROGRESS, lambda topic: ((topic.topic, *astuple(one)) for one in topic.measured), is_measured=True
    )


def violations(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields one row per violation of a guarantee (columns `BROKEN`).

    Args:
        batches: One row per run, with the columns that `RunReplay` and `find_stalls` read.
    """
    return _each(batches, BROKEN, lambda topic: map(astuple, topic.broken), stalls=True)


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
    """Adds a violation to each topic that has not become legitimate in time and makes no progress.

    If a topic is overdue, replays the run again to count the problems of its explicit state in each round.

    Args:
        run: The columns of `RunReplay`, settings ``silence_intervals`` and ``detection_rounds``, and
            ``interval_rounds``: a Timeout interval plus the largest message delay.
        messages: The messages of the run, as for `RunReplay`.
        topics: The replayed topics of the run. The function appends violations to `TopicReplay.broken`.
    """
    overdue = [one for one in topics.values() if one.is_overdue(run)]
    weighed = RunReplay(run, messages, is_weighed=True).play() if overdue else {}
    for topic in overdue:
        found = weighed[topic.topic].stall(run["last_round"], run["fault_round"])
        topic.broken += [] if found is None else [found]
