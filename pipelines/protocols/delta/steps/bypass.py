"""Bypass of nodes that failed (section 5, Algorithm 3; rules R19, R21 and R24).

Rows that the steps read and write, for a node N and its peer M:

1. DETECT at N: N suspects M (``peer``), so the paths through M have another responsible node (``path.responsible``,
   ``routing_entry.responsible``). The *frontier* are the first nodes on paths through failed ones that N does not
   suspect; N asks those that it is not connected to (`handshake`).
2. Recipients that M was responsible for go to the closest node that is left (``processing.responsible``).
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import KEY, NODE
from pipelines.protocols.delta.steps.routing import CLOSEST, NEAREST_LEFT, peer_lists
from pipelines.protocols.delta.tables import PEER, PROCESSING


def failures(inbox: DataFrame, connection: DataFrame) -> DataFrame:
    """Returns the reports that N did not know better: ``run_id, node_id, peer, round, incarnation``."""
    report = inbox.where("kind = 'DETECT'").selectExpr(
        "run_id", "dst as node_id", "peer", "incarnation as ended", "due_round as round"
    )
    return (
        report.join(connection.select(*NODE, "peer", "incarnation"), [*NODE, "peer"])
        .where("incarnation is null or incarnation <= ended")
        .groupBy(*NODE, "peer", "round")
        .agg({"ended": "max"})
        .toDF(*NODE, "peer", "round", "incarnation")
    )


def detached_peers(inbox: DataFrame) -> DataFrame:
    """Returns peers that say they are DETACHED, so that nobody can reach others through them: as `failures`."""
    return inbox.where("kind = 'STATUS' and status = 'DETACHED'").selectExpr(
        "run_id", "dst as node_id", "src as peer", "due_round as round", "incarnation"
    )


def with_failures(peer: DataFrame, failure: DataFrame, path: DataFrame) -> DataFrame:
    """Algorithm 3, lines 2 to 4: N suspects M.

    Where M lies behind a node that is up, N forgets the connection only: the node in between hears of M's return, N
    does not, and would go past M when that node fails again.
    """
    failed = failure.selectExpr(
        *NODE, "peer", "'FAILED' as status", "incarnation", "cast(null as bigint) as latency_rounds"
    )
    others = peer.join(failure.select(*NODE, "peer"), [*NODE, "peer"], "left_anti")
    whole = others.unionByName(failed.select(PEER.columns))
    behind = (
        path.selectExpr(*NODE, "target as peer", "path")
        .join(failure.select(*NODE, "peer"), [*NODE, "peer"])
        .join(peer_lists(whole), NODE)
        .where(f"{NEAREST_LEFT} is not null")
        .select(*NODE, "peer")
    )
    return whole.join(behind, [*NODE, "peer"], "left_anti")


def frontier(path: DataFrame, failure: DataFrame, peer: DataFrame) -> DataFrame:
    """Algorithm 3, line 5: the closest nodes that are left behind the ones that failed now.

    Args:
        path: Relation ``path``.
        failure: Rows of `failures`.
        peer: Relation ``peer`` with these failures.

    Returns:
        ``run_id, node_id, peer, path, round``.
    """
    behind = failure.selectExpr(*NODE, "peer as behind", "round")
    return (
        path.where("distance > 1")
        .selectExpr(*NODE, "target as peer", "path")
        .join(behind, NODE)
        .where("array_contains(path, behind)")
        .join(peer_lists(peer), NODE)
        .where(f"{NEAREST_LEFT} = peer")
        .select(*NODE, "peer", "path", "round")
        .distinct()
    )


def stand_ins(path: DataFrame, lost: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns who is asked instead of synchronisation points that failed: the closest nodes left on the ways there.

    That may be a node nearer than the one that failed: it was down itself when N asked past it, and has come back.

    Args:
        path: Relation ``path``.
        lost: Rows of `failures`.
        peer: Relation ``peer`` with these failures.

    Returns:
        As `frontier`.
    """
    behind = lost.selectExpr(*NODE, "peer as behind", "round")
    nearest = (
        path.where("distance > 0")
        .join(behind, NODE)
        .where("array_contains(path, behind)")
        .join(peer_lists(peer), NODE)
        .selectExpr(*NODE, f"{NEAREST_LEFT} as peer", "round")
    )
    way = path.selectExpr(*NODE, "target as peer", "path")
    return nearest.distinct().join(way, [*NODE, "peer"]).select(*NODE, "peer", "path", "round")


def orphans(processing: DataFrame, failure: DataFrame) -> DataFrame:
    """Returns the recipients that failed nodes were responsible for: processing rows with ``now_round``."""
    failed = failure.selectExpr(*NODE, "peer as responsible", "round as now_round")
    return processing.where("not is_confirmed").join(failed.hint("shuffle_hash"), [*NODE, "responsible"])


def rerouted(orphan: DataFrame, path: DataFrame, peer: DataFrame) -> DataFrame:
    """Algorithm 3, lines 20 to 22: the closest node that is left takes over; null: there is none."""
    seen = path.selectExpr(*NODE, "target as recipient", "path as seen_path")
    kept = [name for name in (*PROCESSING.columns, "now_round") if name not in {"responsible", "path"}]
    return (
        orphan.join(seen, [*NODE, "recipient"], "left")
        .join(peer_lists(peer), NODE, "left")
        .selectExpr(*kept, "path as told_path", "coalesce(path, seen_path) as path", "failed", "opened")
        .selectExpr(*kept, "told_path as path", f"{CLOSEST} as responsible")
    )


def without_answer(processing: DataFrame, row: DataFrame) -> DataFrame:
    """Returns all processing rows of messages that lost a member of Out, for `confirmations.finished_messages`.

    Args:
        processing: Relation ``processing`` after the change.
        row: The changed rows, with ``now_round``.
    """
    message = row.groupBy(KEY).agg({"now_round": "max"}).toDF(*KEY, "conf_round")
    return processing.join(message, KEY).selectExpr("*", "cast(-1 as bigint) as conf_trigger")
