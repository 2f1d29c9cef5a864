"""Sequence numbers of a repository: slots, frontier, closed incarnations, orphans, skipped messages.

Section 3.5; rules P1, P2, P5, P32 and P37.
"""

from __future__ import annotations

from collections.abc import Iterable

from udfs.repository.at import At
from udfs.repository.events import Action, Key, Publication
from udfs.repository.records import ACTION, RESERVED, STORED, VOID, Identity, Incarnation, Numbered, Orphan, Slot


def find(at: At, key: Key) -> Slot | None:
    """Returns the slot of message `key`, or None if the message has no sequence number."""
    row = at.node.numbered.get((at.topic, *key))
    return None if row is None else at.node.slot[at.topic, row.seq]


def has(at: At, key: Key) -> bool:
    """Returns whether message `key` is stored, in a slot or as an orphan."""
    slot = find(at, key)
    return (slot is not None and slot.status == STORED) or (at.topic, *key) in at.node.orphan


def newest(at: At, publisher: int) -> int | None:
    """Returns the newest known incarnation of `publisher`, or None if no incarnation is known."""
    found = (i for topic, one, i in at.node.incarnation if topic == at.topic and one == publisher)
    return max(found, default=None)


def record_incarnation(at: At, publisher: int, incarnation: int) -> Incarnation:
    """Returns the record of an incarnation of `publisher`, and creates it if necessary. Closes older ones (rule P2)."""
    index, known = (at.topic, publisher, incarnation), newest(at, publisher)
    if index not in at.node.incarnation:
        is_closed = known is not None and known > incarnation
        at.node.incarnation[index] = Incarnation(*index, is_closed=is_closed, heard_round=at.round)
    for row in at.of(at.node.incarnation):
        if row.publisher == publisher and row.incarnation < incarnation and not row.is_closed:
            close(at, row)
    return at.node.incarnation[index]


def close(at: At, row: Incarnation) -> None:
    """Closes the incarnation `row` (rule P2).

    Its slots from the first missing message on become void, and the messages stored in these slots become orphans.
    """
    row.is_closed = True
    numbers = (n for n in range(row.prefix + 1, row.last + 1) if n not in row.skipped)
    keys = [Key(row.publisher, row.incarnation, n) for n in numbers]
    slots = [at.node.slot[at.topic, at.node.numbered[at.topic, *key].seq] for key in keys]
    missing = next((slot for slot in slots if slot.status == RESERVED), None)
    if missing is None:
        return
    for slot in slots[slots.index(missing) :]:
        key = Key.of(slot)
        if slot.publication is not None:
            at.node.orphan[at.topic, *key] = Orphan(at.topic, *key, slot.publication)
        slot.status, slot.publication = VOID, None
        del at.node.numbered[at.topic, *key]
    row.last = missing.n - 1


def reserve(at: At, row: Incarnation, n: int) -> list[int]:
    """Reserves slots for the messages of the incarnation `row` up to number `n`. Returns the numbers that got a slot.

    Skipped messages get no slot. A message that is stored without a slot (an orphan) moves to its new slot.
    """
    added = [one for one in range(row.last + 1, n + 1) if one not in row.skipped]
    for one in added:
        key = Key(row.publisher, row.incarnation, one)
        append(at, RESERVED, key)
        if orphan := at.node.orphan.pop((at.topic, *key), None):
            _fill(at, key, orphan.publication)
    row.last = max(row.last, n)
    return added


def record_heard(at: At, row: Incarnation) -> None:
    """Records that a publisher has sent an event, and reopens its incarnation `row` if it is the newest (rule P32)."""
    row.heard_round = at.round
    row.is_closed = row.is_closed and newest(at, row.publisher) != row.incarnation


def close_silent(at: At) -> bool:
    """Closes each incarnation with a missing message whose publisher has sent no event for T_void (rule P32).

    Without this rule, one lost message of a dead or deregistered publisher would block all later sequence numbers.
    Returns whether an incarnation was closed.
    """
    indexes = sorted({(at.topic, slot.publisher, slot.incarnation) for slot in after_frontier(at)})
    rows = [at.node.incarnation[index] for index in indexes]
    silent = [row for row in rows if not row.is_closed and at.round - row.heard_round >= at.rounds("void_rounds")]
    for row in silent:
        close(at, row)
    return bool(silent)


def append(at: At, status: str, key: Key, action: Action | None = None) -> Slot:
    """Adds a slot with the next sequence number and returns it."""
    log = at.log
    log.last_seq += 1
    slot = Slot(at.topic, log.last_seq, status, *key, action=action)
    at.node.slot[at.topic, slot.seq] = slot
    if status != ACTION:
        at.node.numbered[at.topic, *key] = Numbered(at.topic, *key, slot.seq)
    return slot


