"""The crashes of runs by round, and the links of all rounds.

The crash schedule is a DataFrame with all crashes and their recoveries; a filter selects the crashes of a round. The
driver also has a list of the rounds with crashes or recoveries.

The *incarnation* of a node is the number of its recoveries, 0 at first. A node that crashes in a round handles no event
from that round on. If the node recovers in ``end_round``, its next incarnation begins.

Node programs apply link faults (`udfs.nodes.link_faults`) and link replacements (`udfs.nodes.run`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, types as T

from pipelines.contract.round import FaultsDue, RunSet
from pipelines.contract.run_inputs import Ints, index_in_group
from pipelines.engines.checkpoints import Checkpoints
from pipelines.tables import BIGINT, FAULT_EVENT

_KEY = ("run_id", "node_id", "incarnation", "round")
CRASH = T.StructType([*(T.StructField(name, BIGINT, False) for name in _KEY), T.StructField("end_round", BIGINT, True)])
"""The columns of the crash schedule, one row per crash: in ``round``, the node crashes in incarnation ``incarnation``.

Column ``end_round`` is the round of the recovery, null if the node never recovers.
"""
_COLUMNS = ("run_id", "src", "dst", "latency_rounds")


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
    new = [replacement.select(names).rename_columns(_COLUMNS) for names in directions]
    whole = pa.concat_tables([link.select(_COLUMNS), *new])
    return whole.group_by(_COLUMNS[:3]).aggregate([("latency_rounds", "max")]).rename_columns(_COLUMNS)
