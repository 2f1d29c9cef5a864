"""Draws space-time diagrams, with a line for each node and an arrow for each message.

A diagram shows messages of a run, or a story (`why.story.Story`): the path of one publication to one subscriber.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import QueryError
from pipelines.report.pictures import Picture, picture, specification
from pipelines.report.replay import columns
from pipelines.sql.differences import node_id, node_names
from pipelines.sql.query import StoreReader
from pipelines.why.facts import rounds_of
from pipelines.why.story import Story, StoryStep

_ROUND, _ROW = 26, 34
"""The width of a round, and the distance between two node lines, in pixels."""
_WIDEST, _NARROWEST = 2400, 320
_LOST = ("lost_link", "lost_crash")
_MOST = 600


@dataclass(frozen=True)
class Arrow:
    """A message of a diagram, with node names."""

    src: str
    dst: str
    sent: int
    due: int
    kind: str
    fate: str


@dataclass
class Diagram:
    """The content of a space-time diagram.

    Attributes:
        nodes: Node names from top to bottom.
        arrows: The messages to draw, one arrow each.
        downs: Crashes: the node, the round of the crash, and the round of the recovery, or None if it did not recover.
        deliveries: Deliveries: the subscriber and the round.
        calls: Publications, subscriptions and confirmations: the node, the round and the label.
    """

    nodes: list[str]
    arrows: list[Arrow] = field(default_factory=list)
    downs: list[tuple[str, int, int | None]] = field(default_factory=list)
    deliveries: list[tuple[str, int]] = field(default_factory=list)
    calls: list[tuple[str, int, str]] = field(default_factory=list)

    def datasets(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the rows for each dataset of the Vega-Lite specification."""
        rows = {name: row for row, name in enumerate(self.nodes)}
        first, last = self.span
        wide, high = self.size
        x_step, y_step = wide / max(last - first, 1), high / max(len(rows) - 1, 1)
        messages = [
            {
                "sent": one.sent, "due": one.due, "from_row": rows[one.src], "to_row": rows[one.dst], "kind": one.kind,
                "is_lost": one.fate in _LOST,
                "angle": angle((one.due - one.sent) * x_step, (rows[one.dst] - rows[one.src]) * y_step),
                "text": f"{one.kind}, {one.src} to {one.dst}, round {one.sent} to {one.due}: {one.fate}",
            }
            for one in self.arrows
        ]  # fmt: skip
        return {
            "nodes": [{"name": name, "row": row, "first": first, "last": last} for name, row in rows.items()],
            "messages": messages,
            "arrived": [row for row in messages if not row["is_lost"]],
            "lost": [row for row in messages if row["is_lost"]],
            "downs": [
                {"row": rows[name], "from": max(start, first), "to": last if end is None else min(end, last),
                 "text": f"{name}, {rounds_of(start, end)}"}
                for name, start, end in self.downs if name in rows and start <= last and (end is None or end >= first)
            ],
            "deliveries": [
                {"row": rows[name], "round": at, "text": f"{name} in round {at}"} for name, at in self.deliveries
            ],
            "calls": [
                {"row": rows[name], "round": at, "what": what, "text": f"{what}: {name} in round {at}"}
                for name, at, what in self.calls
            ],
        }  # fmt: skip

    @property
    def span(self) -> tuple[int, int]:
        """The first round of the diagram, and the round after the last round of the diagram."""
        rounds = [at for one in self.arrows for at in (one.sent, one.due)]
        rounds += [at for _, at in self.deliveries] + [at for _, at, _ in self.calls]
        return (min(rounds), max(rounds) + 1) if rounds else (0, 1)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        first, last = self.span
        return max(_NARROWEST, min(_WIDEST, (last - first) * _ROUND)), max(1, len(self.nodes) - 1) * _ROW

    def draw(self, title: str) -> Picture:
        """Renders the diagram."""
        wide, high = self.size
        return picture(specification("space_time") | {"title": title, "width": wide, "height": high}, self.datasets())


def angle(x: float, y: float) -> float:
    """Returns the clockwise rotation, in degrees, of an upward arrow to the direction ``(x, y)`` on the screen."""
    return round(math.degrees(math.atan2(y, x)) + 90, 1)


