"""The application calls by round, and the subscriptions that each publication satisfies.

In the form ``program``, workers match publications with subscriptions (`udfs.nodes.matching`). In the form ``dataflow``
the driver matches them for one window of rounds at a time, because the matches of all rounds would take too much
memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.contract.predicate import compiled
from pipelines.engines.checkpoints import Checkpoints
from pipelines.experiment.inputs import Inputs
from pipelines.rounds.faults import next_of
from udfs.nodes.arrow import CALL
from udfs.nodes.matching import ATTRIBUTE, COMPARISON, Matcher, values_of

_WINDOW_CALLS = 200_000
_ATTRIBUTE = ["run_id", *ATTRIBUTE]
_CALL = ["run_id", "node_id", *CALL]
WINDOW = pa.schema([
    ("run_id", pa.int64()), ("node_id", pa.int64()), *CALL.items(), ("matches", pa.list_(pa.int64())),
])  # fmt: skip
"""The columns of calls with ``matches``: the sorted ids of the matching subscriptions of a publication, else null."""


class Calls:
    """The application calls of all runs, by round."""

    def __init__(self, inputs: Inputs, checkpoints: Checkpoints) -> None:
        """Sorts the calls by round.

        Args:
            inputs: The calls of all runs, with the attributes of publications and the predicates of subscriptions.
            checkpoints: Stores the DataFrames of calls.
        """
        self._checkpoints = checkpoints
        self._call = inputs.call.sort_by("round")
        self._rounds = self._call["round"].to_numpy()
        self._attribute = inputs.attribute.sort_by("round")
        self._attribute_rounds = self._attribute["round"].to_numpy()
        kind = self._call["kind"].combine_chunks().dictionary_encode()
        self._kind_codes = kind.indices.to_numpy()
        self._kinds = kind.dictionary.to_pylist()
        self._predicate = inputs.predicate
        self._window: tuple[int, int] = (0, 0)
        self._frame: DataFrame | None = None

    def next_round(self, after: int) -> int | None:
        """Returns the first round after `after` with a call; None if no call follows."""
        return next_of(self._rounds, after)

    def kinds(self, round_: int) -> set[str]:
        """Returns the kinds of the calls in round `round_`."""
        first, last = np.searchsorted(self._rounds, [round_, round_ + 1])
        return {self._kinds[code] for code in np.unique(self._kind_codes[first:last])}

    def due(self, round_: int) -> DataFrame | None:
        """Returns the calls in round `round_` as a DataFrame with columns `WINDOW`; None if the round has no calls."""
        if not self.kinds(round_):
            return None
        if self._frame is None or not self._window[0] <= round_ < self._window[1]:
            self._frame = self._read_window(round_)
        return self._frame.where(f"round = {round_}")

    def between(self, after: int, last: int) -> tuple[pa.Table, pa.Table, int]:
        """Returns the calls of rounds ``after + 1`` to `last`.

        If these rounds have more than 200,000 calls, the result ends at an earlier round.

        Returns:
            The calls, columns ``run_id, node_id`` and `CALL`; the attributes of their publications, ``run_id, source,
            source_seq, attribute, number, whole, text``; the last round that the result covers.
        """
        first, end = np.searchsorted(self._rounds, [after, last], side="right")
        reach = last
        if end - first > _WINDOW_CALLS:
            reach = self._last_round(int(first), int(first) + _WINDOW_CALLS)
            end = np.searchsorted(self._rounds, reach, side="right")
        of_calls = np.searchsorted(self._attribute_rounds, [after, reach], side="right")
        attribute = self._attribute.slice(int(of_calls[0]), int(of_calls[1] - of_calls[0]))
        return self._call.slice(int(first), int(end - first)).select(_CALL), attribute.select(_ATTRIBUTE), reach

    def all(self) -> DataFrame:
        """Returns the calls of all rounds as a DataFrame, without ``matches``."""
        return self._checkpoints.load(self._call.select(_CALL))

    def _read_window(self, round_: int) -> DataFrame:
        """Returns the calls of a window of rounds from `round_` on."""
        start = int(np.searchsorted(self._rounds, round_))
        last_round = self._last_round(start, start + _WINDOW_CALLS)
        end = int(np.searchsorted(self._rounds, last_round, side="right"))
        self._window = (round_, last_round + 1)
        call = self._call.slice(start, end - start).select(_CALL)
        matches = call.append_column("matches", self._matches(call, round_, last_round))
        return self._checkpoints.load(matches.cast(WINDOW))

    def _matches(self, call: pa.Table, first_round: int, last_round: int) -> pa.Array:
        """Returns, for each row of `call`, the ids of its matching subscriptions; null if it has none."""
        first, last = np.searchsorted(self._attribute_rounds, [first_round, last_round + 1])
        found = {
            (run, *publication): matcher.matches(values)
            for run, rows in _by_run(self._attribute.slice(int(first), int(last - first)), ATTRIBUTE).items()
            if (matcher := self._matchers.get(run)) is not None
            for publication, values in values_of(rows).items()
        }
        keys = zip(*(call[name].to_pylist() for name in ("run_id", "node_id", "source_seq")), strict=True)
        return pa.array([found.get(key) or None for key in keys], pa.list_(pa.int64()))

    @cached_property
    def _matchers(self) -> dict[int, Matcher]:
        return {run: Matcher(rows) for run, rows in _by_run(compiled(self._predicate), COMPARISON).items()}

    def _last_round(self, start: int, end: int) -> int:
        """Returns the last round of a window that begins with the call at index `start`.

        All calls of the window have indexes below `end`, unless a single round has more calls.
        """
        last = int(self._rounds[min(end, len(self._rounds)) - 1])
        if end < len(self._rounds) and int(self._rounds[start]) < last:
            return int(self._rounds[int(np.searchsorted(self._rounds, last)) - 1])
        return last


def _by_run(rows: pa.Table, columns: Sequence[str]) -> dict[int, list[tuple[Any, ...]]]:
    """Returns the values of `columns` in the rows of each run."""
    found = defaultdict[int, list[tuple[Any, ...]]](list)
    for run, *values in zip(*(rows[name].to_pylist() for name in ("run_id", *columns)), strict=True):
        found[run].append(tuple(values))
    return found
