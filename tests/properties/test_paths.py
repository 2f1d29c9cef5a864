"""Paths of at most so many hops: GraphFrames, joins and networkx find the same in any tree."""

from __future__ import annotations

import networkx as nx
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from pipelines.engines.paths import delta_paths, joined_paths
from pipelines.engines.session import Session

Path = tuple[int, int, int, int, tuple[int, ...], int]
N_TREES = 150


Trees = dict[int, "nx.Graph[int]"]


def _trees() -> Trees:
    """Trees of 2 to 12 nodes; ids overlap between runs, and stars and lines are among them."""
    shapes = {0: nx.path_graph(2), 1: nx.path_graph(12), 2: nx.star_graph(11)}
    drawn = {run: nx.random_labeled_tree(2 + run % 11, seed=run) for run in range(3, N_TREES)}
    return {run * 7: tree for run, tree in (shapes | drawn).items()}


TREES = _trees()


def _link(session: Session, trees: Trees) -> DataFrame:
    rows = [(run, *ends) for run, tree in trees.items() for a, b in tree.edges for ends in ((a, b), (b, a))]
    columns = zip(*rows, strict=True)
    table = pa.table(
        {name: pa.array(values, pa.int64()) for name, values in zip(("run_id", "src", "dst"), columns, strict=True)}
    )
    return session.spark.createDataFrame(table)


def _expected(trees: Trees, max_hops: int) -> set[Path]:
    return {
        (run, node, target, len(path) - 1, tuple(path), path[min(1, len(path) - 1)])
        for run, tree in trees.items()
        for node, targets in nx.all_pairs_shortest_path(tree, cutoff=max_hops)
        for target, path in targets.items()
    }


def _found(paths: DataFrame) -> list[Path]:
    table = paths.toArrow().to_pydict()
    table["path"] = [tuple(path) for path in table["path"]]
    return list(
        zip(*(table[name] for name in ("run_id", "node_id", "target", "distance", "path", "responsible")), strict=True)
    )


def _assert_same(found: list[Path], expected: set[Path]) -> None:
    assert len(found) == len(set(found)), "a path is found twice"
    assert set(found) == expected


@pytest.mark.parametrize("max_hops", [1, 2, 3, 4, 5])
def test_joins_find_the_paths_of_networkx_on_sail(sail: Session, max_hops: int) -> None:
    _assert_same(_found(delta_paths(sail, _link(sail, TREES), max_hops)), _expected(TREES, max_hops))


@pytest.mark.parametrize("max_hops", [1, 2, 3, 4, 5])
def test_motifs_find_the_paths_of_networkx_on_spark(spark: Session, max_hops: int) -> None:
    link = _link(spark, TREES).localCheckpoint()
    _assert_same(_found(delta_paths(spark, link, max_hops)), _expected(TREES, max_hops))


def test_joins_and_motifs_agree_on_one_engine(spark: Session) -> None:
    link = _link(spark, TREES).localCheckpoint()
    motifs, joins = delta_paths(spark, link, 3), joined_paths(link, 3)
    assert motifs.dtypes == joins.dtypes
    assert set(_found(motifs)) == set(_found(joins))


def test_motifs_come_from_graphframes(spark: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the comparison: without this, joins might be compared with joins."""
    import graphframes

    asked: list[str] = []
    find = graphframes.GraphFrame.find

    def noted(graph: graphframes.GraphFrame, motif: str) -> DataFrame:
        asked.append(motif)
        found: DataFrame = find(graph, motif)
        return found

    monkeypatch.setattr(graphframes.GraphFrame, "find", noted)
    delta_paths(spark, _link(spark, {1: nx.path_graph(3)}), 2)
    assert asked == ["(n0)-[]->(n1)", "(n0)-[]->(n1); (n1)-[]->(n2)"]


def test_no_hop_leaves_each_node_alone(sail: Session) -> None:
    _assert_same(_found(delta_paths(sail, _link(sail, TREES), 0)), _expected(TREES, 0))


def test_columns_have_the_promised_types(sail: Session) -> None:
    paths = delta_paths(sail, _link(sail, {1: nx.path_graph(3)}), 2)
    assert paths.dtypes == [
        ("run_id", "bigint"),
        ("node_id", "bigint"),
        ("target", "bigint"),
        ("distance", "int"),
        ("path", "array<bigint>"),
        ("responsible", "bigint"),
    ]


def test_other_runs_change_nothing(sail: Session) -> None:
    alone = {7: TREES[7]}
    among = [path for path in _found(delta_paths(sail, _link(sail, TREES), 4)) if path[0] == 7]
    _assert_same(among, _expected(alone, 4))
