"""Compares the state rows of a node before a crash, after its recovery, and at the end of the run.

State tables are written at commits only, so the rows are compared at three commits. The first is the last commit before
the crash. The second is the first commit at which the node is OPERATIONAL again, if this commit precedes the node's
next crash. The third is the last commit of the run. With ``--commit-every 1`` each round has a commit. View
``node_recovery`` contains the exact rounds and durations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product, zip_longest
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from pipelines.engines.frames import json_object, union
from pipelines.errors import VacuumedError
from pipelines.sql.differences import node_id, node_names
from pipelines.sql.query import StoreReader

COMPARED = pa.schema([
    (name, pa.string() if name in ("table_name", "gone") else pa.int64())
    for name in (
        "incarnation", "crash_round", "operational_round", "table_name", "before_round", "n_before", "after_round",
        "n_after", "n_same", "end_round", "n_end", "gone",
    )
])  # fmt: skip
"""The columns of the comparison: one row for each crash of the node and state table.

``n_before``, ``n_after`` and ``n_end`` count the rows of the node at the three commits. ``n_same`` counts the rows that
exist both before the crash and after the recovery. A count is null if the commit does not exist or if VACUUM removed
the rows of the commit; ``gone`` names the removed versions of the table and their rounds.
"""


def compare_node(reader: StoreReader, run_id: int, node: str) -> pa.Table:
    """Returns a row (columns `COMPARED`) for each crash of a node and state table; none if the node never crashed.

    Raises:
        QueryError: The store has no such run, or the run has no such node.
    """
    of_node = f"run_id = {run_id} and node_id = {node_id(node_names(reader, run_id), run_id, node)}"
    reader = reader.of_run(run_id)
    crashes = reader.table("node_recovery").where(of_node).orderBy("crash_round").collect()
    own = reader.table("round_commit").where(f"{run_id} between first_run and last_run").select("last_round").collect()
    commits = sorted({row.last_round for row in own})
    states = {name: reader.table(name).columns for name in reader.tables() if name.startswith("state_")}
    tables = {name: columns for name, columns in states.items() if "node_id" in columns}
    next_rounds = [crash.crash_round for crash in crashes[1:]]
    moments = [_moments(crash, later, commits) for crash, later in zip_longest(crashes, next_rounds)]
    held, gone = _held(reader, of_node, sorted({at for of in moments for at in of if at is not None}), tables)
    rows = [
        _compared(crash, of, table, held, gone) for crash, of in zip(crashes, moments, strict=True) for table in tables
    ]
    kept = [row for row in rows if row["n_before"] or row["n_after"] or row["n_end"] or row["gone"]]
    return pa.Table.from_pylist(kept, COMPARED)


def _moments(crash: Row, next_crash: int | None, commits: Sequence[int]) -> tuple[int | None, int | None, int]:
    """Returns the last commit before the crash, the first one between recovery and next crash, and the last of the run.

    None stands for a commit that does not exist.
    """
    before = max((commit for commit in commits if commit < crash.crash_round), default=None)
    back = crash.operational_round
    up = (commit for commit in commits if back is not None and back <= commit)
    after = min((commit for commit in up if next_crash is None or commit < next_crash), default=None)
    return before, after, commits[-1]


def _held(
    reader: StoreReader, of_node: str, rounds: Sequence[int], tables: Mapping[str, Sequence[str]]
) -> tuple[dict[tuple[int, str], Counter[str]], dict[tuple[int, str], int]]:
    """Counts the state rows (JSON) of one node by round and table; ``of_node`` is the SQL condition for the node.

    The second dict contains the table versions that VACUUM removed.
    """
    frames: list[DataFrame] = []
    held: dict[tuple[int, str], Counter[str]] = {}
    gone: dict[tuple[int, str], int] = {}
    for round_, table in product(rounds, tables):
        try:
            rows = reader.table(table, round_).where(of_node)
        except VacuumedError as error:
            gone[round_, table] = error.version
            continue
        held[round_, table] = Counter()
        text = f"{json_object(tables[table])} as text"
        frames.append(rows.selectExpr(f"{round_} as round", f"'{table}' as table_name", text))
    for row in union(frames).collect() if frames else ():
        held[row.round, row.table_name][row.text] += 1
    return held, gone


def _compared(
    crash: Row, moments: tuple[int | None, int | None, int], table: str,
    held: Mapping[tuple[int, str], Counter[str]], gone: Mapping[tuple[int, str], int],
) -> dict[str, Any]:  # fmt: skip
    before, after, end = (None if at is None else held.get((at, table)) for at in moments)
    lost = {at: gone[at, table] for at in moments if at is not None and (at, table) in gone}
    same = None if before is None or after is None else before & after
    return {
        "incarnation": crash.incarnation, "crash_round": crash.crash_round,
        "operational_round": crash.operational_round, "table_name": table,
        "before_round": moments[0], "n_before": _size(before),
        "after_round": moments[1], "n_after": _size(after), "n_same": _size(same),
        "end_round": moments[2], "n_end": _size(end),
        "gone": ", ".join(f"version {version} of round {at}" for at, version in lost.items()) or None,
    }  # fmt: skip


def _size(rows: Counter[str] | None) -> int | None:
    return None if rows is None else rows.total()
