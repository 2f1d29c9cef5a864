"""Reads the state rows of each node of a run at commits. Rows of a node are listed only at commits that change them.

A commit is identified by the last round before it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame

from pipelines.contract.round import STATE
from pipelines.engines.frames import json_object, union
from pipelines.errors import VacuumedError
from pipelines.report.replay import Span
from pipelines.sql.query import StoreReader

MOST_COMMITS = 24
"""The maximum number of commits of a run at which the report shows states."""
MOST_ROWS = 60_000
"""The maximum number of state rows of a run in the report. A table that would exceed this number is omitted."""
_IDS = ("run_id", "node_id")
Sizes = Mapping[str, Mapping[int, int]]
"""Maps a state table and a commit, identified by its last round, to a number of rows."""


def states(reader: StoreReader, spans: Mapping[int, Span], sizes: Mapping[int, Sizes]) -> dict[int, dict[str, Any]]:
    """Returns the states of the nodes of some runs as JSON-serialisable dicts.

    ``spans`` maps each run to the rounds to show. ``sizes`` is the result of `state_sizes` for the commits to show.

    Returns:
        A dict for each run:

        - ``commits``: the commits that are shown;
        - ``n_commits``: the number of commits in the span whose state exists;
        - ``gone``: the commits whose state VACUUM removed;
        - ``left_out``: the tables that are omitted because they have too many rows;
        - ``tables``: for each table, ``columns`` and ``nodes``. For each node, ``nodes`` has a list of pairs: a round,
          and the rows of the node from this round to the round of the next pair.
    """
    rounds = {run_id: _commits(reader, run_id, span) for run_id, span in spans.items()}
    gone = {run_id: _vacuumed_rounds(reader.of_run(run_id), _spread(of_run)) for run_id, of_run in rounds.items()}
    kept = {run_id: [at for at in _spread(of_run) if at not in gone[run_id]] for run_id, of_run in rounds.items()}
    found: dict[int, dict[str, Any]] = {
        run_id: {
            "commits": kept[run_id], "n_commits": len(rounds[run_id]) - len(gone[run_id]), "gone": gone[run_id],
            "tables": {}, "left_out": [],
        }
        for run_id in spans
    }  # fmt: skip
    fitting: dict[tuple[StoreReader, str], dict[int, Sequence[int]]] = defaultdict(dict)
    for run_id, of_run in sizes.items():
        part, n_rows = reader.of_run(run_id), 0
        for name, of_table in of_run.items():
            own = [column for column in part.table(name).columns if column not in _IDS]
            n_here = sum(of_table[at] for at in kept[run_id])
            if n_rows + n_here > MOST_ROWS:
                found[run_id]["left_out"].append(name)
                continue
            n_rows += n_here
            found[run_id]["tables"][name] = {"columns": own, "nodes": {}}
            if n_here:
                fitting[part, name][run_id] = sorted({*_first_equal(part, name, kept[run_id]).values()})
    for (part, name), of_runs in fitting.items():
        own = [column for column in part.table(name).columns if column not in _IDS]
        for run_id, members in groupby(_rows(part, name, own, of_runs), key=itemgetter("run_id")):
            found[run_id]["tables"][name]["nodes"] = _changes(list(members), own, of_runs[run_id])
    return found


def state_sizes(
    reader: StoreReader, ends: Mapping[int, int], spans: Mapping[int, Span] | None = None
) -> dict[int, dict[str, dict[int, int]]]:
    """Returns the number of rows of each state table of each run at commits, keyed by run, table and last round.

    These are up to `MOST_COMMITS` commits, evenly spread up to the last round of a run (``ends``), and as many in the
    run's span if ``spans`` is set. Commits whose states VACUUM removed are omitted.
    """
    kept = _spread_commits(reader, ends, spans)
    found: dict[int, dict[str, dict[int, int]]] = {run_id: {} for run_id in kept}
    parts: dict[StoreReader, list[int]] = defaultdict(list)
    for run_id in kept:
        parts[reader.of_run(run_id)].append(run_id)
    for part, run_ids in parts.items():
        for name in (name for name in part.tables() if name.startswith(STATE)):
            if "node_id" not in part.table(name).columns:
                continue
            for run_id in run_ids:
                found[run_id][name] = dict.fromkeys(kept[run_id], 0)
            first = {run_id: _first_equal(part, name, kept[run_id]) for run_id in run_ids}
            frames = [
                frame.groupBy("run_id").count().selectExpr("run_id", f"{at} as round", "`count` as n")
                for at, frame in _at_commits(part, name, {run: sorted({*at.values()}) for run, at in first.items()})
            ]
            for row in union(frames).toArrow().to_pylist() if frames else ():
                of_table = found[row["run_id"]][name]
                of_table |= {at: row["n"] for at, equal in first[row["run_id"]].items() if equal == row["round"]}
    return found


def _spread_commits(
    reader: StoreReader, ends: Mapping[int, int], spans: Mapping[int, Span] | None
) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for run_id, end in ends.items():
        rounds = _commits(reader, run_id, Span())
        last = min((at for at in rounds if at >= end), default=end)
        within = [] if spans is None else _spread(_commits(reader, run_id, spans[run_id]))
        chosen = sorted({*_spread([at for at in rounds if at <= last]), *within})
        gone = _vacuumed_rounds(reader.of_run(run_id), chosen)
        found[run_id] = [at for at in chosen if at not in gone]
    return found


def _commits(reader: StoreReader, run_id: int, span: Span) -> list[int]:
    """Returns the last commit before the span and the commits within the span, in the order of rounds."""
    text = f"select distinct last_round from round_commit where {run_id} between first_run and last_run"  # noqa: S608 - a number
    rounds = sorted(row.last_round for row in reader.sql(text).collect())
    inside = [at for at in rounds if at >= span.first and (span.last is None or at <= span.last)]
    return [*[at for at in rounds if at < span.first][-1:], *inside]


def _vacuumed_rounds(reader: StoreReader, rounds: Sequence[int]) -> list[int]:
    """Returns the rounds in ``rounds`` for which VACUUM has removed the version of a state table."""
    found: set[int] = set()
    for name in (name for name in reader.tables() if name.startswith(STATE)):
        first = _first_equal(reader, name, rounds)
        gone = {at for at in sorted({*first.values()}) if _is_gone(reader, name, at)}
        found |= {at for at, equal in first.items() if equal in gone}
    return sorted(found)


def _is_gone(reader: StoreReader, name: str, at: int) -> bool:
    try:
        reader.table(name, at)
    except VacuumedError:
        return True
    return False


def _first_equal(reader: StoreReader, name: str, rounds: Sequence[int]) -> dict[int, int]:
    """Maps each of ``rounds`` to the first of ``rounds`` at which the state table has the same version."""
    first: dict[tuple[int, ...], int] = {}
    versions = reader.state_versions(name, rounds)
    return {at: first.setdefault(version, at) for at, version in zip(rounds, versions, strict=True)}


def _spread(rounds: Sequence[int]) -> list[int]:
    """Returns up to `MOST_COMMITS` of ``rounds``, evenly spread; the first and the last round are included."""
    if len(rounds) <= MOST_COMMITS:
        return list(rounds)
    step = (len(rounds) - 1) / (MOST_COMMITS - 1)
    return sorted({rounds[round(number * step)] for number in range(MOST_COMMITS)})


def _at_commits(reader: StoreReader, name: str, kept: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, DataFrame]]:
    """Yields each commit, and the rows of state table ``name`` at this commit of the runs that ``kept`` maps to it."""
    runs: dict[int, list[int]] = defaultdict(list)
    for run_id, rounds in kept.items():
        for at in rounds:
            runs[at].append(run_id)
    for at, of_round in sorted(runs.items()):
        yield at, reader.table(name, at).where(f"run_id in ({', '.join(map(str, of_round))})")


def _rows(
    reader: StoreReader, name: str, columns: Sequence[str], kept: Mapping[int, Sequence[int]]
) -> list[dict[str, Any]]:
    """Returns the rows of table ``name`` at the commits ``kept`` of each run; ``row`` is JSON of ``columns``."""
    frames = [
        frame.selectExpr("run_id", f"{at} as round", "node_id", f"{json_object(columns)} as row")
        for at, frame in _at_commits(reader, name, kept)
    ]
    rows: list[dict[str, Any]] = union(frames).toArrow().to_pylist() if frames else []
    return sorted(rows, key=itemgetter("run_id"))


def _changes(rows: Sequence[dict[str, Any]], columns: Sequence[str], rounds: Sequence[int]) -> dict[int, list[Any]]:
    """Returns, for each node, a list of the rounds in which the rows of the node changed, each with the new rows."""
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
