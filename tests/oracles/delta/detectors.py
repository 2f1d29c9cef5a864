"""The two duplicate detectors of section 5."""

from __future__ import annotations

from oracles.delta.messages import Multicast, Stamp


class Identifiers:
    """nts_obj_N: stores the most recent identifier of each source."""

    def __init__(self) -> None:
        self.recent: dict[int, Stamp] = {}

    def pairs(self, m: Multicast) -> list[tuple[int, Stamp]]:
        """Returns the pairs of node and identifier in the message that are compared with the stored identifiers."""
        return [(m.source, m.stamp)]

    def is_duplicate(self, m: Multicast) -> bool:
        """Returns whether the identifier of at least one pair is not newer than the stored identifier of its node."""
        return any(node in self.recent and stamp <= self.recent[node] for node, stamp in self.pairs(m))

    def update(self, m: Multicast) -> None:
        """Stores the identifiers of a first copy."""
        for node, stamp in self.pairs(m):
            self.recent[node] = stamp


class Visited(Identifiers):
    """ts_obj_N: stores the most recent identifier of each node within δ+1 hops, from the visited lists."""

    def pairs(self, m: Multicast) -> list[tuple[int, Stamp]]:
        return [(node, stamp) for node, stamp in m.visited if stamp is not None]


DETECTORS: dict[str, type[Identifiers]] = {"identifier": Identifiers, "visited": Visited}
