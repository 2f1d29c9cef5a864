"""Reads the content of a replay: the overlay, the messages and the node events of a run.

A replay contains the messages and deliveries of a range of rounds, and the faults, statuses, publications, violations
and counts of the whole run. Each table is a dict of column lists. The id of a node is its index in the list of names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pipelines.errors import QueryError
from pipelines.protocols import PROTOCOLS
from pipelines.report.layout import Point, layout
from pipelines.sql.query import StoreReader

MOST_MESSAGES = 20_000
"""The maximum number of messages in a replay.

If the requested rounds have more messages, the replay shows a part of these rounds, see `window`.
"""
_NODES = "select name, role from node where run_id = {run} order by node_id"
_LINKS = "select src, dst, latency_rounds from link where run_id = {run} order by src, dst"
_MESSAGES = """
select message_id, kind, src, dst, sent_round, due_round, fate, source, source_seq, body from sent_message
where run_id = {run} and src <> dst and due_round >= {first} and sent_round <= {last}
order by case when fate like 'lost%' then 0 else 1 end, message_id limit {most}
"""
_KINDS = """
select kind from (
  select kind, count(1) as n from sent_message where run_id = {run} and src <> dst group by kind
) k order by n desc, kind
"""
_EDGES = """
select node_id, held_node_id, is_shortcut, round, until_round as end_round from {view}
where run_id = {run} and round <= {end} order by round, node_id, held_node_id, is_shortcut, until_round
"""
# Messages of the initial state have a negative round of sending; they count in round 0.
_COUNTS = """
select greatest(round, 0) as round, sum(n_sent) as n_sent, sum(n_handled + n_lost) as n_ended, sum(n_lost) as n_lost,
  sum(n_deliveries) as n_deliveries
