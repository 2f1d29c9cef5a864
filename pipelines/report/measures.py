"""Computes the rows of the charts of a run: latencies, hops, messages over time, load, and rows of state tables.

The charts cover all rounds of a run, even if the report replays only some of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from pipelines.report.states import Sizes, state_sizes
from pipelines.sql.query import StoreReader

MOST_BARS = 40
"""The maximum number of nodes, or of links, in a chart; a chart shows the nodes or links with the most messages."""
MOST_SERIES = 7
"""The maximum number of message kinds, or of state tables, that have a colour of their own.

A chart gives colours to the kinds with the most messages, or to the tables with the most rows, and sums up all others.
"""
_MOST_STEPS = 80
_MOST_COLUMNS = 30
_MOST_ROUNDS = 2_000
Rows = list[dict[str, Any]]
DELIVERED_AND_LOST = """
select run_id, 'deliveries' as what, round, count(1) as n from delivery where run_id in ({runs}) group by run_id, round
union all
select run_id, 'messages lost' as what, due_round as round, count(1) as n from sent_message
where run_id in ({runs}) and src <> dst and fate like 'lost%' group by run_id, due_round
"""
"""SQL for the numbers of deliveries and of lost messages of the runs ``{runs}``, by round."""
_SQL = {
    "latency": "select run_id, latency_rounds as value, count(1) as n from delivery"
    " where run_id in ({runs}) and latency_rounds is not null group by run_id, latency_rounds",
    "hops": "select run_id, hops as value, count(1) as n from delivery"
    " where run_id in ({runs}) and hops is not null group by run_id, hops",
    "over_time": DELIVERED_AND_LOST,
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
    """Returns the rows of the charts in ``assets/measures.json``, by run and chart name.

    ``ends`` maps each run to its last round. ``sizes`` is the result of `states.state_sizes`; None computes it.
    """
    found: dict[int, dict[str, Rows]] = {run_id: {} for run_id in ends}
    runs = ", ".join(map(str, ends))
    for name in (name for name in names if name != STATES):
        counted: dict[int, Rows] = defaultdict(list)
        for row in reader.sql(_SQL[name].format(runs=runs, most=MOST_BARS)).toArrow().to_pylist():
            counted[row["run_id"]].append(row)
        for run_id, end in ends.items():
            found[run_id][name] = _chart_rows(name, counted[run_id], end)
    if STATES in names:
        counted_sizes = state_sizes(reader, ends) if sizes is None else sizes
        for run_id, of_run in counted_sizes.items():
            found[run_id][STATES] = _state_sizes(of_run)
    return found


def _chart_rows(name: str, rows: Rows, end: int) -> Rows:
    """Converts the SQL aggregates of one run to the rows of chart ``name``; ``end`` is the last round of the run."""
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
    """Returns the frequencies of values, or of at most 30 intervals of equal width, including zeros.

    Column ``name`` contains the value, or the interval as ``first to last``. ``number`` maps each value to its
    number of occurrences.
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


def by_interval(rows: Rows, end: int, most: int, *keys: str) -> tuple[int, Counter[tuple[Any, ...]]]:
    """Sums up column ``n`` over at most ``most`` intervals of equal length, which cover the rounds up to ``end``.

    Returns the length of an interval, and the sums, keyed by columns ``keys`` and the first round of the interval.
    """
    step = -(-(end + 1) // most)
    number: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        number[*(row[key] for key in keys), row["round"] // step * step] += row["n"]
    return step, number


def _over_time(rows: Rows, end: int) -> Rows:
    """Returns the numbers of deliveries and of lost messages per round; in a long run, per interval of rounds."""
    step, number = by_interval(rows, end, _MOST_STEPS, "what")
    last = max([end, *(row["round"] for row in rows)])
    return [
        {"round": at, "rounds": _span(at, step), "what": what, "n": number[what, at]}
        for what in ("deliveries", "messages lost") for at in range(0, last + 1, step)
    ]  # fmt: skip


def _kinds(rows: Rows, end: int) -> Rows:
    total: Counter[str] = Counter()
    for row in rows:
        total[row["kind"]] += row["n"]
    largest = set(sorted(total, key=lambda kind: (-total[kind], kind))[:MOST_SERIES])
    named = [row | {"kind": row["kind"] if row["kind"] in largest else "other kinds"} for row in rows]
    _, number = by_interval(named, end, _MOST_ROUNDS, "kind")
    found = [{"round": at, "kind": kind, "n": n} for (kind, at), n in number.items()]
    return sorted(found, key=itemgetter("round", "kind"))


def _state_sizes(sizes: Sizes) -> Rows:
    largest = sorted((table for table in sizes if any(sizes[table].values())), key=lambda t: -max(sizes[t].values()))
    shown = {table: Counter(sizes[table]) for table in largest[:MOST_SERIES]}
    if others := largest[MOST_SERIES:]:
        shown["other tables"] = sum((Counter(sizes[table]) for table in others), Counter())
    rounds = sorted({at for of_table in sizes.values() for at in of_table})
    return [{"round": at, "table": table, "n": size[at]} for table, size in shown.items() for at in rounds]
