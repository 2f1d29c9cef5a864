"""Decisions about the messages of a topic at a broker, for the dataflow form (rules G1 and G2).

A decision is called a turn: a message leaves the entry queue, is sent to the parent, or is processed. A turn depends on
the earlier messages that share a key item with its message. These depend on still earlier messages with other key
items, so chains of dependencies can have any length. A turn can also cause other turns, because it locks or unlocks key
items. An SQL window sees only the rows of one key item, so this module decides message by message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from udfs.ginger.buffer import Id, Message, next_admitted

CAME, LOCKED, READY, PASSED, SENT, PROCESSED = "came", "locked", "ready", "passed", "sent", "processed"
TURN: Final = pa.schema([
    ("run_id", pa.int64()), ("node_id", pa.int64()), ("topic", pa.string()), ("source", pa.int64()),
    ("source_seq", pa.int64()), ("guarantee", pa.string()), ("keys", pa.list_(pa.string())),
    ("issued_round", pa.int64()), ("hops", pa.int64()), ("sender", pa.int64()), ("came_from", pa.string()),
    ("covered", pa.list_(pa.int64())), ("what", pa.string()), ("trigger", pa.int64()), ("rank", pa.int64()),
    ("round", pa.int64()),
])  # fmt: skip
"""Grain: a turn. Column ``what`` is ``passed`` if an eventual or causal message leaves the entry queue, and ``locked``
if a total-order message leaves the entry queue. It is ``sent`` if the parent gets a total-order message or TotalAck,
and ``processed`` if the topic's root processes a message. ``sender`` is the node that sent the message, or null.
``covered`` lists the nodes that have locked the key items of the message. ``trigger`` is the id of the handled message
that causes the turn. ``rank`` is the position among the turns of that message, from 1.
"""


@dataclass(slots=True)
class _Lock:
    keys: frozenset[str]
    is_ready: bool  # all children have acknowledged the message
    is_sent: bool = False  # the parent has the message, or its TotalAck


class _BrokerTopic:
    def __init__(self, row: Mapping[str, Any]) -> None:
        queue, pending = (_sorted(row[name], "arrival") for name in ("queue", "pending"))
        self._row = row
        self._about = {_id(one): one for one in (*queue, *pending)}
        self._queue = [_message(row["topic"], one) for one in queue]
        self._pending = {_id(one): _Lock(frozenset(one["keys"]), one["is_ready"], one["is_sent"]) for one in pending}
        self._trigger = self._rank = 0
        self.turns: list[dict[str, Any]] = []

    def handle(self, due: Mapping[str, Any]) -> None:
        """Handles due message `due`, and appends the turns that it causes. Function `turns` describes `due`."""
        self._trigger, self._rank = due["trigger"], 0
        of = _id(due)
        self._about.setdefault(of, due)
        if due["what"] == CAME:
            self._queue.append(_message(self._row["topic"], due))
            self._run_pass()
            return
        if due["what"] == LOCKED:
            self._pending[of] = _Lock(frozenset(due["keys"]), due["is_ready"])
        elif due["what"] == READY:
            self._pending[of].is_ready = True
        else:
            self._pending.pop(of, None)
            self._run_pass()
        self._try_all()

    def _turn(self, what: str, of: Id) -> None:
        self._rank += 1
        about = self._about[of]
        sender = None if what == PROCESSED else about["sender"]
        covered = sorted({self._row["node_id"], *self._row["clients"], *about["covered"]})
        turn = {"sender": sender, "covered": covered, "what": what, "trigger": self._trigger, "rank": self._rank}
        self.turns.append({**self._row, **about, **turn})

    def _run_pass(self) -> None:
        while self._queue:
            locked = {key for lock in self._pending.values() for key in lock.keys}
            position = next_admitted(self._queue, locked)
            if position is None:
                return
            message = self._queue.pop(position)
            self._turn(LOCKED if message.is_total else PASSED, message.id)
            if message.is_total:
                self._pending[message.id] = _Lock(frozenset(message.keys), self._row["n_children"] == 0)
                self._try_all()

    def _try_all(self) -> None:
        for of in list(self._pending):
            if of in self._pending:
                self._try(of, self._pending[of])

    def _try(self, of: Id, lock: _Lock) -> None:
        if not lock.is_ready or lock.is_sent:
            return
        earlier = list[_Lock]()
        for other, before in self._pending.items():
            if other == of:
                break
            if not before.keys.isdisjoint(lock.keys):
                earlier.append(before)
        if self._row["is_root"]:
            if not earlier:
                del self._pending[of]
                self._turn(PROCESSED, of)
                self._run_pass()
        elif all(before.is_sent for before in earlier):
            lock.is_sent = True
            self._turn(SENT, of)


def _sorted(rows: Iterable[Mapping[str, Any]] | None, name: str) -> list[Mapping[str, Any]]:
    return sorted(rows or (), key=lambda row: row[name])


def _id(row: Mapping[str, Any]) -> Id:
    return Id(row["source"], row["source_seq"])


def _message(topic: str, row: Mapping[str, Any]) -> Message:
    return Message(topic, row["source"], row["source_seq"], row["guarantee"], tuple(row["keys"]), 0)


def turns(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Computes the turns of a round at each broker and topic.

    Column ``what`` of a due message has one of these values:

    - ``came``: a client has sent the message;
    - ``locked``: a broker has sent the message, which is in total order;
    - ``ready``: all children have acknowledged the message;
    - ``processed``: TotalProcessed has arrived for the message.

    Args:
        batches: One row per run, broker and topic with a due message: ``run_id, node_id, topic, round, is_root,
            n_children, clients`` and lists of structs ``queue, pending, due``. ``n_children`` counts the children in
            the topic's sub-tree. ``queue`` and ``pending`` have rows of tables entry_queue and pending. ``due`` has the
            due messages. The structs have the columns of turns from ``source`` to ``covered``.

    Yields:
        One row per turn (columns `TURN`).
    """
    for batch in batches:
        found = list[dict[str, Any]]()
        for row in batch.to_pylist():
            topic = _BrokerTopic(row)
            for due in _sorted(row["due"], "trigger"):
                topic.handle(due)
            found += topic.turns
        yield pa.RecordBatch.from_pylist(found, TURN)
