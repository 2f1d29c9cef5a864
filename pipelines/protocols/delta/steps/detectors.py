"""Connections and the failure detectors on them (4.3; rules R9, R21 and R35).

A node without a row in ``peer`` is connected to its neighbours, to their first incarnation. When the other end of a
connection is gone, the node gets a DETECT after the detection delay.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import NODE
from pipelines.protocols.delta.messages import FAULT_TRIGGER
from pipelines.protocols.delta.tables import PEER

REPORT = ("peer", "incarnation", "for_incarnation", "latency_rounds")
"""What reports of failure detectors say in the outbox, beside their heads."""


def connected(path: DataFrame, peer: DataFrame, link: DataFrame) -> DataFrame:
    """Returns all connections: ``run_id, node_id, peer, incarnation, latency_rounds``."""
    neighbour = path.where("distance = 1").selectExpr(*NODE, "target as peer")
    usual = neighbour.join(peer.select(*NODE, "peer"), [*NODE, "peer"], "left_anti")
    latency = link.selectExpr("run_id", "src as node_id", "dst as peer", "latency_rounds")
    columns = [*NODE, "peer", "incarnation", "latency_rounds"]
    return (
        usual.join(latency, [*NODE, "peer"])
        .selectExpr(*NODE, "peer", "cast(0 as bigint) as incarnation", "latency_rounds")
        .unionByName(peer.where("status <> 'FAILED'").select(columns))
    )


def broken_connections(connection: DataFrame, crashed: DataFrame) -> DataFrame:
    """Returns the connections whose other end is gone: ``run_id, node_id, peer, ended, latency_rounds, round``.

    Args:
        connection: Rows of `connected`.
        crashed: Incarnations that are over: ``run_id, node_id, incarnation, round`` (the present one), ``is_down``: it
            is the newest. A connection that is still to be answered, without an incarnation, leads to the newest.
    """
    down = crashed.selectExpr("run_id", "node_id as peer", "incarnation as ended", "round", "is_down")
    return (
        connection.join(down.hint("shuffle_hash"), ["run_id", "peer"])
        .where("incarnation <= ended or (incarnation is null and is_down)")
        .select(*NODE, "peer", "ended", "latency_rounds", "round")
    )


def crash_reports(broken: DataFrame, status: DataFrame, setting: DataFrame) -> DataFrame:
    """Sets the failure detectors of nodes whose peers are gone (rule R21), once a round for each peer.

    A report comes after the detection delay, and never before the last words of the node that crashed.

    Args:
        broken: Rows of `broken_connections`.
        status: Relation ``status``.
        setting: One row a run with ``detection_rounds``.
    """
    newest = (f"max({name}) as {name}" for name in ("ended", "latency_rounds", "round"))
    own = status.selectExpr(*NODE, "incarnation as for_incarnation")
    return (
        broken.groupBy(*NODE, "peer")
        .agg(*map(F.expr, newest))
        .join(own, NODE, "left")
        .join(setting.select("run_id", "detection_rounds"), "run_id")
        .selectExpr(
            "run_id", FAULT_TRIGGER, "peer as rank", "'DETECT' as kind", "node_id as src", "node_id as dst",
            "round as sent_round", "cast(null as bigint) as source", "cast(null as bigint) as source_seq", "peer",
            "ended as incarnation", "for_incarnation",
            "greatest(cast(detection_rounds as bigint), latency_rounds) as latency_rounds",
        )
    )  # fmt: skip


def fresh_peers(before: DataFrame, after: DataFrame) -> DataFrame:
    """Returns the connections that are made between two forms of relation ``peer``."""
    made = after.where("status <> 'FAILED'")
    old = before.selectExpr(*NODE, "peer", "coalesce(incarnation, -1) as known", "true as is_old")
    known = made.selectExpr("*", "coalesce(incarnation, -1) as known").join(old, [*NODE, "peer", "known"], "left")
    return known.where("is_old is null").select(PEER.columns)
