"""The tree of brokers with its root (section 3.1), and what every node sees of it (section 4.2.2)."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.protocols.ginger.tables import CLIENT_TOPIC, CONTACT, NEIGHBOUR, TREE_VIEW
from udfs.ginger.tree import NEIGHBOURS, rooted


def contacts(node: DataFrame, link: DataFrame, joining: DataFrame) -> DataFrame:
    """Returns table ``contact``: for those that join their join points, for the other brokers those that they link to.

    Args:
        node: Table ``node``.
        link: Table ``link``.
        joining: ``run_id, node_id, join_point`` of the brokers that join later.
    """
    broker = node.where("role = 'broker'").select("run_id", "node_id")
    to = broker.withColumnRenamed("node_id", "contact")
    near = (
        link.selectExpr("run_id", "src as node_id", "dst as contact", "latency_rounds")
        .join(broker, ["run_id", "node_id"])
        .join(to, ["run_id", "contact"])
        .join(joining, ["run_id", "node_id"], "left")
    )
    known = near.where("join_point is null or join_point = contact")
    return known.selectExpr("*", "join_point is not null as is_joining").select(CONTACT.columns)


def seen(node: DataFrame, link: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns what every node sees of the tree: columns of `udfs.ginger.tree.NEIGHBOURS`.

    Args:
        node: Table ``node``.
        link: Table ``link``; brokers make a tree, each client hangs on one of them.
        setting: ``run_id, root, max_hops``; ``root`` is a name, null for the first broker.
    """
    role = node.select("run_id", "node_id", "name", "role")
    root = (
        role.where("role = 'broker'")
        .join(setting.select("run_id", "root", "max_hops"), "run_id")
        .where("root is null or root = name")
        .groupBy("run_id", "max_hops")
        .agg(F.expr("min(node_id) as root"))
    )
    ends = link.join(role.selectExpr("run_id", "node_id as src", "role as src_role"), ["run_id", "src"]).join(
        role.selectExpr("run_id", "node_id as dst", "role as dst_role"), ["run_id", "dst"]
    )
    return (
        ends.groupBy("run_id")
        .agg(F.expr("array_sort(collect_list(struct(src, dst, latency_rounds, src_role, dst_role))) as links"))
        .join(root, "run_id")
        .selectExpr("run_id", "root", "cast(max_hops as bigint) as max_hops", "links")
        .mapInArrow(rooted, ", ".join(f"{name} {kind}" for name, kind in NEIGHBOURS))
    )


def neighbours(rows: DataFrame) -> DataFrame:
    """Returns table ``neighbour`` of what `seen` returns."""
    near = rows.where("relationship not in ('ancestor', 'sibling')")
    return near.withColumnRenamed("peer", "neighbour").select(NEIGHBOUR.columns)


def tree_views(rows: DataFrame) -> DataFrame:
    """Returns table ``tree_view`` of what `seen` returns."""
    return rows.where("relationship in ('ancestor', 'sibling')").select(TREE_VIEW.columns)


def client_topics(calls: DataFrame) -> DataFrame:
    """Returns the topics that clients work on, from all their calls."""
    use = "case when max(kind = 'subscribe') then 'subscribed' else 'published' end as usage"
    called = calls.where("kind in ('subscribe', 'publish')").groupBy("run_id", "node_id", "topic")
    return called.agg(F.expr(use)).select(CLIENT_TOPIC.columns)
