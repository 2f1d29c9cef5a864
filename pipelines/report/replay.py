"""What a replay of a run shows: its overlay, its messages, what happened to its nodes; rows as lists of columns.

Nodes are named by their ids, which are their places in the list of names. Rounds outside the span are left out; what
stands at its beginning is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.protocols import PROTOCOLS
from pipelines.report.layout import Point, layout
from pipelines.sql.query import StoreReader

MOST_MESSAGES = 20_000
"""Messages of a replay; rounds after those are left out."""
_NODES = "select name, role from node where run_id = {run} order by node_id"
_LINKS = "select src, dst, latency_rounds from link where run_id = {run} order by src, dst"
_MESSAGES = """
select message_id, kind, src, dst, sent_round, due_round, fate, source, source_seq, body from sent_message
where run_id = {run} and src <> dst and due_round >= {first} and sent_round <= {last} order by message_id limit {most}
"""
_EDGES = """
select node_id, held_node_id, is_shortcut, round, until_round as end_round from {view}
where run_id = {run} and round <= {last} order by round, node_id, held_node_id, is_shortcut, until_round
"""
_ROWS = {
    "status": "select round, node_id, status from node_status where run_id = {run} and round <= {last}"
    " order by round, node_id, status desc",
    "fault": "select round, kind, node_id, src, dst from fault_event where run_id = {run} and round <= {last}"
    " order by round, kind, node_id, src, dst",
    "delivery": "select round, subscriber, source, source_seq, latency_rounds, hops from delivery"
    " where run_id = {run} and round <= {last} order by round, subscriber, source, source_seq",
    "publication": "select source, source_seq, issued_round, topic, content, confirmed_round from publication"
    " where run_id = {run} and issued_round <= {last} order by source, source_seq",
    "subscription": "select subscription_id, subscriber, predicate, issued_round from subscription"
    " where run_id = {run} order by subscription_id",
    "violation": "select round, guarantee, node_id, source, source_seq, detail, excused from violation"
    " where run_id = {run} order by round, guarantee, node_id, source, source_seq, detail",
}


@dataclass(frozen=True)
class Span:
    """Some rounds, both ends among them.

    Attributes:
        first: The first round.
        last: The last one; None: the end of the run.
    """

    first: int = 0
    last: int | None = None


WHOLE = Span()
"""All rounds of a run."""


def replay(reader: StoreReader, run: Mapping[str, Any], span: Span, places: Mapping[str, Point]) -> dict[str, Any]:
    """Returns what the replay of a run shows, for JSON.

    Args:
        reader: The store.
        run: The run's row: ``run_id``, ``rounds``, and what else is to be kept of it.
        span: The rounds.
        places: Longitude and latitude of nodes by name, as far as they have some.

    Returns:
        ``run``; ``first, last``: the rounds; ``is_cut``: whether there were too many messages for all rounds that were
        asked for; ``nodes``: names and roles; ``layout, points``; ``links``; ``edge``: those that nodes hold, where the
        protocol makes the overlay; ``message`` and the others of `_ROWS`,
        each the columns of a table by name; ``texts``: what the numbers in columns of ``message`` stand for.
    """
    last = reader.last_round() if run["rounds"] is None else run["rounds"]
    last = last if span.last is None else min(span.last, last)
    keys = {"run": run["run_id"], "first": span.first, "last": last, "most": MOST_MESSAGES + 1}
    messages = columns(reader, _MESSAGES.format(**keys))
    is_cut = len(messages["message_id"]) > MOST_MESSAGES
    if is_cut:
        last = keys["last"] = max(span.first, messages["sent_round"][-1] - 1)
        messages = _sent_by(messages, last)
    nodes = columns(reader, _NODES.format(**keys))
    links = columns(reader, _LINKS.format(**keys))
    placed = {number: places[name] for number, name in enumerate(nodes["name"]) if name in places}
    edges = _edges(reader, run, last)
    held = [
        (node, peer, end is None)
        for node, peer, is_shortcut, end in zip(
            *(edges[name] for name in ("node_id", "held_node_id", "is_shortcut", "end_round")), strict=True
        )
        if not is_shortcut
    ] if edges else []  # fmt: skip
    kind, points = layout(len(nodes["name"]), list(zip(links["src"], links["dst"], strict=True)), placed, held)
    numbers, texts = _coded(messages, ("kind", "fate", "body"))
    rows = {name: columns(reader, text.format(**keys)) for name, text in _ROWS.items()}
    return {
        "run": dict(run), "first": span.first, "last": last, "is_cut": is_cut, "nodes": nodes, "layout": kind,
        "points": points, "links": links, "edge": edges, "message": messages | numbers, "texts": texts, **rows,
    }  # fmt: skip


def _edges(reader: StoreReader, run: Mapping[str, Any], last: int) -> dict[str, list[Any]] | None:
    """Returns the edges that nodes held, in the order of time; None where the protocol does not make the overlay."""
    view = PROTOCOLS[run["protocol"]].edges
    return None if view is None else columns(reader, _EDGES.format(view=view, run=run["run_id"], last=last))


def columns(reader: StoreReader, text: str) -> dict[str, list[Any]]:
    """Returns the answer to a query as a list a column."""
    found: dict[str, list[Any]] = reader.sql(text).toArrow().to_pydict()
    return found


def _sent_by(messages: Mapping[str, Sequence[Any]], last: int) -> dict[str, list[Any]]:
    kept = [number for number, sent in enumerate(messages["sent_round"]) if sent <= last]
    return {name: [values[number] for number in kept] for name, values in messages.items()}


def _coded(rows: Mapping[str, list[Any]], names: Sequence[str]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Returns columns with numbers in place of repeated texts, and what the numbers stand for; bodies are read.

    The most frequent text has the number 0: numbers choose colours, and there are fewer of these than kinds.
    """
    numbers: dict[str, list[Any]] = {}
    texts: dict[str, list[Any]] = {}
    for name in names:
        often = Counter(value for value in rows[name] if value is not None)
        texts[name] = sorted(often, key=lambda text: (-often[text], text))
        number = {text: place for place, text in enumerate(texts[name])}
        numbers[name] = [None if value is None else number[value] for value in rows[name]]
    return numbers, texts | {"body": [_read(text) for text in texts["body"]]}


def _read(body: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return json.loads(body)
    except ValueError:
        return body