def of_story(story: Story) -> Diagram:
    """Returns the diagram of a story: the copies of the publication, crashes, and deliveries.

    If a sender tried to contact nodes behind a crashed node, the diagram includes these messages. If the subscription
    reached the publisher too late, it includes the messages that propagate the subscription.
    """
    found = Diagram(list(story.path))
    for step in (*_all(story.steps), *_all(story.subscription)):
        told = step.data
        if step.event in ("copy", "contact"):
            ends = told["from"], told["to"]
            found.arrows.append(Arrow(*ends, step.round, told["due_round"], told["kind"], told["fate"]))
        elif step.event == "crash":
            found.downs.append((told["node"], step.round, told["until"]))
        elif step.event == "delivery":
            found.deliveries.append((told["node"], step.round))
        elif step.event == "published":
            found.calls.append((told["node"], step.round, "publish"))
        elif step.event == "subscription":
            found.calls.append((told["node"], step.round, "subscribe"))
            if told["confirmed_round"] is not None:
                found.calls.append((told["node"], told["confirmed_round"], "confirmed"))
    names = [name for one in found.arrows for name in (one.src, one.dst)] + [name for name, _ in found.deliveries]
    found.nodes = list(dict.fromkeys([*found.nodes, *names]))
    return found


def _all(step: StoryStep | None) -> Iterator[StoryStep]:
    if step is not None:
        yield step
        for below in step.steps:
            yield from _all(below)


def of_run(
    reader: StoreReader, run_id: int, source: str | None, call: int | None, node: str | None,
    rounds: tuple[int, int] | None,
) -> Diagram:  # fmt: skip
    """Returns the diagram of the messages that satisfy all conditions; an argument ``None`` sets no condition.

    ``source`` and ``call``, the number of a call of ``source``, select the messages of a publication. ``node`` selects
    the messages that it sends or receives, and ``rounds`` those in flight from the first to the last round.

    Raises:
        QueryError: Only one of ``source`` and ``call`` is given, the store has no such run or node, or the number of
            messages is 0 or too large.
    """
    if (source is None) != (call is None):
        raise QueryError("source and call name a publication together; allowed: both, or neither of them")
    names = node_names(reader, run_id)
    served = [] if source is None else [f"source = {node_id(names, run_id, source)}", f"source_seq = {call}"]
    at_node = [] if node is None else [f"{node_id(names, run_id, node)} in (src, dst)"]
    within = [] if rounds is None else [f"sent_round <= {rounds[1]}", f"due_round >= {rounds[0]}"]
    where = " and ".join((f"run_id = {run_id}", "src <> dst", *served, *at_node, *within))
    [n_messages] = columns(reader, f"select count(1) as n from sent_message where {where}")["n"]  # noqa: S608
    if not 0 < n_messages <= _MOST:
        found = f"{n_messages:,} messages are to be shown"
        raise QueryError(f"{found}; allowed: 1 to {_MOST}; choose other rounds, a node, or a publication")
    arrows = [
        Arrow(names[row.src], names[row.dst], row.sent_round, row.due_round, row.kind, row.fate)
        for row in reader.sql(f"select * from sent_message where {where} order by message_id").collect()  # noqa: S608
    ]
    ends = {name for one in arrows for name in (one.src, one.dst)}
    text = f"select * from node_recovery where run_id = {run_id} order by crash_round, node_id"  # noqa: S608 - a number
    downs = [(names[row.node_id], row.crash_round, row.recovery_round) for row in reader.sql(text).collect()]
    shown = Diagram([name for name in names.values() if name in ends], arrows, downs)
    first, last = shown.span
    among = ", ".join(str(number) for number, name in names.items() if name in ends and node in (None, name))
    whose = " and ".join((f"run_id = {run_id}", f"round between {first} and {last}", *served))
    if among:
        text = f"select subscriber, round from delivery where {whose} and subscriber in ({among}) order by round"  # noqa: S608
        shown.deliveries += [(names[row.subscriber], row.round) for row in reader.sql(text).collect()]
    return shown
