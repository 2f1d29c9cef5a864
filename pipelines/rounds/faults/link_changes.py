"""Links that others replace, which node programs are told of (`udfs.nodes.run`): their rounds, and all links."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_COLUMNS = ("run_id", "src", "dst", "latency_rounds")


class Replacements:
    """The replacements of links of all runs.

    Attributes:
        rows: The links that exist in some round, with their latencies.
    """

    def __init__(self, replacement: pa.Table, link: pa.Table) -> None:
        """Collects the rounds and the links.

        Args:
            replacement: `Inputs.replacement`.
            link: `Inputs.link`: the links at the start.
        """
        self._rounds = np.unique(replacement["round"].to_numpy())
        self.rows = _links_ever(replacement, link) if len(replacement) else link

    def next_round(self, after: int) -> int | None:
        """Returns the first round after the given one in which a link is replaced."""
        place = int(np.searchsorted(self._rounds, after, side="right"))
        return int(self._rounds[place]) if place < len(self._rounds) else None


def _links_ever(replacement: pa.Table, link: pa.Table) -> pa.Table:
    """Returns the links at the start and those that replace others, one row a direction: columns `_COLUMNS`."""
    directions = (("run_id", "a", "b", "latency_rounds"), ("run_id", "b", "a", "latency_rounds"))
    new = [replacement.select(names).rename_columns(_COLUMNS) for names in directions]
    whole = pa.concat_tables([link.select(_COLUMNS), *new])
    return whole.group_by(_COLUMNS[:3]).aggregate([("latency_rounds", "max")]).rename_columns(_COLUMNS)
