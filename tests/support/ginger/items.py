"""Rows of single nodes of `ginger`: what they have, what comes to them, and what they send and keep."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from udfs.ginger.buffer import Event
from udfs.ginger.items import Item, with_message
from udfs.ginger.missing_sets import MissingSets
from udfs.ginger.nodes import handled_rows
from udfs.ginger.queue import Message

ROUND = 7
SETTINGS = {"total_degree": 5, "max_hops": 3, "timer": 12, "buffer_size": 100, "collect_every": 0}
State = list[Item]


def message(seq: int, guarantee: str = "total", *keys: str, source: int = 9, topic: str = "t") -> Message:
    return Message(topic, source, seq, guarantee, tuple(keys) or ("k",), 1)


def mode(**settings: int) -> Item:
    """The settings, which are there where nodes may crash."""
    return Item("mode", 0, details=json.dumps({**SETTINGS, **settings}))


def memory(kind: str = "broker", **values: Any) -> Item:
    return Item("repair", 0, kind=kind, details=json.dumps(values))


def around(
    parent: int | None = None, children: Iterable[int] = (), clients: Iterable[int] = (), latency: int = 1
) -> State:
    """Neighbours of a broker, over links of ``latency`` rounds; to the parent they take one more."""
    rows = [Item("neighbour", node, "child", node, latency_rounds=latency) for node in children]
    rows += [Item("neighbour", node, "client", node, latency_rounds=latency) for node in clients]
    return rows + ([] if parent is None else [Item("neighbour", parent, "parent", parent, latency_rounds=latency + 1)])


def sub_tree(
    brokers: Iterable[int] = (), clients: Iterable[int] = (), members: Sequence[int] = (), topic: str = "t"
) -> State:
    """Who is in the sub-tree of a topic next to the node, and all that are in it."""
    rows = [Item("subscriber", node, "broker", node, topic=topic) for node in brokers]
    rows += [Item("subscriber", node, "client", node, topic=topic) for node in clients]
    return rows + ([Item("member", 0, topic=topic, covered=list(members))] if members else [])


def view(**places: tuple[int, int]) -> State:
    """What a node sees of the tree: n4=(0, 2) is its grandparent 4; all of it is four rounds away."""
    return [
        Item("tree_view", int(name[1:]), peer=int(name[1:]), hops=up, issued_round=down, latency_rounds=4)
        for name, (up, down) in places.items()
    ]


def got(position: int, kind: str, sender: int | None, about: Message | None = None, **others: Any) -> Item:
    """A message that comes over a link of one round."""
    return with_message("inbox", position, about, kind=kind, peer=sender, **{"latency_rounds": 1, **others})


def passed(seq: int, guarantee: str = "causal", what: str = "passed") -> Event:
    return Event(what, message(seq, guarantee), 3)


def bare(seq: int) -> Event:
    """What has left a buffer."""
    return Event("passed", message(seq).without_body(), 3)


def had(position: int, event: Event) -> Item:
    """An event in the node's buffer."""
    return with_message("history", position, event.message, kind=event.what, hops=event.hops)


def told(kind: str, sender: int, *events: Event, **known: Any) -> Item:
    """A node tells what the other lacks, and what it has had of topic t."""
    what = {"passed": {"t": set()}, "processed": {"t": set()}, **known}
    return got(1, kind, sender, details=MissingSets(list(events), **what).text())


def listed(*seqs: int) -> dict[str, list[list[int]]]:
    return {"t": [[9, seq] for seq in seqs]}


def play(node: int, *items: Item | State, round_: int = ROUND) -> State:
    """Lets a node handle what is for it; returns what it leaves behind."""
    rows: State = []
    for item in items:
        rows += [item] if isinstance(item, Item) else item
    return handled_rows(node, round_, rows)


def state(rows: State) -> State:
    """What the node has in its next round."""
    gone = ("out", "delivered", "connected", "status")
    return [row for row in rows if row.relation not in gone and row.kind not in ("left", "collected")]


def sent(rows: State, *names: str) -> list[tuple[Any, ...]]:
    """Kind, receiver and more of what is sent, in its order."""
    return [(row.kind, row.peer, *(getattr(row, name) for name in names)) for row in rows if row.relation == "out"]


def kept(rows: State, relation: str, *names: str) -> list[Any]:
    found = [tuple(getattr(row, name) for name in names) for row in rows if row.relation == relation]
    return [row[0] for row in found] if len(names) == 1 else found


def remembered(rows: State) -> dict[str, Any]:
    (text,) = kept(rows, "repair", "details")
    memory_: dict[str, Any] = json.loads(text)
    return memory_


def bodies(rows: State, kind: str) -> list[Any]:
    """Details of the messages of a kind, as values."""
    return [json.loads(row.details or "null") for row in rows if row.relation == "out" and row.kind == kind]
