"""What a run measured, as rows for pictures: latencies, hops, traffic over time, load, sizes of states.

Every number is an aggregate in SQL over the whole run; the rounds of a replay do not matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.report.states import Sizes, spread_commits, state_sizes
from pipelines.sql.query import StoreReader

MOST_BARS = 40
"""Nodes and links of a picture, those with the most messages."""
MOST_COLOURS = 7
"""Kinds and tables with a colour of their own, the largest; the others are added up."""
_MOST_STEPS = 80
_MOST_COLUMNS = 30
_MOST_ROUNDS = 2_000
Rows = list[dict[str, Any]]
_SQL = {
    "latency": "select run_id, latency_rounds as value, count(1) as n from delivery"
    " where run_id in ({runs}) and latency_rounds is not null group by run_id, latency_rounds",
    "hops": "select run_id, hops as value, count(1) as n from delivery"
    " where run_id in ({runs}) and hops is not null group by run_id, hops",
    "over_time": """
select run_id, 'deliveries' as what, round, count(1) as n from delivery where run_id in ({runs}) group by run_id, round
union all
select run_id, 'messages lost' as what, due_round as round, count(1) as n from sent_message
where run_id in ({runs}) and src <> dst and fate like 'lost%' group by run_id, due_round
""",
    "kinds": "select run_id, kind, greatest(sent_round, 0) as round, count(1) as n from sent_message"
    " where run_id in ({runs}) and src <> dst group by run_id, kind, greatest(sent_round, 0)",
    "nodes": """
select run_id, position, name, n_sent as sent, n_received as received from (
  select *, row_number() over (partition by run_id order by n_sent + n_received desc, node_id) as position
  from node_load where run_id in ({runs}) and n_sent + n_received > 0
) l where position <= {most} order by run_id, position
""",
    "links": """
select run_id, position, src_name, dst_name, n from (
  select *, row_number() over (partition by run_id order by n desc, src, dst) as position from (
    select run_id, src, dst, src_name, dst_name, sum(n_messages) as n
    from link_load where run_id in ({runs}) group by run_id, src, dst, src_name, dst_name
  ) s
) l where position <= {most} order by run_id, position
""",
}
STATES = "states"
NAMES = (*_SQL, STATES)


def measures(
    reader: StoreReader, ends: Mapping[int, int], names: Sequence[str] = NAMES,
    sizes: Mapping[int, Sizes] | None = None,
) -> dict[int, dict[str, Rows]]:  # fmt: skip
    """Returns the rows of the pictures of some runs, by run and name: see ``assets/measures.json``.

    Args:
        reader: The store.
        ends: The last round of each run, by id.
        names: The pictures.
        sizes: See `states.state_sizes`, by run; None: they are counted.
    """
    found: dict[int, dict[str, Rows]] = {run_id: {} for run_id in ends}
    runs = ", ".join(map(str, ends))
    for name in names:
        counted: dict[int, Rows] = defaultdict(list)
        if name != STATES:
            for row in reader.sql(_SQL[name].format(runs=runs, most=MOST_BARS)).toArrow().to_pylist():
                counted[row["run_id"]].append(row)
        for run_id, end in ends.items():
            if name == STATES:
                continue
            found[run_id][name] = _shaped(name, counted[run_id], end)
    if STATES in names:
        counted_sizes = state_sizes(reader, spread_commits(reader, ends)) if sizes is None else sizes
        for run_id, of_run in counted_sizes.items():
            found[run_id][STATES] = _state_sizes(of_run)
    return found


def _shaped(name: str, rows: Rows, end: int) -> Rows:
    """Returns the rows of a picture from the aggregates of one run."""
    if name in ("latency", "hops"):
        return histogram(name, {row["value"]: row["n"] for row in rows})
    if name == "over_time":
        return _over_time(rows, end)
    if name == "kinds":
        return _kinds(rows, end)
    if name == "nodes":
        return [{"name": row["name"], "what": what, "n": row[what]} for row in rows for what in ("sent", "received")]
    return [{"name": f"{row['src_name']} to {row['dst_name']}", "n": row["n"]} for row in rows]


def histogram(name: str, number: Mapping[int, int]) -> Rows:
    """Returns the counts of values, or of spans of values that are far apart; a value without a count has a 0.

    Args:
        name: The column of the value, or of the span as ``first to last``; the other one is ``n``.
        number: The count of each value.
    """
    if not number:
        return []
    first, last = min(number), max(number)
    step = -(-(last - first + 1) // _MOST_COLUMNS)
    return [
        {name: _span(at, step), "n": sum(number.get(at + i, 0) for i in range(step))}
        for at in range(first, last + 1, step)
    ]


def _span(at: int, step: int) -> str:
    return str(at) if step == 1 else f"{at} to {at + step - 1}"


def _over_time(rows: Rows, end: int) -> Rows:
    """Returns the counts of each round, or of spans of rounds where there are many."""
    step = -(-(end + 1) // _MOST_STEPS)
    number: Counter[tuple[str, int]] = Counter()
    for row in rows:
        number[row["what"], row["round"] // step * step] += row["n"]
    last = max([end, *(row["round"] for row in rows)])
    return [
        {"round": at, "rounds": _span(at, step), "what": what, "n": number[what, at]}
        for what in ("deliveries", "messages lost") for at in range(0, last + 1, step)
    ]  # fmt: skip


def _kinds(rows: Rows, end: int) -> Rows:
    """Returns the messages of each kind and round; of more than 2,000 rounds those of spans of rounds."""
    step = -(-(end + 1) // _MOST_ROUNDS)
    total: Counter[str] = Counter()
    for row in rows:
        total[row["kind"]] += row["n"]
    largest = set(sorted(total, key=lambda kind: (-total[kind], kind))[:MOST_COLOURS])
    number: Counter[tuple[int, str]] = Counter()
    for row in rows:
        number[row["round"] // step * step, row["kind"] if row["kind"] in largest else "other kinds"] += row["n"]
    return [{"round": at, "kind": kind, "n": n} for (at, kind), n in sorted(number.items())]


def _state_sizes(sizes: Sizes) -> Rows:
    """Returns the rows of each state table at each commit.

    Args:
        sizes: See `states.state_sizes`, of one run.
    """
    largest = sorted((table for table in sizes if any(sizes[table].values())), key=lambda t: -max(sizes[t].values()))
    shown = {table: Counter(sizes[table]) for table in largest[:MOST_COLOURS]}
    if others := largest[MOST_COLOURS:]:
        shown["other tables"] = sum((Counter(sizes[table]) for table in others), Counter())
    rounds = sorted({at for of_table in sizes.values() for at in of_table})
    return [{"round": at, "table": table, "n": size[at]} for table, size in shown.items() for at in rounds]
