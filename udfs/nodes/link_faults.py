"""Link faults of node programs: loss, delay and duplication of messages.

A message is subject to the faults of its sending round in this order: duplication, delay of each copy, loss. A draw is
a hash of the salt of the fault and of the message, so it does not depend on other events.

An `NthFault` applies to one message only: the n-th message that matches its links, rounds and kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from udfs.nodes.hashing import of_int, signed, uniform, xxhash64
from udfs.nodes.world import Flight

_ALL = (1 << 64) - 1
COPY_ID = 1 << 29
"""The difference between the id of a copy that an `NthFault` creates and the id of the copied message."""


class Fault(NamedTuple):
    """A link fault that applies to messages with a probability.

    Attributes:
        effect: ``lose``, ``reorder``, ``delay``, ``duplicate``, or ``copy`` (a duplicate by an `NthFault`).
        kinds: The message kinds that the fault applies to, or None for all kinds.
        rate: The probability, 0 to 1.
        salt: The salt of the hashes that serve as draws.
        low: The minimum delay in rounds.
        high: The maximum delay in rounds.
        first_round: For ``delay``: the first sending round in which messages are delayed.
        last_round: For ``delay``: the last sending round in which messages are delayed.
    """

    effect: str
    kinds: Sequence[str] | None
    rate: float
    salt: int
    low: int
    high: int
    first_round: int
    last_round: int

    def strikes(self, *keys: int) -> bool:
        """Returns whether the fault applies to the message that `keys` identify. The draw is a hash of `keys`."""
        return self.rate >= 1.0 or uniform(xxhash64(self.salt, *keys)) < self.rate

    def rounds(self, *keys: int) -> int:
        """Returns the delay in rounds of the message that `keys` identify, or 0 if the fault does not apply to it."""
        if not self.strikes(*keys):
            return 0
        return self.low + xxhash64(self.salt, *keys, 1) % (self.high - self.low + 1)

    def rounds_in_order(self, flight: Flight) -> int:
        """Returns the delay of `flight` in rounds. With this delay it follows all earlier messages of its link."""
        found = [
            self.rounds(flight.src, flight.dst, flight.sent_round - ago) - ago
            for ago in range(self.high + 1)
            if self.first_round <= flight.sent_round - ago <= self.last_round
        ]
        return max([0, *found])


class NthFault(NamedTuple):
    """A fault that applies to the n-th message that matches it. The fields are columns of input table `NTH_FAULT`."""

    effect: str
    src: int | None
    dst: int | None
    round: int
    end_round: int
    kinds: Sequence[str] | None
    nth: int
    salt: int
    low: int
    high: int

    def counts(self, flight: Flight) -> bool:
        """Returns whether message `flight` matches the rounds, the link and the kinds of the fault."""
        return (
            self.round <= flight.sent_round < self.end_round
            and self.src in (None, flight.src)
            and self.dst in (None, flight.dst)
            and (self.kinds is None or flight.kind in self.kinds)
        )

    @property
    def fault(self) -> Fault:
        """The effect on the n-th message, as a fault with probability 1."""
        return Fault(self.effect, None, 1.0, self.salt, self.low, self.high, self.round, self.end_round)


class RunLinkFaults:
    """The link faults of one run.

    Attributes:
        counted: For each `NthFault`, the number of messages that have matched it.
    """

    def __init__(
        self, faults: Iterable[Sequence[Any]], sides: Iterable[Sequence[Any]], nth: Iterable[Sequence[Any]] = (),
        counted: Iterable[int] = (),
    ) -> None:  # fmt: skip
        """Indexes the faults by link and by node.

        Args:
            faults: Rows of src, dst, round, end_round and the fields of `Fault`. The fault applies to messages that are
                sent from ``round`` to the round before ``end_round``. Null src and dst stand for all links.
            sides: Rows of node, round, end_round, and the side of the partition that contains the node in these rounds.
            nth: Rows with the fields of `NthFault`.
            counted: For each row of `nth`, the number of messages that matched it in earlier blocks. If it is empty, no
                message has matched.
        """
        self._faults: dict[tuple[int | None, int | None], list[tuple[int, int, Fault]]] = defaultdict(list)
        self._sides: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for src, dst, begin, end, *fault in faults:
            self._faults[src, dst].append((begin, end, Fault(*fault)))
        self._nth = [NthFault(*row) for row in nth]
        self.counted = [*counted] or [0] * len(self._nth)
        for node, begin, end, side in sides:
            self._sides[node].append((begin, end, side))

    def strike(self, sent: list[Flight]) -> list[Flight]:
        """Applies the faults to `sent`, the messages that are sent in a round.

        Returns the messages, and the copies that faults create, with new due rounds and fates.
        """
        counts: dict[Any, int] = defaultdict(int)
        found = []
        for flight in sent:
            source, seq = (getattr(flight.message, name, None) for name in ("source", "source_seq"))
            alike = (flight.src, flight.dst, flight.kind, source, seq)
            counts[alike] += 1
            if flight.src == flight.dst:
                found.append(flight)
                continue
            faults = [*self._met(flight), *self._counted_faults(flight)]
            if faults:
                found += self._struck(flight, faults, _draw(flight, source, seq, counts[alike]))
            else:
                found.append(self._parted(flight))
        return found

    def _met(self, flight: Flight) -> list[Fault]:
        times = [*self._faults.get((flight.src, flight.dst), ()), *self._faults.get((None, None), ())]
        return [
            fault for begin, end, fault in times
            if begin <= flight.sent_round < end and (fault.kinds is None or flight.kind in fault.kinds)
        ]  # fmt: skip

    def _counted_faults(self, flight: Flight) -> list[Fault]:
        found = []
        for place, fault in enumerate(self._nth):
            if fault.counts(flight):
                self.counted[place] += 1
                if self.counted[place] == fault.nth:
                    found.append(fault.fault)
        return found

    def _struck(self, flight: Flight, faults: Sequence[Fault], draw: int) -> list[Flight]:
        copies = [(flight, draw)]
        twice = [fault for fault in faults if fault.effect in ("duplicate", "copy") and fault.strikes(draw)]
        if twice:
            after = max(fault.rounds(draw) for fault in twice)
            larger = 1 if any(fault.effect == "duplicate" for fault in twice) else COPY_ID
            copy = flight._replace(message_id=flight.message_id + larger, due_round=flight.due_round + after)
            copies.append((copy, xxhash64(draw, 1)))
        return [self._parted(_delayed(one, faults, drawn)) for one, drawn in copies]

    def _parted(self, flight: Flight) -> Flight:
        if not self._sides:
            return flight
        sides = [self._side(end, flight.sent_round) for end in (flight.src, flight.dst)]
        is_cut = None not in sides and sides[0] != sides[1]
        return flight._replace(fate="lost_link") if is_cut else flight

    def _side(self, node: int, round_: int) -> int | None:
        return next((side for begin, end, side in self._sides.get(node, ()) if begin <= round_ < end), None)


def _delayed(flight: Flight, faults: Sequence[Fault], draw: int) -> Flight:
    later = 0
    for fault in faults:
        if fault.effect == "reorder":
            later = max(later, fault.rounds(draw))
        elif fault.effect == "delay":
            later = max(later, fault.rounds_in_order(flight))
    is_lost = any(fault.effect == "lose" and fault.strikes(draw) for fault in faults)
    return flight._replace(due_round=flight.due_round + later, fate="lost_link" if is_lost else flight.fate)


def _draw(flight: Flight, source: int | None, seq: int | None, occurrence: int) -> int:
    """Returns a hash of a message. Messages of a round that are equal otherwise differ in `occurrence`."""
    keys = (-1 if source is None else source, -1 if seq is None else seq)
    return signed(of_int(occurrence, xxhash64(flight.kind, flight.src, flight.dst, flight.sent_round, *keys) & _ALL))
