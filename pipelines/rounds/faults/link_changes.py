"""Links that others replace: which links there are in a round.

Replacements are known ahead (`faults.replacements`). Until its round the old link is a link, though it may lose what is
sent on it; from that round on it is none, and the other one is.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, types as T

from pipelines.contract.due import LinksDue
from pipelines.engines.materialise.base import Materialiser
from pipelines.inputs.faults.timeline import FOR_GOOD
from pipelines.tables import BIGINT

_ENDS = ("run_id", "src", "dst")
LINK_TIME = T.StructType([
    T.StructField(name, BIGINT, False) for name in (*_ENDS, "latency_rounds", "round", "end_round")
])  # fmt: skip
"""One row a directed link and a time for which it is there, from ``round`` on and before ``end_round``."""
_LINK = T.StructType(LINK_TIME.fields[: len(_ENDS) + 1])


class Replacements:
    """The links of all runs, and when they are there.

    Attributes:
        rows: All links that there ever are, with their latencies.
    """

    def __init__(self, replacement: pa.Table, link: pa.Table, materialiser: Materialiser) -> None:
        """Finds the times of links.

        Args:
            replacement: `Inputs.replacement`.
            link: `Inputs.link`: the links at the start.
            materialiser: Keeps the times.
        """
        self._rounds = np.unique(replacement["round"].to_numpy())
        self._start, self._materialiser = link.select(_LINK.names), materialiser
        self.rows = link
        self._times: pa.Table | None = None
        if len(replacement):
            self._times = link_times(replacement, link)
            ever = self._times.group_by(list(_ENDS)).aggregate([("latency_rounds", "max")])
            self.rows = ever.rename_columns(_LINK.names)

    @cached_property
    def standing(self) -> DataFrame:
        """The links at the start, with their latencies."""
        return self._materialiser.load("link", self._start, _LINK).frame

    @cached_property
    def links(self) -> DataFrame:
        """The rows of `rows`."""
        return self.standing if self._times is None else self._materialiser.load("link_ever", self.rows, _LINK).frame

    @cached_property
    def _time(self) -> DataFrame | None:
        return None if self._times is None else self._materialiser.load("link_time", self._times, LINK_TIME).frame

    def next_round(self, after: int) -> int | None:
        """Returns the first round after the given one in which a link is replaced."""
        place = int(np.searchsorted(self._rounds, after, side="right"))
        return int(self._rounds[place]) if place < len(self._rounds) else None

    def due(self, round_: int) -> LinksDue:
        """Returns the links of a round."""
        if self._time is None:
            return LinksDue(self.standing, None, None, may_change=False)
        place = int(np.searchsorted(self._rounds, round_, side="right"))
        # A literal that changes with replacements only: engines that compile plans compile few.
        last = int(self._rounds[place - 1]) if place else 0
        now = self._time.where(f"round <= {last} and end_round > {last}")
        if not place or last != round_:
            return LinksDue(now, None, None, may_change=True)
        gone, come = (self._time.where(f"{end} = {round_}").select(*_ENDS) for end in ("end_round", "round"))
        return LinksDue(now, gone, come, may_change=True)


def link_times(replacement: pa.Table, link: pa.Table) -> pa.Table:
    """Returns the times of all directed links, columns of `LINK_TIME`.

    Args:
        replacement: Columns of `faults.tables.REPLACEMENT`, with ``run_id``; those of a run in their order.
        link: ``run_id, src, dst, latency_rounds``: those at the start.
    """
    begun = link.select([*_ENDS, "latency_rounds"])
    rows = [[*row.values(), 0, FOR_GOOD] for row in begun.to_pylist()]
    place = {tuple(row[:3]): number for number, row in enumerate(rows)}
    for swap in replacement.to_pylist():
        run, round_ = swap["run_id"], swap["round"]
        for src, dst in ((swap["old_a"], swap["old_b"]), (swap["old_b"], swap["old_a"])):
            rows[place[run, src, dst]][-1] = round_
        for src, dst in ((swap["a"], swap["b"]), (swap["b"], swap["a"])):
            place[run, src, dst] = len(rows)
            rows.append([run, src, dst, swap["latency_rounds"], round_, FOR_GOOD])
    return pa.table([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], LINK_TIME.names)
