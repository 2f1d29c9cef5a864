"""Duplicate detection (section 5): which copies are first ones, by identifiers of the source or by visited lists.

With identifiers a node keeps the most recent number of every source. REJOIN numbers are the incarnations of their
source, so they are a row of their own: source ``-1 - R``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.protocols.delta.forward import KEY
from pipelines.protocols.delta.tables import DETECTOR

_IDENTITY = "case when kind = 'REJOIN' then -1 - source else source end"


def first_copies(copy: DataFrame, detector: DataFrame) -> DataFrame:
    """Drops what the node has handled before and, of several copies in a round, all but the first (lines 1 to 12).

    Args:
        copy: The round's copies.
        detector: Relation ``detector``, or increments of it.
    """
    asked = copy.selectExpr(*KEY, f"{_IDENTITY} as asked_source").distinct()
    known = (
        detector.withColumnRenamed("source", "asked_source")
        .join(asked.hint("shuffle_hash"), ["run_id", "node_id", "asked_source"])
        .where("last_seq >= abs(source_seq)")
        .select(KEY)
    )
    order = "row_number() over (partition by run_id, node_id, source, source_seq order by trigger) as copy_rank"
    ranked = copy.selectExpr("*", order).where("copy_rank = 1").drop("copy_rank")
    return ranked.join(known.hint("shuffle_hash"), KEY, "left_anti")


def detector_rows(first: DataFrame) -> DataFrame:
    """Gives what the detectors learn of first copies: an increment of relation ``detector`` (line 11)."""
    return first.selectExpr("run_id", "node_id", f"{_IDENTITY} as source", "abs(source_seq) as last_seq").select(
        DETECTOR.columns
    )
