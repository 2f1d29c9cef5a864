"""The two duplicate detectors of section 5."""

from __future__ import annotations

from oracles.delta.messages import Multicast, Stamp


class Identifiers:
    """nts_obj_N: the most recent identifier of every source."""

    def __init__(self) -> None:
        self.recent: dict[int, Stamp] = {}

    def pairs(self, m: Multicast) -> list[tuple[int, Stamp]]:
        """Returns the detector entry that judges the message."""
        return [(m.source, m.stamp)]

    def is_duplicate(self, m: Multicast) -> bool:
        """Returns whether some pair does not succeed the most recent one of its node."""
        return any(node in self.recent and stamp <= self.recent[node] for node, stamp in self.pairs(m))

    def update(self, m: Multicast) -> None:
        """Notes a first copy."""
        for node, stamp in self.pairs(m):
            self.recent[node] = stamp


class Visited(Identifiers):
    """ts_obj_N: the most recent identifier of every node within δ+1, from the visited lists."""

    def pairs(self, m: Multicast) -> list[tuple[int, Stamp]]:
        return [(node, stamp) for node, stamp in m.visited if stamp is not None]


DETECTORS: dict[str, type[Identifiers]] = {"identifier": Identifiers, "visited": Visited}
