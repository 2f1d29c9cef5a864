"""Duplicate detection (section 5): separates first copies of messages from duplicates.

A setting selects one of two detectors. Detector ``identifier`` stores the highest message number of each source.
REJOINs of a node R have a separate row with source ``-1 - R``, because their number is the incarnation of R. Detector
``visited`` stores the highest MsgId of each node that a message has visited. A copy is a duplicate if the MsgId of one
of its visited nodes is not higher than the stored MsgId (rule R3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from udfs.batches import as_batch, schema_of
from udfs.delta.state import Detected, Key, Processing
from udfs.delta.turn import Turn

_MSG_IDS = 1 << 20


def first_copies(turn: Turn, copies: Sequence[Processing]) -> list[Processing]:
    """Returns the first copies of messages among `copies`, in the order of `copies` (Algorithm 1, lines 1 to 12)."""
    if _is_visited(turn):
        return _first_visits(turn, copies)
    first, seen, detector = list[Processing](), set[Key](), turn.node.detector
    for copy in copies:
        known = detector.get(_identity(copy))
        if copy.key not in seen and (known is None or known.last_seq < abs(copy.source_seq)):
            first.append(copy)
        seen.add(copy.key)
    return first


def _first_visits(turn: Turn, copies: Sequence[Processing]) -> list[Processing]:
    """Returns the first copies among `copies` according to their visited lists, and sets the MsgId of each.

    A message that this node issues itself has no visited list, and is always a first copy.
    """
    newest = {node: one.last_seq for node, one in turn.node.detector.items()}
    first = [copy for copy in copies if copy.sender is None or _succeeds(newest, copy.visited or ())]
    in_turn = sorted(first, key=lambda one: (one.trigger, one.source, one.source_seq))
    for place, copy in enumerate(in_turn, 1):
        copy.msg_id = turn.round * _MSG_IDS + place
    return first


def _succeeds(newest: dict[int, int], visited: Iterable[tuple[int | None, int | None]]) -> bool:
    """Returns whether all MsgIds of a visited list are higher than those in `newest`. If so, stores them there."""
    pairs = {node: number for node, number in visited if node is not None and number is not None}
    if any(number <= newest.get(node, -1) for node, number in pairs.items()):
        return False
    newest.update(pairs)
    return True


def record_identifiers(turn: Turn, first: Iterable[Processing]) -> None:
    """Stores the identifiers of the first copies `first` in the detector (Algorithm 1, line 11).

    If visited lists detect duplicates, the source of a message also stores its own MsgId of the message (rule R18).
    """
    is_visited = _is_visited(turn)
    for copy in first:
        if not is_visited:
            _note(turn, _identity(copy), abs(copy.source_seq))
            continue
        for node, number in copy.visited or ():
            if node is not None and number is not None:
                _note(turn, node, number)
        if copy.sender is None and copy.msg_id is not None:
            _note(turn, turn.id, copy.msg_id)


def _note(turn: Turn, source: int, number: int) -> None:
    known = turn.node.detector.get(source)
    if known is None:
        turn.node.detector[source] = Detected(source, number)
    elif known.last_seq < number:
        known.last_seq = number


def _identity(copy: Processing) -> int:
    return -1 - copy.source if copy.kind == "REJOIN" else copy.source


def _is_visited(turn: Turn) -> bool:
    return bool(turn.ctx.settings["detector"] == "visited")


ACCEPTED = schema_of((("run_id", "bigint"), ("node_id", "bigint"), ("trigger", "bigint")))
"""The columns of the result of `accepted_copies`: node and trigger of an accepted copy."""


def accepted_copies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the copies that are not duplicates according to their visited lists, for the dataflow form.

    The copies of a node are tested in the order of their triggers. A copy is a duplicate if an earlier accepted copy
    has an equal or higher MsgId for a node that both copies visited.

    Args:
        batches: One row for each node with columns ``run_id``, ``node_id`` and ``copies``. ``copies`` is a list of
            structs with fields ``trigger`` and ``visited``; ``visited`` is a list of structs with fields ``node`` and
            ``msg_id``.

    Yields:
        One row with columns `ACCEPTED` for each accepted copy.
    """
    for batch in batches:
        rows = [(row["run_id"], row["node_id"], one) for row in batch.to_pylist() for one in _accepted(row["copies"])]
        yield as_batch(rows, ACCEPTED)


def _accepted(copies: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    newest: dict[int, int] = {}
    for copy in sorted(copies, key=lambda one: int(one["trigger"])):
        if _succeeds(newest, ((one["node"], one["msg_id"]) for one in copy["visited"])):
            yield copy["trigger"]
