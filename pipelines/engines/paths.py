"""Computes all paths of at most δ hops in trees: the nodes within distance δ of each node, with the path to each.

Classic Spark uses motifs of GraphFrames, other engines use joins. Both methods return the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from pipelines.engines.frames import union
from pipelines.engines.session import Session

if TYPE_CHECKING:
    from graphframes import GraphFrame

_RUN_FACTOR = 2**32
"""The factor of the run id in a vertex id. Node ids are less."""
_RESULT = ("run_id", "node_id", "target", "distance", "path", "responsible")


def delta_paths(session: Session, link: DataFrame, max_hops: int) -> DataFrame:
    """Returns the path from each node to each node at most ``max_hops`` hops away.

    Args:
        session: The session of the engine.
        link: The links of trees, one row for each direction: ``run_id BIGINT, src BIGINT, dst BIGINT``.
        max_hops: The largest distance, at least 0.

    Returns:
        One row per run, node and target with ``0 <= distance <= max_hops``: ``run_id BIGINT, node_id BIGINT, target
        BIGINT, distance INT, path ARRAY<BIGINT>`` (from the node to the target, both included), ``responsible BIGINT``
        (the first hop; the node itself at distance 0). A node without links has no row.
    """
    graph = _graph(link) if session.is_classic and max_hops > 0 else None
    return joined_paths(link, max_hops) if graph is None else _motif_paths(graph, link, max_hops)


def joined_paths(link: DataFrame, max_hops: int) -> DataFrame:
    """Computes the rows of `delta_paths` by joins: each join extends the paths of the previous length by one link."""
    hop = link.selectExpr("run_id", "src as target", "dst as next_id")
    # Column `previous` holds the node before the target: Sail supports only constant array indexes.
    found = [_stay(link).selectExpr("*", "cast(null as bigint) as previous")]
    for _ in range(max_hops):
        longer = found[-1].join(hop, ["run_id", "target"]).where("previous is null or next_id <> previous")
        found.append(
            longer.selectExpr(
                "run_id", "node_id", "next_id as target", "distance + 1 as distance",
                "concat(path, array(next_id)) as path", "if(distance = 0, next_id, responsible) as responsible",
                "target as previous",
            )
        )  # fmt: skip
    return _union(found)


def _motif_paths(graph: GraphFrame, link: DataFrame, max_hops: int) -> DataFrame:
    found = [_stay(link)]
    for hops in range(1, max_hops + 1):
        walks = graph.find("; ".join(f"(n{i})-[]->(n{i + 1})" for i in range(hops)))
        for i in range(2, hops + 1):
            # In a tree, a walk that never reverses a step is a path.
            walks = walks.where(f"n{i - 2}.id <> n{i}.id")
        node = [f"n{i}.id & {_RUN_FACTOR - 1}" for i in range(hops + 1)]
        found.append(
            walks.selectExpr(
                f"n0.id div {_RUN_FACTOR} as run_id", f"{node[0]} as node_id", f"{node[-1]} as target",
                f"{hops} as distance", f"array({', '.join(node)}) as path", f"{node[1]} as responsible",
            )
        )  # fmt: skip
    return _union(found)


def _graph(link: DataFrame) -> GraphFrame | None:
    """Returns the links of all runs as one graph; None if the session lacks GraphFrames' jar.

    A vertex id combines run and node into one number: with structs as ids, Spark takes 1.5 to 6 times the CPU time.
    """
    from graphframes import GraphFrame

    src, dst = (f"run_id * {_RUN_FACTOR} + {end}" for end in ("src", "dst"))
    try:
        return GraphFrame(link.selectExpr(f"{src} as id").distinct(), link.selectExpr(f"{src} as src", f"{dst} as dst"))
    except Py4JJavaError as error:
        if "ClassNotFound" not in str(error.java_exception):
            raise
        return None


def _stay(link: DataFrame) -> DataFrame:
    node = link.selectExpr("run_id", "src as node_id").distinct()
    return node.selectExpr(
        "run_id", "node_id", "node_id as target", "0 as distance", "array(node_id) as path", "node_id as responsible"
    )


def _union(found: list[DataFrame]) -> DataFrame:
    return union(paths.select(*_RESULT) for paths in found)
