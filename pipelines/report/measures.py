"""What a run measured, as rows for pictures: latencies, hops, traffic over time, load, sizes of states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

MOST_BARS = 40
"""Nodes and links of a picture, those with the most messages."""
MOST_COLOURS = 7
"""Kinds and tables with a colour of their own, the largest; the others are added up."""
_MOST_STEPS = 80
_MOST_COLUMNS = 30
Rows = list[dict[str, Any]]


def measures(replay: Mapping[str, Any]) -> dict[str, Rows]:
    """Returns the rows of each picture of a run, by name: see ``assets/measures.json``.

    Args:
        replay: What `replay.replay` returns, with ``state``.
    """
    names, sent, texts = replay["nodes"]["name"], replay["message"], replay["texts"]
    delivery = replay["delivery"]
    shown = [kind if place < MOST_COLOURS else "other kinds" for place, kind in enumerate(texts["kind"])]
    kinds = Counter(zip(sent["sent_round"], (shown[kind] for kind in sent["kind"]), strict=True))
    by_link = Counter(zip(sent["src"], sent["dst"], strict=True))
    links = [(f"{names[src]} to {names[dst]}", n) for (src, dst), n in by_link.most_common(MOST_BARS)]
    return {
        "latency": histogram("latency", delivery["latency_rounds"]),
        "hops": histogram("hops", delivery["hops"]),
        "over_time": _over_time(replay),
        "kinds": [{"round": at, "kind": kind, "n": n} for (at, kind), n in sorted(kinds.items())],
        "nodes": _node_load(replay),
        "links": [{"name": name, "n": n} for name, n in links],
        "states": _state_sizes(replay["state"]),
    }


def histogram(name: str, values: Iterable[int | None]) -> Rows:
    """Counts values, or spans of them where they are far apart; those between that do not occur have a 0.

    Args:
        name: The column of the value, or of the span as ``first to last``; the other one is ``n``.
        values: What is counted; nulls are not.
    """
    number = Counter(value for value in values if value is not None)
    if not number:
        return []
    first, last = min(number), max(number)
    step = -(-(last - first + 1) // _MOST_COLUMNS)
    return [
        {name: str(at) if step == 1 else f"{at} to {at + step - 1}", "n": sum(number[at + i] for i in range(step))}
        for at in range(first, last + 1, step)
    ]


def _over_time(replay: Mapping[str, Any]) -> Rows:
    """Counts in each round, or in spans of rounds where there are many."""
    sent, fates = replay["message"], replay["texts"]["fate"]
    lost = Counter(
        due for due, fate in zip(sent["due_round"], sent["fate"], strict=True) if fates[fate].startswith("lost")
    )
    counted = {"deliveries": Counter(replay["delivery"]["round"]), "messages lost": lost}
    step = -(-(replay["last"] - replay["first"] + 1) // _MOST_STEPS)
    rounds = range(replay["first"], replay["last"] + 1, step)
    return [
        {"round": at, "rounds": str(at) if step == 1 else f"{at} to {at + step - 1}", "what": what,
         "n": sum(number[at + i] for i in range(step))}
        for what, number in counted.items() for at in rounds
    ]  # fmt: skip


def _node_load(replay: Mapping[str, Any]) -> Rows:
    """Counts what nodes sent, and what they handled; what was lost or is in flight was not received."""
    names, rows, fates = replay["nodes"]["name"], replay["message"], replay["texts"]["fate"]
    taken = [
        dst for dst, fate in zip(rows["dst"], rows["fate"], strict=True) if fates[fate] in ("delivered", "duplicate")
    ]
    sent, received = Counter(rows["src"]), Counter(taken)
    most = sorted(sent | received, key=lambda node: (-sent[node] - received[node], node))[:MOST_BARS]
    both = (("sent", sent), ("received", received))
    return [{"name": names[node], "what": what, "n": number[node]} for node in most for what, number in both]


def _state_sizes(state: Mapping[str, Any]) -> Rows:
    sizes: dict[str, Counter[int]] = {}
    for table, one in state["tables"].items():
        size = sizes[table] = Counter()
        for changes in one["nodes"].values():
            held = dict.fromkeys(state["commits"], 0)
            for since, rows in changes:
                held.update({commit: len(rows) for commit in state["commits"] if commit >= since})
            for commit, number in held.items():
                size[commit] += number
    largest = sorted((table for table in sizes if sizes[table]), key=lambda table: -max(sizes[table].values()))
    shown = {table: sizes[table] for table in largest[:MOST_COLOURS]}
    if others := largest[MOST_COLOURS:]:
        shown["other tables"] = sum((sizes[table] for table in others), Counter())
    return [{"round": at, "table": table, "n": size[at]} for table, size in shown.items() for at in state["commits"]]
