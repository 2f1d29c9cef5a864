"""The application calls by round: the driver knows which round has which kinds, the frames come in windows of rounds.

Publications are matched against the subscriptions of their run when their window is made, so that memory holds the
matches of one window only.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, types as T

from pipelines.engines.materialise.base import Materialiser, Relation
from pipelines.experiment.inputs import Inputs
from pipelines.matching.matches import anchored_predicates, matches
from pipelines.matching.predicate_table import compiled
from pipelines.tables import BIGINT, STRING

_WINDOW_CALLS = 200_000


def _schema(key: str, **others: T.DataType) -> T.StructType:
    fields = [T.StructField(name, BIGINT, False) for name in key.split(",")]
    return T.StructType(fields + [T.StructField(name, kind, True) for name, kind in others.items()])


CALL = _schema(
    "run_id,node_id,source_seq,round", kind=STRING, subscription_id=BIGINT, join_point=BIGINT,
    topic=STRING, guarantee=STRING, keys=T.ArrayType(STRING), peer=BIGINT, role=STRING,
)  # fmt: skip
_PREDICATE = _schema(
    "run_id,subscription_id", attribute=STRING, op=STRING, number=T.DoubleType(), whole=BIGINT, text=STRING
)  # fmt: skip
_ATTRIBUTE = _schema("run_id,source,source_seq", attribute=STRING, number=T.DoubleType(), whole=BIGINT, text=STRING)


class Calls:
    """The calls of all runs."""

    def __init__(self, inputs: Inputs, materialiser: Materialiser) -> None:
        """Sorts the calls by round; nothing is materialised yet but the predicates."""
        self._materialiser = materialiser
        self._call = inputs.call.sort_by("round")
        self._rounds = self._call["round"].to_numpy()
        self._attribute = inputs.attribute.sort_by("round")
        self._attribute_rounds = self._attribute["round"].to_numpy()
        kind = self._call["kind"].combine_chunks().dictionary_encode()
        self._kind_codes = kind.indices.to_numpy()
        self._kinds = kind.dictionary.to_pylist()
        self._window: tuple[int, int] = (0, 0)
        self._relation: Relation | None = None
        self._retired: list[Relation] = []
        self._anchored: DataFrame | None = None
        if len(inputs.predicate):
            loaded = materialiser.load("predicate", compiled(inputs.predicate), _PREDICATE)
            relations, _ = materialiser.checkpoint({"anchored": anchored_predicates(loaded.frame)}, {})
            loaded.release()
            self._anchored = relations["anchored"].frame

    def next_round(self, after: int) -> int | None:
        """Returns the first round after the given one that has calls."""
        place = int(np.searchsorted(self._rounds, after, side="right"))
        return int(self._rounds[place]) if place < len(self._rounds) else None

    def kinds(self, round_: int) -> set[str]:
        """Returns the kinds of calls of a round."""
        first, last = np.searchsorted(self._rounds, [round_, round_ + 1])
        return {self._kinds[code] for code in np.unique(self._kind_codes[first:last])}

    def due(self, round_: int) -> DataFrame | None:
        """Returns the calls of a round (columns in `contract`), or None."""
        if not self.kinds(round_):
            return None
        if self._relation is None or not self._window[0] <= round_ < self._window[1]:
            self._make_window(round_)
        if self._relation is None:
            return None
        return self._relation.frame.where(f"round = {round_}")

    def between(self, after: int, last: int) -> tuple[DataFrame | None, int]:
        """Returns the calls after a round up to another one, and how far these reach: a window may end before.

        Args:
            after: The round after which calls are meant.
            last: The last round that is meant.
        """
        first = self.next_round(after)
        if first is None or first > last:
            return None, last
        calls = self.due(first)
        beyond = self.next_round(self._window[1] - 1)
        reach = last if beyond is None or beyond > last else beyond - 1
        if calls is None or self._relation is None:
            return None, reach
        return self._relation.frame.where(f"round > {after} and round <= {reach}"), reach

    def all(self) -> DataFrame:
        """Returns all calls of all rounds, without ``matches``."""
        return self._materialiser.load("calls", self._call.select(CALL.names), CALL).frame

    def retired(self) -> list[Relation]:
        """Returns what no later round reads, once; plans of earlier rounds may."""
        retired, self._retired = self._retired, []
        return retired

    def _make_window(self, first_round: int) -> None:
        """Takes whole rounds until the window is full."""
        start = int(np.searchsorted(self._rounds, first_round))
        end = min(start + _WINDOW_CALLS, len(self._rounds))
        last_round = int(self._rounds[end - 1])
        if end < len(self._rounds) and int(self._rounds[start]) < last_round:
            last_round = int(self._rounds[int(np.searchsorted(self._rounds, last_round)) - 1])
        end = int(np.searchsorted(self._rounds, last_round, side="right"))
        if self._relation is not None:
            self._retired.append(self._relation)
        call = self._materialiser.load("call", self._call.slice(start, end - start).select(CALL.names), CALL)
        matched, loaded = self._matched(call.frame, first_round, last_round)
        relations, _ = self._materialiser.checkpoint({"call_window": matched}, {})
        for relation in (call, *loaded):
            relation.release()
        self._relation = relations["call_window"]
        self._window = (first_round, last_round + 1)

    def _matched(self, call: DataFrame, first_round: int, last_round: int) -> tuple[DataFrame, list[Relation]]:
        first, last = np.searchsorted(self._attribute_rounds, [first_round, last_round + 1])
        if self._anchored is None or first == last:
            return call.selectExpr("*", "cast(null as array<bigint>) as matches"), []
        rows: pa.Table = self._attribute.slice(int(first), int(last - first)).select(_ATTRIBUTE.names)
        attribute = self._materialiser.load("attribute", rows, _ATTRIBUTE)
        found = matches(attribute.frame, self._anchored).withColumnRenamed("source", "node_id")
        return call.join(found, ["run_id", "node_id", "source_seq"], "left"), [attribute]
