"""A synchronisation point S hands over its routing information to R (Algorithm 7, lines 13 to 20; rule R30).

Reads ``syn_request``, ``status``, ``synch`` and all routing information of S; sends PAR_TOP and PAR_SUB.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import NODE
from pipelines.protocols.delta.messages import LINKS

_PAIR = [*NODE, "peer"]
_SHARED = "size(array_intersect(to_peer, path))"
_FROM_PEER = f"concat(slice(reverse(to_peer), 1, size(to_peer) - {_SHARED} + 1), slice(path, {_SHARED} + 1, 100))"
"""SQL for P(R, X) of ``to_peer`` = P(S, R) and ``path`` = P(S, X) in a tree: back to where they part, and on."""


def answerable(request: DataFrame, status: DataFrame, synch: DataFrame, path: DataFrame) -> DataFrame:
    """Returns the requests that S can answer: all; while it recovers, those from the one side that has not answered."""
    hop = path.selectExpr(*NODE, "target as peer", "get(path, 1) as side")
    recovering = status.where("status = 'RECOVERING'").selectExpr(*NODE, "true as is_recovering")
    opened = synch.where("not is_answered").join(hop, _PAIR, "left").selectExpr(*NODE, "side as open_side")
    waits = request.join(recovering, NODE).join(hop, _PAIR).join(opened, NODE).where("open_side <> side").select(_PAIR)
    return request.join(waits, _PAIR, "left_anti")


def _routes(ready: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns P(R, X) of all X that S sees: S is ``node_id``, R ``peer``, X ``target``; ``route, is_behind, delta``."""
    to_peer = path.selectExpr(*NODE, "target as peer", "path as to_peer")
    return (
        path.select(*NODE, "target", "path")
        .join(ready.select(_PAIR), NODE)
        .join(to_peer, _PAIR)
        .join(setting.select("run_id", "delta"), "run_id")
        .selectExpr(
            *_PAIR, "target", f"{_FROM_PEER} as route", "array_contains(path, peer) and target <> peer as is_behind",
            "delta",
        )
    )  # fmt: skip


def with_links(ready: DataFrame, topology: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns requests with what R gets of TOP_S: the links with both ends within δ+1 of R.

    Args:
        ready: Requests: ``run_id, node_id`` (S), ``peer`` (R), ``round``.
        topology: Relation ``topology``.
        path: Relation ``path``.
        setting: One row a run with ``delta``.

    Returns:
        The same rows with ``links``.
    """
    near = _routes(ready, path, setting).where("size(route) <= delta + 2").select(*_PAIR, "target")
    link = (
        topology.join(near.withColumnRenamed("target", "a"), [*NODE, "a"])
        .join(near.withColumnRenamed("target", "b"), [*_PAIR, "b"])
        .groupBy(_PAIR)
        .agg(F.expr(LINKS))
    )
    return ready.join(link, _PAIR, "left")


def send_topology(ready: DataFrame, setting: DataFrame) -> DataFrame:
    """PAR_TOP_S^R (Algorithm 7, line 13).

    Args:
        ready: Rows of `with_links`.
        setting: One row a run with ``par_rows``.
    """
    return _low_priority(ready, "PAR_TOP", ["links"], setting)


def send_entries(
    ready: DataFrame, routing_entry: DataFrame, path: DataFrame, tombstone: DataFrame, subscriber: DataFrame,
    setting: DataFrame,
) -> DataFrame:  # fmt: skip
    """PAR_SUB_S^R (rule R30), and the tombstones of S; it never comes before its PAR_TOP.

    Every entry with its from not behind R, rewritten for R; behind R those that name the subscriber itself.

    Args:
        ready: Rows of `with_links`.
        routing_entry: Relation ``routing_entry``.
        path: Relation ``path``.
        tombstone: Relation ``tombstone``.
        subscriber: ``run_id, subscription_id, subscriber``.
        setting: One row a run with ``delta, par_rows``.
    """
    route = _routes(ready, path, setting).withColumnRenamed("target", "origin")
    entry = (
        routing_entry.select(*NODE, "subscription_id", "origin")
        .join(route, [*NODE, "origin"])
        .join(subscriber, ["run_id", "subscription_id"])
        .where("origin <> peer and (not is_behind or (origin = subscriber and size(route) <= delta + 2))")
        .selectExpr(
            *_PAIR, "subscription_id",
            "case when size(route) > delta + 2 then get(route, delta + 1) else origin end as origin",
            "cast(least(size(route) - 1, delta + 1) as int) as distance",
        )
        .where("origin <> peer")
        .groupBy(_PAIR)
        .agg(F.expr("array_sort(collect_list(struct(subscription_id, origin, distance))) as entries"))
    )  # fmt: skip
    over = tombstone.groupBy(NODE).agg(F.expr("array_sort(collect_list(subscription_id)) as tombstones"))
    told = ready.join(entry, _PAIR, "left").join(over, NODE, "left")
    return _low_priority(told, "PAR_SUB", ["entries", "tombstones"], setting)


def _low_priority(row: DataFrame, kind: str, content: Sequence[str], setting: DataFrame) -> DataFrame:
    """Returns outbox rows that come behind the normal messages, after a delay by their size (rule R10).

    Links keep their order: what is sent behind the links of `with_links` waits at least as long as they do.
    """
    rank = 1_000_000 if kind == "PAR_TOP" else 1_000_001
    delay = f"cast(floor(greatest(size(links), size({content[0]}), 0) / par_rows) as bigint)"
    return row.join(setting.select("run_id", "par_rows"), "run_id").selectExpr(
        "run_id", "cast(-1 as bigint) as trigger", f"cast({rank} as bigint) as rank", f"'{kind}' as kind",
        "node_id as src", "peer as dst", "round as sent_round", "cast(null as bigint) as source",
        "cast(null as bigint) as source_seq", *content, f"coalesce({delay}, 0) as delay_rounds",
    )  # fmt: skip
