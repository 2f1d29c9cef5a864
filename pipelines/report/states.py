"""The state tables of a run at its commits, node by node; a table that did not change for a node is kept once."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame

from pipelines.contract.state_tables import STATE
from pipelines.errors import VacuumedError
from pipelines.report.replay import Span
from pipelines.sql.query import StoreReader

MOST_COMMITS = 24
"""Commits of a run whose state is kept."""
MOST_ROWS = 60_000
"""Rows of state that a run keeps; a table that goes beyond that is left out."""
_IDS = ("run_id", "node_id")


def states(reader: StoreReader, spans: Mapping[int, Span]) -> dict[int, dict[str, Any]]:
    """Returns the state of the nodes of some runs, for JSON.

    Args:
        reader: The store.
        spans: The rounds by run.

    Returns:
        By run: ``commits``: the rounds at whose end the state was read; ``n_commits``: how many there are in the span;
        ``gone``: the rounds at whose end VACUUM removed the state; ``left_out``: tables with too many rows;
        ``tables``: by name their ``columns`` and, by node, pairs of a round and the rows that the node had from that
        round on.
    """
    rounds = {run_id: _commits(reader, run_id, span) for run_id, span in spans.items()}
    gone = {run_id: _gone(reader.of_run(run_id), _spread(of_run)) for run_id, of_run in rounds.items()}
    kept = {run_id: [at for at in _spread(of_run) if at not in gone[run_id]] for run_id, of_run in rounds.items()}
    found: dict[int, dict[str, Any]] = {
        run_id: {
            "commits": kept[run_id], "n_commits": len(rounds[run_id]) - len(gone[run_id]), "gone": gone[run_id],
            "tables": {}, "left_out": [],
        }
        for run_id in spans
    }  # fmt: skip
    n_rows: Counter[int] = Counter()
    parts: dict[StoreReader, dict[int, Sequence[int]]] = defaultdict(dict)
    for run_id in spans:
        parts[reader.of_run(run_id)][run_id] = kept[run_id]
    asked = [(part, name) for part in parts for name in part.tables() if name.startswith(STATE)]
    for part, name in asked:
        names = part.table(name).columns
        own = [column for column in names if column not in _IDS]
        rows = _rows(part, name, own, parts[part]) if "node_id" in names else []
        for run_id, members in groupby(rows, key=itemgetter("run_id")):
            of_run = list(members)
            if n_rows[run_id] + len(of_run) > MOST_ROWS:
                found[run_id]["left_out"].append(name)
                continue
            n_rows[run_id] += len(of_run)
            found[run_id]["tables"][name] = {"columns": own, "nodes": _changes(of_run, own, kept[run_id])}
    return found


def _commits(reader: StoreReader, run_id: int, span: Span) -> list[int]:
    """Returns the commits that end in the span, and the last one before it."""
    text = f"select distinct last_round from round_commit where {run_id} between first_run and last_run"  # noqa: S608 - a number
    rounds = sorted(row.last_round for row in reader.sql(text).collect())
    inside = [at for at in rounds if at >= span.first and (span.last is None or at <= span.last)]
    return [*[at for at in rounds if at < span.first][-1:], *inside]


def _gone(reader: StoreReader, rounds: Sequence[int]) -> list[int]:
    """Returns the rounds at whose end a state table had a version that VACUUM removed."""
    names = [name for name in reader.tables() if name.startswith(STATE)]

    def is_gone(at: int) -> bool:
        try:
            for name in names:
                reader.table(name, at)
        except VacuumedError:
            return True
        return False

    return [at for at in rounds if is_gone(at)]


def _spread(rounds: Sequence[int]) -> list[int]:
    """Returns some of many rounds, evenly, the first and the last among them."""
    if len(rounds) <= MOST_COMMITS:
        return list(rounds)
    step = (len(rounds) - 1) / (MOST_COMMITS - 1)
    return sorted({rounds[round(number * step)] for number in range(MOST_COMMITS)})


def _rows(
    reader: StoreReader, name: str, columns: Sequence[str], kept: Mapping[int, Sequence[int]]
) -> list[dict[str, Any]]:
    """Returns the rows of a table at the commits of each run: ``run_id, round, node_id, row``; row is JSON."""
    packed = f"to_json(struct({', '.join(columns)}))" if columns else "'{}'"
    runs: dict[int, list[int]] = defaultdict(list)
    for run_id, rounds in kept.items():
        for at in rounds:
            runs[at].append(run_id)
    frames = [
        reader.table(name, at)
        .where(f"run_id in ({', '.join(map(str, of_round))})")
        .selectExpr("run_id", f"{at} as round", "node_id", f"{packed} as row")
        for at, of_round in sorted(runs.items())
    ]
    if not frames:
        return []
    most = len(kept) * MOST_ROWS + 1
    rows: list[dict[str, Any]] = reduce(DataFrame.unionByName, frames).limit(most).toArrow().to_pylist()
    return sorted(rows, key=itemgetter("run_id"))


def _changes(rows: Sequence[dict[str, Any]], columns: Sequence[str], rounds: Sequence[int]) -> dict[int, list[Any]]:
    """Returns by node the rounds in which its rows changed, with the rows from then on."""
    at: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        at[row["node_id"]][row["round"]].append(row["row"])
    found: dict[int, list[Any]] = {}
    for node, by_round in sorted(at.items()):
        before: list[str] = []
        found[node] = []
        for round_ in rounds:
            now = sorted(by_round.get(round_, []))
            if now != before:
                read = [json.loads(text) for text in now]
                found[node].append([round_, [[row.get(column) for column in columns] for row in read]])
                before = now
    return found
