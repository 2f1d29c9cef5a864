"""Pauses: a node that is up handles nothing for a while, and then all that came meanwhile.

Pauses are known ahead, so a message that would be due in one is due when it ends; so is a timer. Calls come then, too
(`experiment.calls.postpone`). All that waited is handled in the order of ids, that is of the rounds of sending.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.engines.materialise.base import Materialiser
from pipelines.tables import BIGINT

PAUSE = T.StructType([T.StructField(name, BIGINT, False) for name in ("run_id", "node_id", "round", "end_round")])
"""One row a time for which a node pauses: from ``round`` on, before ``end_round``; those of a node are apart."""


class Pauses:
    """The pauses of all runs."""

    def __init__(self, pause: pa.Table, materialiser: Materialiser) -> None:
        """Keeps them.

        Args:
            pause: ``run_id, node_id, round, end_round``, see `PAUSE`.
            materialiser: Keeps the rows.
        """
        self._start, self._end = (pause[name].to_numpy() for name in ("round", "end_round"))
        self._rows, self._materialiser = pause.select(PAUSE.names), materialiser

    @property
    def is_any(self) -> bool:
        """Whether a node of any run ever pauses."""
        return len(self._rows) > 0

    @cached_property
    def schedule(self) -> DataFrame | None:
        """All pauses, see `PAUSE`; None: there are none."""
        return self._materialiser.load("pause", self._rows, PAUSE).frame if self.is_any else None

    def paused(self, round_: int) -> DataFrame | None:
        """Returns the nodes that pause in a round: ``run_id, node_id``; None: nobody."""
        if self.schedule is None or not ((self._start <= round_) & (round_ < self._end)).any():
            return None
        return self.schedule.where(f"round <= {round_} and end_round > {round_}").select("run_id", "node_id")

    def postpone(self, message: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Returns messages that are due when their receiver handles something.

        Args:
            message: Messages, with ``due_round`` and ``remaining_rounds``.
            columns: Their columns.
        """
        if self.schedule is None:
            return message
        pause = self.schedule.selectExpr(
            "run_id as pause_run", "node_id as pause_node", "round as pause_round", "end_round as pause_end"
        )
        meets = "run_id = pause_run and dst = pause_node and due_round >= pause_round and due_round < pause_end"
        changed = {
            "due_round": "coalesce(pause_end, due_round) as due_round",
            "remaining_rounds": "remaining_rounds + coalesce(pause_end - due_round, 0L) as remaining_rounds",
        }
        found = message.join(pause.hint("shuffle_hash"), F.expr(meets), "left")
        return found.selectExpr(*(changed.get(name, name) for name in columns))
