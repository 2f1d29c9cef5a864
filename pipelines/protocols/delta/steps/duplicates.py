"""Duplicate detection (section 5): which copies are first ones, by identifiers of the source or by visited lists.

With identifiers a node keeps the most recent number of every source. REJOIN numbers are the incarnations of their
source, so they are a row of their own: source ``-1 - R``.

With visited lists a node keeps, for every node it has heard of, the most recent MsgId of a message that passed there. A
copy is a duplicate when one of its pairs does not succeed the MsgId kept for that node (rule R3). Nodes take the
copies of a round one by one, and only accepted ones count, so an Arrow function decides the copies of each node in
their order (`udfs.delta.detectors`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import KEY, NODE, mapped, row_number
from pipelines.protocols.delta.steps.routing import Keep
from pipelines.protocols.delta.tables import DETECTOR
from udfs.delta.detectors import ACCEPTED, accepted_copies

_IDENTITY = "case when kind = 'REJOIN' then -1 - source else source end"
_COPY = [*NODE, "trigger"]
_IN_TURN = row_number("first copies of a node", "run_id, node_id", "trigger, source, source_seq")
_MSG_ID = f"cast(round * 1048576 + {_IN_TURN} as bigint) as msg_id"
_COPY_RANK = row_number("copies of a message", "run_id, node_id, source, source_seq", "trigger")


def first_copies(copy: DataFrame, detector: DataFrame) -> DataFrame:
    """Drops what the node has handled before and, of several copies in a round, all but the first (lines 1 to 12).

    Args:
        copy: The round's copies, of runs with identifiers.
        detector: Relation ``detector``, or increments of it.
    """
    asked = copy.selectExpr(*KEY, f"{_IDENTITY} as asked_source").distinct()
    known = (
        detector.withColumnRenamed("source", "asked_source")
        .join(asked.hint("shuffle_hash"), ["run_id", "node_id", "asked_source"])
        .where("last_seq >= abs(source_seq)")
        .select(KEY)
    )
    ranked = copy.selectExpr("*", f"{_COPY_RANK} as copy_rank").where("copy_rank = 1").drop("copy_rank")
    return ranked.join(known.hint("shuffle_hash"), KEY, "left_anti")


def first_visits(copy: DataFrame, detector: DataFrame, keep: Keep) -> DataFrame:
    """Drops the same by the lists of visited nodes; a node's own messages are first ones.

    Args:
        copy: The round's copies, of runs with visited lists.
        detector: Relation ``detector``: ``source`` is the node that was visited, ``last_seq`` a MsgId that passed.
        keep: Materialises what several steps read.
    """
    pair = copy.selectExpr(*_COPY, "inline(visited)").where("msg_id is not null")
    passed = detector.withColumnRenamed("source", "node")
    old = keep("old_copy", pair.join(passed, [*NODE, "node"]).where("msg_id <= last_seq").select(_COPY).distinct())
    fresh = copy.where("sender is not null").selectExpr(*_COPY, "visited").join(old, _COPY, "left_anti")
    of_node = fresh.groupBy(NODE).agg(F.expr("collect_list(struct(trigger, visited)) as copies"))
    accepted = mapped(of_node, (*NODE, "copies"), accepted_copies, ACCEPTED)
    own = copy.where("sender is null").select(_COPY)
    return copy.join(keep("accepted_copy", accepted.unionByName(own)), _COPY, "left_semi")


def numbered(first: DataFrame) -> DataFrame:
    """Adds MsgId_N to first copies (line 10): it grows with the round and the order within it (rule R4)."""
    return first.selectExpr("*", _MSG_ID)


def detector_rows(first: DataFrame) -> DataFrame:
    """Returns what the detectors learn of first copies: an increment of relation ``detector`` (line 11)."""
    return first.selectExpr("run_id", "node_id", f"{_IDENTITY} as source", "abs(source_seq) as last_seq").select(
        DETECTOR.columns
    )


def visited_rows(first: DataFrame) -> DataFrame:
    """Returns the same of visited lists; a source keeps its own MsgId (rule R18)."""
    pair = first.selectExpr(*NODE, "inline(visited)").where("msg_id is not null")
    own = first.where("sender is null").selectExpr(*NODE, "node_id as source", "msg_id as last_seq")
    return pair.selectExpr(*NODE, "node as source", "msg_id as last_seq").unionByName(own).select(DETECTOR.columns)
