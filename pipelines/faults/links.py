"""From the link faults of a scenario to rows of `LINK_FAULT` and `EVENT`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines import hashing
from pipelines.errors import Problem, nearest
from pipelines.faults.bursts import bad_times
from pipelines.faults.schedule import FOR_GOOD
from pipelines.faults.tables import EVENT, LINK_FAULT
from pipelines.overlay.graph import Ints, Overlay
from pipelines.scenario.link_faults_spec import LinkFault, Loss, MessageFault
from pipelines.workload.nodes import ids_by_name, unknown_node

Pair = tuple[int | None, int | None]
_ANY: Pair = (None, None)
_MAX_LISTED = 10


@dataclass
class LinkRows:
    """The rows of one run while they are being put together.

    Attributes:
        overlay: The run's overlay.
        seed: The run's seed.
        horizon: The last round in which something can go wrong.
    """

    overlay: Overlay
    seed: int
    horizon: int
    _fault: list[tuple[Any, ...]] = field(default_factory=list)
    _event: set[tuple[Any, ...]] = field(default_factory=set)

    def add(self, fault: LinkFault, number: int) -> None:
        """Adds a fault of the scenario's list.

        Args:
            fault: The fault; its links are in the overlay.
            number: Its place in the list: each fault draws on its own.
        """
        if fault.round > self.horizon or (isinstance(fault, MessageFault) and self._never_strikes(fault)):
            return
        until = FOR_GOOD if fault.until is None else fault.until
        purpose = f"faults.{number}.{fault.kind}"
        for pair in self._pairs(fault):
            self.event(fault.kind, pair, fault.round, until)
        if isinstance(fault, Loss) and fault.burst is not None:
            self._bursts(fault, purpose, until)
        elif isinstance(fault, Loss):
            for pair in self._pairs(fault):
                self._row("lose", pair, fault.round, until, fault, purpose, fault.rate)

    @staticmethod
    def _never_strikes(fault: MessageFault) -> bool:
        good_rate = fault.burst.good_rate if isinstance(fault, Loss) and fault.burst is not None else 0.0
        return fault.rate == 0.0 and good_rate == 0.0

    def event(self, kind: str, pair: Pair, start: int, end: int) -> None:
        """Notes that a fault begins and ends."""
        self._event.add((start, kind, None, *pair))
        if end <= self.horizon:
            self._event.add((end, f"{kind}_end", None, *pair))

    def _pairs(self, fault: LinkFault) -> list[Pair]:
        """Gives the directed links of a fault; one pair of nulls stands for all."""
        return [_ANY] if fault.links is None else list(self._directed(fault))

    def _directed(self, fault: LinkFault) -> list[tuple[int, int]]:
        """Gives the directed links of a fault, one by one."""
        ids = ids_by_name(self.overlay)
        if fault.links is None:
            forward = list(zip(self.overlay.a.tolist(), self.overlay.b.tolist(), strict=True))
        else:
            forward = [(ids[a], ids[b]) for a, b in fault.links]
        return forward if fault.direction == "forward" else forward + [(b, a) for a, b in forward]

    def _row(self, effect: str, pair: Pair, start: int, end: int, fault: LinkFault, purpose: str, rate: float) -> None:
        kinds = fault.kinds if isinstance(fault, MessageFault) else None
        salt = int(hashing.bits(self.seed, purpose).astype(np.int64))
        self._fault.append((effect, *pair, start, end, kinds, salt, rate))

    def _bursts(self, fault: Loss, purpose: str, until: int) -> None:
        """Adds the bad times of each directed link, and the times between them where messages get lost then, too."""
        burst = fault.burst
        if burst is None:
            raise TypeError("only a fault with bursts has bad times")
        end = min(until, self.horizon + 1)
        n_nodes = len(self.overlay.names)
        link = np.array([src * n_nodes + dst for src, dst in self._directed(fault)], dtype=np.int64)
        times = bad_times(burst, link, (fault.round, end), self.seed, f"{purpose}.burst")
        good_from = dict.fromkeys(link.tolist(), fault.round)
        for of, low, high in zip(*(column.tolist() for column in times), strict=True):
            pair = divmod(of, n_nodes)
            self.event("burst", pair, low, high)
            self._row("lose", pair, low, high, fault, purpose, fault.rate)
            self._between(fault, purpose, pair, good_from[of], low, burst.good_rate)
            good_from[of] = high
        for of, low in good_from.items():
            self._between(fault, purpose, divmod(of, n_nodes), low, end, burst.good_rate)

    def _between(self, fault: Loss, purpose: str, pair: Pair, low: int, high: int, rate: float) -> None:
        if low < high and rate > 0.0:
            self._row("lose", pair, low, high, fault, purpose, rate)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Gives the rows: `LINK_FAULT` and `EVENT`."""
        return _table(self._fault, LINK_FAULT), _table(sorted(self._event, key=_null_first), EVENT)


def _null_first(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is not None, value) for value in row)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def link_problems(
    fault: LinkFault, place: tuple[str | int, ...], overlay: Overlay, kinds: Callable[[], Sequence[str]]
) -> Iterator[Problem]:
    """Yields what a link fault names and the overlay or the protocol lacks.

    Args:
        fault: The fault.
        place: Where it stands in the scenario.
        overlay: The run's overlay.
        kinds: Gives the message kinds of the protocol.
    """
    ids = ids_by_name(overlay)
    linked = set(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    for index, pair in enumerate(fault.links or []):
        unknown = [end for end in (0, 1) if pair[end] not in ids]
        for end in unknown:
            yield Problem((*place, "links", index, end), unknown_node(pair[end], overlay))
        if not unknown and tuple(sorted((ids[pair[0]], ids[pair[1]]))) not in linked:
            around = _neighbours(ids[pair[0]], overlay)
            message = f"there is no link between {pair[0]!r} and {pair[1]!r}; linked with {pair[0]!r}: {around}"
            yield Problem((*place, "links", index), message)
    if isinstance(fault, MessageFault) and fault.kinds is not None:
        known = kinds()
        for index, name in enumerate(fault.kinds):
            if name not in known:
                message = f"the protocol has no messages of kind {name!r};{nearest(name, known)} allowed: "
                yield Problem((*place, "kinds", index), message + ", ".join(known))


def _neighbours(node: int, overlay: Overlay) -> str:
    ends: Ints = np.concatenate([overlay.b[overlay.a == node], overlay.a[overlay.b == node]])
    names = [overlay.names[end] for end in np.sort(ends).tolist()]
    return ", ".join(names[:_MAX_LISTED]) + (
        f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    )
