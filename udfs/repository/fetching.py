"""Messages that other repositories have: fetched within the bundle, in any mode (section 4.7; rule P19)."""

from __future__ import annotations

from itertools import islice

from udfs.repository import dissemination, membership, slots, storage
from udfs.repository.at import At
from udfs.repository.bundle_events import BundleNak, BundleRetransmit, Copy
from udfs.repository.bundle_records import Lacking
from udfs.repository.events import Key, Publication, Upto


def held(at: At, repository: int, key: Key) -> None:
    """Notes that another repository has a message; if this one lacks it, it is to be fetched."""
    if not slots.has(at, key):
        index = at.topic, *key
        at.node.lacking.setdefault(index, Lacking(*index, set())).holders.add(repository)
        at.wake("fetch", at.rounds("fetch_rounds"))


def ask(at: At) -> None:
    """Asks for all that is lacking, every T_f: of the holders that are heard another one each time."""
    turn, lacking = at.round // at.rounds("fetch_rounds"), at.of(at.node.lacking)
    heard = {holder for holder in at.peers if membership.is_heard(at, holder)}
    by_holder: dict[int, list[Upto]] = {}
    for row in lacking:
        if holders := sorted(row.holders & heard):
            by_holder.setdefault(holders[turn % len(holders)], []).append(Upto(row.publisher, row.incarnation, row.n))
    for holder, keys in sorted(by_holder.items()):
        at.send(BundleNak, (holder,), tuple(keys[: at.rounds("fetch_batch")]))
    if lacking:
        at.wake("fetch", at.rounds("fetch_rounds"))


def on_nak(at: At, m: BundleNak) -> None:
    """Sends another repository messages with their dissemination lists; reading takes `retrieve_rounds` each."""
    keys = [Key.of(one) for one in m.keys]
    copies = tuple(
        Copy(key.incarnation, key.n, publication, _acknowledged(at, key))
        for key in keys
        if (publication := _stored(at, key)) is not None
    )
    if copies:
        at.send(BundleRetransmit, (m.origin,), copies, extra=at.rounds("retrieve_rounds") * len(copies))


def _stored(at: At, key: Key) -> Publication | None:
    slot, orphan = slots.find(at, key), at.node.orphan.get((at.topic, *key))
    if slot is not None and slot.publication is not None:
        return slot.publication
    return orphan.publication if orphan is not None else None


def _acknowledged(at: At, key: Key) -> tuple[int, ...]:
    clients = (one.client for one in at.of(at.node.subscriber))
    return tuple(client for client in clients if (at.topic, client, *key) in at.node.acknowledged)


def on_retransmit(at: At, m: BundleRetransmit) -> None:
    """Stores what another repository has sent; if any of it is new, asks for more at once."""
    keys = [Key(copy.publication.source, copy.incarnation, copy.n) for copy in m.copies]
    on_way = _on_way(at)
    is_new = any((at.topic, *key) in at.node.lacking and key not in on_way for key in keys)
    for key, copy in zip(keys, m.copies, strict=True):
        for client in copy.acknowledged:
            dissemination.acknowledge(at, client, key)
        storage.store(at, key, copy.publication)
    most = at.rounds("fetch_batch")
    if is_new and len(m.copies) >= most:
        on_way = _on_way(at)
        more = (row for row in at.of(at.node.lacking) if m.origin in row.holders and Key.of(row) not in on_way)
        wanted = tuple(Upto(row.publisher, row.incarnation, row.n) for row in islice(more, most))
        if wanted:
            at.send(BundleNak, (m.origin,), wanted)


def _on_way(at: At) -> set[Key]:
    """Returns the messages on their way to the disk."""
    return {Key.of(row) for row in at.of(at.node.storing)}