from round_summary where run_id = {run} and n_sent + n_handled + n_lost + n_deliveries > 0
group by greatest(round, 0) order by 1
"""
_ROWS = {
    "status": "select round, node_id, status from node_status where run_id = {run} and round <= {end}"
    " order by round, node_id, status desc",
    "fault": "select round, kind, node_id, src, dst from fault_event where run_id = {run} and round <= {end}"
    " order by round, kind, node_id, src, dst",
    "delivery": "select round, subscriber, source, source_seq, latency_rounds, hops from delivery"
    " where run_id = {run} and round between {first} and {last} order by round, subscriber, source, source_seq",
    "publication": "select source, source_seq, row_number() over (partition by source order by source_seq) as seq,"
    " issued_round, topic, content, confirmed_round from publication where run_id = {run} order by source, source_seq",
    "subscription": "select subscription_id, subscriber, predicate, issued_round from subscription"
    " where run_id = {run} order by subscription_id",
    "violation": "select round, guarantee, node_id, source, source_seq, detail, excused from violation"
    " where run_id = {run} order by round, guarantee, node_id, source, source_seq, detail",
}


@dataclass(frozen=True)
class Span:
    """A range of rounds that includes both ends; ``last`` None stands for the last round of the run."""

    first: int = 0
    last: int | None = None


WHOLE = Span()
"""All rounds of a run."""


def replay(reader: StoreReader, run: Mapping[str, Any], span: Span, places: Mapping[str, Point]) -> dict[str, Any]:
    """Returns the replay of a run as a JSON-serialisable dict.

    Args:
        reader: A reader of the store.
        run: The row of the run with ``run_id``, ``rounds`` and ``protocol``.
        span: The rounds whose messages are requested.
        places: Maps names of nodes to longitude and latitude; nodes without coordinates are omitted.

    Returns:
        - ``run``, and ``end``: the last round of the run;
        - ``first, last``: the rounds of the messages and deliveries, all or a part of ``span``, see `window`;
        - ``n_messages``: the number of messages in ``span``; ``is_cut``: whether some of these messages are omitted;
        - ``nodes``: names and roles; ``layout, points``: the result of `layout.layout`; ``links``; ``edge``: the edges
          that nodes hold, or None if the protocol does not build the overlay;
        - ``counts``: for each round of the run, the numbers of sent, ended and lost messages, and of deliveries;
        - ``message`` and the keys of `_ROWS`: tables as dicts of column lists; ``texts``: for each column of
          ``message`` with numbers instead of strings, the list of strings that the numbers index.

    Raises:
        QueryError: The span begins after the last round.
    """
    end = last_round(reader, run)
    if span.first > end:
        raise QueryError(f"round {span.first} does not exist in run {run['run_id']}; allowed: 0 to {end}")
    keys = {"run": run["run_id"], "end": end, "most": MOST_MESSAGES}
    counts = columns(reader, _COUNTS.format(**keys))
    rows = {name: columns(reader, text.format(**keys)) for name, text in _ROWS.items() if name != "delivery"}
    traffic = traffic_of(counts, end)
    asked = Span(span.first, end if span.last is None else min(span.last, end))
    first, last = window(traffic, asked, _events(rows, counts))
    keys |= {"first": first, "last": last}
    messages = reader.sql(_MESSAGES.format(**keys)).toArrow().sort_by("message_id").to_pydict()
    rows["delivery"] = columns(reader, _ROWS["delivery"].format(**keys))
    nodes = columns(reader, _NODES.format(**keys))
    links = columns(reader, _LINKS.format(**keys))
    placed = {number: places[name] for number, name in enumerate(nodes["name"]) if name in places}
    edges = _edges(reader, run, end)
    held = [
        (node, peer, end_round is None)
        for node, peer, is_shortcut, _, end_round in zip(*(edges or {}).values(), strict=True)
        if not is_shortcut
    ]
    form, points = layout(len(nodes["name"]), list(zip(links["src"], links["dst"], strict=True)), placed, held)
    n_messages = traffic(asked.first, asked.last or 0)
    numbers, texts = _encoded(messages, {"kind": columns(reader, _KINDS.format(**keys))["kind"]})
    return {
        "run": dict(run), "end": end, "first": first, "last": last, "n_messages": n_messages,
        "is_cut": len(messages["message_id"]) < n_messages, "nodes": nodes, "layout": form, "points": points,
        "links": links, "edge": edges, "counts": counts,
        "message": messages | numbers, "texts": texts, **rows,
    }  # fmt: skip


def last_round(reader: StoreReader, run: Mapping[str, Any]) -> int:
    """Returns the last round of a run. Before the audit, this is the last round of the store."""
    return reader.last_round() if run["rounds"] is None else int(run["rounds"])


Traffic = Callable[[int, int], int]
"""A function that returns the number of messages in flight in the rounds from a first to a last round."""


def traffic_of(counts: Mapping[str, Sequence[int]], end: int) -> Traffic:
    """Returns the traffic function of a run from its counts for each round up to ``end``."""
    by_round = [dict(zip(counts["round"], counts[name], strict=True)) for name in ("n_sent", "n_ended")]
    sent, ended = (list(accumulate(number.get(at, 0) for at in range(end + 1))) for number in by_round)
    return lambda first, last: sent[last] - (ended[first - 1] if first > 0 else 0)


def _events(rows: Mapping[str, Mapping[str, Sequence[Any]]], counts: Mapping[str, Sequence[int]]) -> Counter[int]:
    """Returns the weight of each round, from 0 to 3: one each for a fault, a violation and a lost message."""
    lost = [at for at, number in zip(counts["round"], counts["n_lost"], strict=True) if number]
    return Counter([*set(rows["fault"]["round"]), *(set(rows["violation"]["round"]) - {None}), *lost])


def window(traffic: Traffic, asked: Span, events: Mapping[int, int]) -> tuple[int, int]:
    """Returns the first and the last round whose messages the replay shows.

    The range is ``asked`` if it has at most `MOST_MESSAGES` messages. Otherwise, it is the range in ``asked`` with the
    largest sum of weights (``events``) and at most as many messages, extended at both ends up to this limit. A single
    round may exceed the limit.
    """
    low, high = asked.first, asked.last or 0
    if traffic(low, high) <= MOST_MESSAGES:
        return low, high
    rounds = [at for at in sorted(events) if low <= at <= high] or [low]
    best, first, last, weight, start = -1, rounds[0], rounds[0], 0, 0
    for at in rounds:
        weight += events.get(at, 0)
        while rounds[start] < at and traffic(rounds[start], at) > MOST_MESSAGES:
            weight -= events.get(rounds[start], 0)
            start += 1
        if weight > best:
            best, first, last = weight, rounds[start], at
    before = None
    while before != (first, last):
        before = first, last
        if first > low and traffic(first - 1, last) <= MOST_MESSAGES:
            first -= 1
        if last < high and traffic(first, last + 1) <= MOST_MESSAGES:
            last += 1
    return first, last


def _edges(reader: StoreReader, run: Mapping[str, Any], end: int) -> dict[str, list[Any]] | None:
    """Returns the edges that nodes held, ordered by time; None if the protocol does not build the overlay."""
    view = PROTOCOLS[run["protocol"]].edges
    return None if view is None else columns(reader, _EDGES.format(view=view, run=run["run_id"], end=end))


def columns(reader: StoreReader, text: str) -> dict[str, list[Any]]:
    """Returns the result of query ``text`` as a dict from column name to list of values."""
    found: dict[str, list[Any]] = reader.sql(text).toArrow().to_pydict()
    return found


def _encoded(
    rows: Mapping[str, list[Any]], known: Mapping[str, list[str]]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Encodes columns ``kind``, ``fate`` and ``body`` as numbers; returns them, and the strings that the numbers index.

    Strings are sorted by descending frequency, because the page gives colours to the first kinds only. ``known``
    contains the sorted strings of the whole run, for columns where they are known. Bodies are parsed from JSON.
    """
    numbers: dict[str, list[Any]] = {}
    texts: dict[str, list[Any]] = {}
    for name in ("kind", "fate", "body"):
        often = Counter(value for value in rows[name] if value is not None)
        texts[name] = known.get(name) or sorted(often, key=lambda text: (-often[text], text))
        number = {text: index for index, text in enumerate(texts[name])}
        numbers[name] = [None if value is None else number[value] for value in rows[name]]
    return numbers, texts | {"body": [json.loads(text) for text in texts["body"]]}