def store_message(at: At, key: Key, publication: Publication) -> None:
    """Stores message `key`, unless it is stored already.

    A skipped message is not stored. A message of an open incarnation is stored in its slot, which is added if it is
    missing. A message of a closed incarnation becomes an orphan until all earlier messages of the incarnation are
    stored.
    """
    if has(at, key):
        return
    row = record_incarnation(at, key.publisher, key.incarnation)
    at.node.lacking.pop((at.topic, *key), None)
    if key.n in row.skipped:
        return
    identify(at, key, publication.source_seq)
    if not row.is_closed:
        reserve(at, row, key.n)
        _fill(at, key, publication)
    else:
        at.node.orphan[at.topic, *key] = Orphan(at.topic, *key, publication)
        at.node.missed.pop((at.topic, *key), None)
        _renumber_orphans(at, row)


def _renumber_orphans(at: At, row: Incarnation) -> None:
    """Stores the orphans of the closed incarnation `row` in new slots, up to its first missing message."""
    n = _after_skipped(row, row.last + 1)
    while (at.topic, row.publisher, row.incarnation, n) in at.node.orphan:
        reserve(at, row, n)
        n = _after_skipped(row, n + 1)


def _fill(at: At, key: Key, publication: Publication) -> None:
    slot = at.node.slot[at.topic, at.node.numbered[at.topic, *key].seq]
    slot.status, slot.publication, slot.source_seq = STORED, publication, publication.source_seq
    at.node.missed.pop((at.topic, *key), None)


def identify(at: At, key: Key, source_seq: int) -> None:
    """Records that call number `source_seq` of the publisher has published message `key`."""
    index = at.topic, key.publisher, source_seq
    at.node.identity[index] = Identity(*index, key.incarnation, key.n)


def advance(at: At) -> list[Slot]:
    """Moves the frontier up to the first reserved slot (P5). Returns the slots of the messages that it has passed."""
    log, passed = at.log, []
    while (slot := at.node.slot.get((at.topic, log.frontier + 1))) and slot.status != RESERVED:
        log.frontier += 1
        if slot.status == STORED:
            row = at.node.incarnation[at.topic, slot.publisher, slot.incarnation]
            row.prefix = _after_skipped(row, slot.n + 1) - 1
            passed.append(slot)
    return passed


def _after_skipped(row: Incarnation, n: int) -> int:
    """Returns the first catenation number from `n` on that is not skipped."""
    while n in row.skipped:
        n += 1
    return n


def skip(at: At, keys: Iterable[Key]) -> None:
    """Records that no member has the messages `keys` (rule P37): their slots become void, and prefixes pass them.

    Messages that this repository has are not skipped.
    """
    for key in keys:
        row = record_incarnation(at, key.publisher, key.incarnation)
        if has(at, key):
            continue
        row.skipped.add(key.n)
        numbered = at.node.numbered.pop((at.topic, *key), None)
        if numbered is not None:
            at.node.slot[at.topic, numbered.seq].status = VOID
        for table in (at.node.lacking, at.node.missed):
            table.pop((at.topic, *key), None)
        row.prefix = _after_skipped(row, row.prefix + 1) - 1
        if row.is_closed:
            _renumber_orphans(at, row)


def skipped(at: At) -> tuple[Key, ...]:
    """Returns the messages that prefixes pass although no member has them."""
    rows = at.of(at.node.incarnation)
    return tuple(Key(row.publisher, row.incarnation, n) for row in rows for n in sorted(row.skipped))


def after_frontier(at: At, status: str = RESERVED) -> list[Slot]:
    """Returns the slots after the frontier with status `status`; by default the slots whose messages are missing."""
    numbers = range(at.log.frontier + 1, at.log.last_seq + 1)
    return [slot for seq in numbers if (slot := at.node.slot[at.topic, seq]).status == status]


def newest_incarnations(at: At) -> tuple[Key, ...]:
    """Returns the newest known incarnation of each publisher, as keys with number 0."""
    newest = {row.publisher: row.incarnation for row in at.of(at.node.incarnation)}
    return tuple(Key(*one, 0) for one in newest.items())


def prefixes(at: At) -> tuple[Key, ...]:
    """Returns the last message of the filled prefix of each incarnation."""
    return tuple(Key(row.publisher, row.incarnation, row.prefix) for row in at.of(at.node.incarnation))


def rebuild_table(at: At) -> None:
    """Rebuilds the repository-table from the slots and orphans after a crash.

    The silence of each publisher (rule P32) is measured from this round on. What publishers have deleted (rule P37) is
    forgotten, because this repository does not know any more who has the messages.
    """
    for row in at.of(at.node.incarnation):
        row.heard_round, row.dropped = at.round, 0
    for slot in at.of(at.node.slot):
        if slot.status in (STORED, RESERVED):
            key = Key.of(slot)
            at.node.numbered[at.topic, *key] = Numbered(at.topic, *key, slot.seq)
            if slot.publication is not None:
                identify(at, key, slot.publication.source_seq)
    for orphan in at.of(at.node.orphan):
        identify(at, Key.of(orphan), orphan.publication.source_seq)
