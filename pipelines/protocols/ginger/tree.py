"""The tree of brokers with its root (section 3.1), as every node knows its part of it."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.protocols.ginger.tables import NEIGHBOUR
from udfs.ginger.tree import NEIGHBOURS, rooted


def neighbours(node: DataFrame, link: DataFrame, setting: DataFrame) -> DataFrame:
    """Gives every node's neighbours and what they are to it: table ``neighbour``.

    Args:
        node: Table ``node``.
        link: Table ``link``; brokers make a tree, each client hangs on one of them.
        setting: ``run_id, root``; the name of the root, null for the first broker.
    """
    role = node.select("run_id", "node_id", "name", "role")
    root = (
        role.where("role = 'broker'")
        .join(setting.select("run_id", "root"), "run_id")
        .where("root is null or root = name")
        .groupBy("run_id")
        .agg(F.expr("min(node_id) as root"))
    )
    ends = link.join(role.selectExpr("run_id", "node_id as src", "role as src_role"), ["run_id", "src"]).join(
        role.selectExpr("run_id", "node_id as dst", "role as dst_role"), ["run_id", "dst"]
    )
    brokers = ends.where("src_role = 'broker' and dst_role = 'broker'")
    tree = (
        brokers.groupBy("run_id")
        .agg(F.expr("array_sort(collect_list(struct(src, dst))) as links"))
        .join(root, "run_id")
        .select("run_id", "root", "links")
        .mapInArrow(rooted, ", ".join(f"{name} {kind}" for name, kind in NEIGHBOURS))
    )
    at_edge = ends.where("src_role <> dst_role").selectExpr(
        "run_id", "src as node_id", "dst as neighbour",
        "case when src_role = 'broker' then 'client' else 'edge' end as relationship",
    )  # fmt: skip
    return tree.unionByName(at_edge).select(NEIGHBOUR.columns)
