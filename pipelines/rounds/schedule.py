"""The scheduled events of runs by round: calls and crashes; the matching subscriptions of publications; the links.

In the form ``program``, workers match publications with subscriptions (`udfs.nodes.matching`). In the form
``dataflow``, view ``matching`` matches them for one window of rounds at a time. The matches of all rounds would take
too much memory.

The crash schedule is a DataFrame with all crashes and their recoveries; a filter selects the crashes of a round. The
driver also has a list of the rounds with crashes or recoveries.

The *incarnation* of a node is the number of its recoveries, 0 at first. A node that crashes in a round handles no event
from that round on. If the node recovers in ``end_round``, its next incarnation begins.

Node programs apply link faults (`udfs.nodes.link_faults`) and link replacements (`udfs.nodes.run`).
"""

from __future__ import annotations

from functools import cached_property
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, types as T

from pipelines.contract.round import FaultsDue, RunSet
from pipelines.contract.run_inputs import Inputs, Ints, index_in_group, row_numbers
from pipelines.engines.checkpoints import Checkpoints
from pipelines.engines.frames import frame_of
from pipelines.sql.views import view_sources
from pipelines.tables import BIGINT, FAULT_EVENT, LINK
from udfs.nodes.arrow import CALL

_KEY = ("run_id", "node_id", "incarnation", "round")
CRASH = T.StructType([*(T.StructField(name, BIGINT, False) for name in _KEY), T.StructField("end_round", BIGINT, True)])
"""The columns of the crash schedule, one row per crash: in ``round``, the node crashes in incarnation ``incarnation``.

Column ``end_round`` is the round of the recovery, null if the node never recovers.
"""


def next_of(rounds: Ints, after: int) -> int | None:
    """Returns the first round after `after` in `rounds`, which are ascending; None if `rounds` has no later round."""
    index = int(np.searchsorted(rounds, after, side="right"))
    return int(rounds[index]) if index < len(rounds) else None


class Crashes:
    """The crashes of all runs."""

    def __init__(self, crash: pa.Table, n_runs: int, checkpoints: Checkpoints) -> None:
        """Numbers the crashes of each node from 0: the number is the incarnation of the node that crashes.

        `crash` has one row per crash: ``run_id, node_id, round, end_round``.
        """
        ordered = crash.sort_by([(name, "ascending") for name in ("run_id", "node_id", "round")])
        node = (ordered["run_id"].to_numpy() << 32) + ordered["node_id"].to_numpy()
        rows = ordered.add_column(2, "incarnation", pa.array(index_in_group(node)))
        self._node = ordered.select(["run_id", "node_id"])
        self._start = rows["round"].to_numpy()
        self._end = pc.fill_null(rows["end_round"], np.iinfo(np.int64).max).to_numpy()
        self._rounds = np.unique(np.concatenate([self._start, self._end[self._end < np.iinfo(np.int64).max]]))
        first = ordered.group_by("run_id").aggregate([("round", "min")]).rename_columns(["run_id", "round"])
        self._has_crash_free_runs = len(first) < n_runs
        self._last_begin = pc.max(first["round"]).as_py()
        self._rows, self._first_rows, self._checkpoints = rows.select(CRASH.names), first, checkpoints

    @cached_property
    def schedule(self) -> DataFrame | None:
        """The crash schedule, with columns `CRASH`; None if no crash is scheduled."""
        return self._checkpoints.load(self._rows) if len(self._rows) else None

    @cached_property
    def _first(self) -> DataFrame | None:
        """The first crash of each run: ``run_id, round``."""
        return self._checkpoints.load(self._first_rows) if len(self._rows) else None

    def next_round(self, after: int) -> int | None:
        """Returns the first round after `after` in which a node crashes or recovers; None if no such round follows."""
        return next_of(self._rounds, after)

    def has_crash(self, round_: int) -> bool:
        """Returns whether a node of any run crashes in round `round_`."""
        return bool((self._start == round_).any())

    def crashed_between(self, after: int, last: int) -> pa.Table:
        """Returns the nodes that crash in rounds ``after + 1`` to `last`: ``run_id, node_id``."""
        return self._node.filter(pa.array((self._start > after) & (self._start <= last)))

    def due(self, round_: int) -> FaultsDue:
        """Returns the crashes and recoveries of round `round_`."""
        if self.schedule is None or self._first is None:
            return FaultsDue(None, None, None, RunSet(is_all=False), RunSet(is_all=False))
        crashed = recovered = down = None
        disturbed = crashing = RunSet(is_all=True)
        if self._has_crash_free_runs:
            crashing = RunSet(is_all=False, run=self._first.select("run_id"))
        if self.has_crash(round_):
            crashed = self.schedule.where(f"round = {round_}").select(*_KEY)
        if (self._end == round_).any():
            back = self.schedule.where(f"end_round = {round_}")
            recovered = back.selectExpr("run_id", "node_id", "incarnation + 1 as incarnation", "end_round as round")
        if ((self._start <= round_) & (round_ < self._end)).any():
            now = self.schedule.where(f"round <= {round_} and coalesce(end_round > {round_}, true)")
            down = now.select(CRASH.names)
        if self._has_crash_free_runs or round_ < self._last_begin:
            disturbed = RunSet(is_all=False, run=self._first.where(f"round <= {round_}").select("run_id"))
        return FaultsDue(crashed, recovered, down, disturbed, crashing)


def crash_events(crash: pa.Table, horizon: int) -> pa.Table:
    """Returns the crashes and recoveries up to the horizon as rows of table ``fault_event``."""
    back = crash.filter(pc.is_valid(crash["end_round"])).drop_columns("round").rename_columns({"end_round": "round"})
    parts = [
        part.select(["run_id", "round", "node_id"]).append_column("kind", pa.repeat(kind, len(part)))
        for kind, part in (("crash", crash), ("recovery", back))
    ]
    event = pa.concat_tables(parts)
    for end in ("src", "dst"):
        event = event.append_column(end, pa.nulls(len(event), pa.int64()))
    return event.filter(pc.less_equal(event["round"], horizon)).select(FAULT_EVENT.columns)


def links_ever(replacement: pa.Table, link: pa.Table) -> pa.Table:
    """Returns the links that exist in at least one round, with their latencies, as rows of table ``link``.

    `replacement` and `link` are the tables of these names in `Inputs`.
    """
    if not len(replacement):
        return link
    directions = (("run_id", "a", "b", "latency_rounds"), ("run_id", "b", "a", "latency_rounds"))
    new = [replacement.select(names).rename_columns(LINK.columns) for names in directions]
    whole = pa.concat_tables([link.select(LINK.columns), *new])
    return whole.group_by(list(LINK.key)).aggregate([("latency_rounds", "max")]).rename_columns(LINK.columns)


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
