"""A dispatcher's Cache: if a new event exceeds its capacity, one event is removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oracles.epidemic import draws
from oracles.epidemic.messages import Entry, Event


@dataclass
class _CachedEvents:
    event: Event
    hops: int
    is_own: bool
    position: int


class Cache:
    """Stores at most ``buffer`` events; the eviction policy selects the event to remove."""

    def __init__(self, node: int, settings: Any, seed: int) -> None:
        self.node, self.settings, self.seed = node, settings, seed
        self.n_put = 0
        self.clear()

    def clear(self) -> None:
        self._kept: dict[tuple[int, int], _CachedEvents] = {}

    def put(self, event: Event, hops: int, is_own: bool) -> None:
        self.n_put += 1
        self._kept[event.key] = _CachedEvents(event, hops, is_own, self.n_put)
        if len(self._kept) > self.settings.buffer:
            del self._kept[self._victim().event.key]

    def _victim(self) -> _CachedEvents:
        kept = list(self._kept.values())
        if self.settings.eviction == "foreign_first":
            kept = [row for row in kept if not row.is_own] or kept
        if self.settings.eviction == "random":
            return min(kept, key=lambda row: (row.position + self._delay(row.event), row.position))
        return min(kept, key=lambda row: row.position)

    def _delay(self, event: Event) -> float:
        return self.settings.buffer * draws.uniform(self.seed, "epidemic.discard", self.node, event.source, event.seq)

    def get(self, key: tuple[int, int]) -> Event | None:
        return self._kept[key].event if key in self._kept else None

    def find(self, entry: Entry) -> Event | None:
        """Returns the cached event whose identifiers include (source, pattern, number), or None."""
        source, pattern, number = entry
        for row in self._kept.values():
            if row.event.source == source and row.event.number(pattern or 0) == number:
                return row.event
        return None

    def events(self) -> list[Event]:
        return [row.event for row in self._kept.values()]

    def hops(self, event: Event) -> int:
        return self._kept[event.key].hops
