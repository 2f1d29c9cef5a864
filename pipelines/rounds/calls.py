"""The application calls by round, and the subscriptions that each publication satisfies.

In the form ``program``, workers match publications with subscriptions (`udfs.nodes.matching`). In the form
``dataflow``, view ``matching`` matches them for one window of rounds at a time. The matches of all rounds would take
too much memory.
"""

from __future__ import annotations

from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from pipelines.contract.run_inputs import Inputs, row_numbers
from pipelines.engines.checkpoints import Checkpoints
from pipelines.engines.frames import frame_of
from pipelines.rounds.faults import next_of
from pipelines.sql.views import view_sources
from udfs.nodes.arrow import CALL

_PUBLICATION = ["run_id", "source", "source_seq"]
_ATTRIBUTE = [*_PUBLICATION, "attribute", "number", "whole", "text"]
_WINDOW_CALLS = 200_000
_MATCHES = """
with publication as (select * from {publication}), predicate as (select * from {predicate})
select run_id, source, source_seq, array_sort(collect_list(subscription_id)) as matches
from (
{matching}
) matching
group by run_id, source, source_seq
"""


def matches(spark: SparkSession, publication: pa.Table, predicate: pa.Table) -> pa.Table:
    """Returns the sorted ids of the subscriptions that match a publication: ``run_id, source, source_seq, matches``.

    `publication` has columns ``run_id, source, source_seq, topic, content``, and `predicate` those of table
    ``predicate``. A publication without a matching subscription has no row.
    """
    names = {name: f"calls_{name}_{uuid4().hex[:12]}" for name in ("publication", "predicate")}
    for name, rows in (("publication", publication), ("predicate", predicate)):
        frame_of(spark, rows).createOrReplaceTempView(names[name])
    try:
        return spark.sql(_MATCHES.format(**names, matching=view_sources()["matching"])).toArrow()
    finally:
        for view in names.values():
            spark.catalog.dropTempView(view)


_CALL = ["run_id", "node_id", *CALL]
WINDOW = pa.schema([
    ("run_id", pa.int64()), ("node_id", pa.int64()), *CALL.items(), ("matches", pa.list_(pa.int64())),
])  # fmt: skip
"""The columns of calls with ``matches``: the sorted ids of the matching subscriptions of a publication, else null."""


class Calls:
    """The application calls of all runs, by round."""

    def __init__(self, inputs: Inputs, checkpoints: Checkpoints) -> None:
        """Sorts the calls of `inputs` by round. `checkpoints` stores DataFrames of calls with their matches."""
        self._checkpoints = checkpoints
        self._call = inputs.call.sort_by("round")
        self._rounds = self._call["round"].to_numpy()
        self._attribute = inputs.attribute.sort_by("round")
        self._attribute_rounds = self._attribute["round"].to_numpy()
        self._publication = inputs.publication.select([*_PUBLICATION, "topic", "content"])
        self._predicate = inputs.predicate
        self._window: tuple[int, int] = (0, 0)
        self._frame: DataFrame | None = None

    def next_round(self, after: int) -> int | None:
        """Returns the first round after `after` with a call; None if no call follows."""
        return next_of(self._rounds, after)

    def kinds(self, round_: int) -> set[str]:
        """Returns the kinds of the calls in round `round_`."""
        first, last = np.searchsorted(self._rounds, [round_, round_ + 1])
        return set(pc.unique(self._call["kind"].slice(first, last - first)).to_pylist())

    def due(self, round_: int) -> DataFrame | None:
        """Returns the calls in round `round_` as a DataFrame with columns `WINDOW`; None if the round has no calls."""
        if not self.kinds(round_):
            return None
        if self._frame is None or not self._window[0] <= round_ <= self._window[1]:
            call, _, last = self.between(round_ - 1, int(self._rounds[-1]))
            rows = call.append_column("matches", self._matches(call)).cast(WINDOW)
            self._frame, self._window = self._checkpoints.load(rows), (round_, last)
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

    def _matches(self, call: pa.Table) -> pa.ChunkedArray:
        """Returns, for each row of `call`, the ids of its matching subscriptions; null if it has none."""
        given = call.select(["run_id", "node_id", "source_seq"]).rename_columns(_PUBLICATION)
        publication = self._publication.join(given, _PUBLICATION, join_type="left semi")
        if not len(self._predicate) or not len(publication):
            return pa.chunked_array([pa.nulls(len(call), pa.list_(pa.int64()))])
        found = matches(self._checkpoints.session.spark, publication, self._predicate)
        index = found.select(_PUBLICATION).append_column("index", row_numbers(found))
        place = given.append_column("place", row_numbers(call))
        joined = place.join(index, _PUBLICATION, join_type="left outer").sort_by("place")
        return found["matches"].take(joined["index"])

    def _last_round(self, start: int, end: int) -> int:
        """Returns the last round whose calls end before index `end`, or the round of `start` if it has more calls."""
        last = int(self._rounds[min(end, len(self._rounds)) - 1])
        if end < len(self._rounds) and int(self._rounds[start]) < last:
            return int(self._rounds[int(np.searchsorted(self._rounds, last)) - 1])
        return last
