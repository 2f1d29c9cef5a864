"""A story explains the delivery of one publication to one subscriber by a verdict, a cause, and a tree of steps.

A story prints as text or as JSON. A step is a child of the step that caused it.
"""

from __future__ import annotations

import io
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from pipelines.why.cause import Cause
from pipelines.why.facts import HANDLED, LOST, Downtime, MessageFact, PublicationFact, Trail

_Key = int | None
_ISSUED: _Key = None


@dataclass
class StoryStep:
    """An event of a story.

    Attributes:
        event: The type, which determines the fields of ``data``:

            - ``published``: ``node``;
            - ``copy``: ``message_id, kind, from, to, sent_round, due_round, fate, bypassed, is_resent, is_guided``;
            - ``delivery``: ``node, hops``;
            - ``crash``: ``node, until, statuses``;
            - ``detection``, the report of a failure detector at ``node`` about ``peer``: ``node, peer``;
            - ``contact``, a lost message with which a node tried to bypass a failed node on the path:
              ``from, to, kind, due_round, fate``;
            - ``subscription``: ``node, confirmed_round``; the children are the copies that propagate the subscription.
        round: The round; for a copy, the round of sending.
        text: The event as a sentence.
        data: The fields of this type of event.
        steps: The children: the steps that this step caused.
    """

    event: str
    round: int
    text: str
    data: dict[str, Any] = field(default_factory=dict)
    steps: list[StoryStep] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Returns the step and its children as a JSON-serialisable dict."""
        below = [step.as_dict() for step in self.steps]
        return {"event": self.event, "round": self.round, "text": self.text, **self.data, "steps": below}


class StoryBuilder:
    """Builds the tree of steps of a publication.

    ``_below`` maps the message id of a copy to the steps that the copy caused, and `_ISSUED` to all other steps.
    """

    def __init__(self, trail: Trail, deliveries: Sequence[tuple[int, int]], named: Collection[tuple[int, int]]) -> None:
        """Sets the input of `tell`.

        Args:
            trail: The copies of the publication.
            deliveries: Round and hops of each delivery to the subscriber.
            named: Node and round of the crashes that explain the outcome. The tree includes these crashes even if they
                precede the publication.
        """
        self._trail = trail
        self._facts = trail.facts
        self._names = trail.facts.names
        self._deliveries = deliveries
        self._below: dict[_Key, list[StoryStep]] = defaultdict(list)
        self._told = self._included_downtimes(named)

    def tell(self, publication: PublicationFact) -> StoryStep:
        """Returns the root of the tree: the step of the publication."""
        topic = f" on topic {publication.topic}" if publication.topic else ""
        name = self._names[publication.source]
        for copy in self._trail.copies:
            parent = self._trail.held(copy.src, copy.sent)
            step = self._copy(copy, self._trail.start if parent is None else parent.due)
            self._below[_ISSUED if parent is None else parent.message_id].append(step)
            step.steps = self._below[copy.message_id]
        for down in self._told.values():
            self._below[self._had(down.node, down.round)].append(self._crash(down))
        for round_, hops in self._deliveries:
            self._below[self._had(self._trail.path[-1], round_ + 1)].append(self._delivery(round_, hops))
        top = self._below[_ISSUED]
        text = f"{name} publishes{topic} in round {publication.round}"
        for below in self._below.values():
            below.sort(key=lambda step: step.round)
        return StoryStep("published", publication.round, text, {"node": name}, top)

    def _had(self, node: int, before: int) -> _Key:
        held = self._trail.held(node, before - 1)
        return _ISSUED if held is None else held.message_id

    def _included_downtimes(self, named: Collection[tuple[int, int]]) -> dict[tuple[int, int], Downtime]:
        """Returns the downtimes that the story includes, by node and round of the crash.

        They are in ``named``, or overlap the rounds of the copies at nodes of the path and receivers of copies.
        """
        last = max([copy.due for copy in self._trail.copies], default=self._trail.start)
        first = self._trail.start
        near = dict.fromkeys([*self._trail.path, *(copy.dst for copy in self._trail.copies)])
        return {
            (down.node, down.round): down
            for node in near
            for down in self._facts.downs.get(node, [])
            if down.overlaps(first, last) or (down.node, down.round) in named
        }

    def _copy(self, copy: MessageFact, had: int) -> StoryStep:
        """Returns the step of ``copy``, whose sender had the publication since round ``had``."""
        src, dst = self._names[copy.src], self._names[copy.dst]
        is_resent = any(other.src == copy.src and other.sent < copy.sent for other in self._trail.copies)
        is_unicast = copy.kind != self._trail.copies[0].kind
        is_guided = copy.body.get("guide") is not None
        is_direct = copy.src == copy.dst or is_unicast or self._facts.overlay.has_edge(copy.src, copy.dst)
        bypassed = [] if is_direct else [self._names[node] for node in self._facts.path(copy.src, copy.dst)[1:-1]]
        notes = [
            *(["again"] if is_resent else []),
            *([f"as {copy.kind}"] if is_unicast else []),
            *([f"held since round {had}"] if copy.sent > had and not is_resent else []),
            *([f"bypassing {' and '.join(bypassed)}"] if bypassed else []),
            *(["Guided"] if is_guided else []),
        ]
        said = f" ({', '.join(notes)})" if notes else ""
        data = {
            "message_id": copy.message_id, "kind": copy.kind, "from": src, "to": dst, "sent_round": copy.sent,
            "due_round": copy.due, "fate": copy.fate, "bypassed": bypassed, "is_resent": is_resent,
            "is_guided": is_guided,
        }  # fmt: skip
        self._below[copy.message_id] += self._after_loss(copy) if copy.fate in LOST else []
        text = f"{src} sends it to {dst}{said} in round {copy.sent}: {self._fate(copy)}"
        return StoryStep("copy", copy.sent, text, data)

    def _fate(self, copy: MessageFact) -> str:
        dst = self._names[copy.dst]
        if copy.fate == "delivered":
            return f"received in round {copy.due}"
        if copy.fate == "duplicate":
            first = self._trail.arrivals.get(copy.dst)
            known = f", which received it in round {first[0].due}" if first and first[0].due <= copy.due else ""
            return f"dropped as a duplicate in round {copy.due} by {dst}{known}"
        if copy.fate == "in_flight":
            return f"still in flight, due in round {copy.due}"
        down = self._facts.down(copy.dst, copy.due)
        if copy.fate == "lost_link" or down is None:
            fault = self._facts.loss(copy) if copy.fate == "lost_link" else None
            return f"lost on the link{'' if fault is None else f' ({fault})'}, due in round {copy.due}"
        if down.covers(copy.due):
            return f"lost in round {copy.due}, {dst} is down"
        return f"lost in round {copy.due}, {dst} dropped it after its crash in round {down.round}"

    def _after_loss(self, copy: MessageFact) -> list[StoryStep]:
        """Returns the crash of the receiver of a lost copy, its detection by the sender, and later attempts.

        The result is empty if the receiver had not crashed, or if an earlier step contains the crash.
        """
        down = self._facts.down(copy.dst, copy.due)
        if down is None or self._told.pop((down.node, down.round), None) is None:
            return []
        reports = self._facts.reports(copy.src, copy.dst)
        heard = [report for report in reports if report.sent >= down.round and report.fate == HANDLED][:1]
        return [self._crash(down), *map(self._detection, heard), *(self._contacts(copy, heard[0].due) if heard else [])]

    def _detection(self, report: MessageFact) -> StoryStep:
        node, peer = self._names[report.src], self._names[report.body["peer"]]
        text = f"{node} detects the failure of {peer} in round {report.due}"
        return StoryStep("detection", report.due, text, {"node": node, "peer": peer})

    def _contacts(self, copy: MessageFact, since: int) -> list[StoryStep]:
        """Returns the failed attempts of the sender of ``copy`` to contact the nodes behind the receiver on the path.

        An attempt is the first lost message to a node that belongs to no call and was sent in round ``since`` or later.
        """
        path = self._trail.path
        behind = path[path.index(copy.dst) + 1 :] if copy.dst in path else ()
        lost: dict[int, MessageFact] = {}
        for message in self._facts.others:
            if message.src == copy.src and message.dst in behind and message.fate in LOST and message.sent >= since:
                lost.setdefault(message.dst, message)
        return [self._contact(message) for message in lost.values()]

    def _contact(self, message: MessageFact) -> StoryStep:
        src, dst = self._names[message.src], self._names[message.dst]
        text = f"{src} sends {message.kind} to {dst} in round {message.sent}: {self._fate(message)}"
        data = {"from": src, "to": dst, "kind": message.kind, "due_round": message.due, "fate": message.fate}
        return StoryStep("contact", message.sent, text, data)

    def _crash(self, down: Downtime) -> StoryStep:
        name = self._names[down.node]
        recovery = "does not recover" if down.until is None else f"recovers in round {down.until}"
        said = [f"{status} in round {round_}" for round_, status in down.statuses]
        text = f"{name} crashes in round {down.round} and {recovery}" + (f"; {', '.join(said)}" if said else "")
        statuses = [{"round": round_, "status": status} for round_, status in down.statuses]
        return StoryStep("crash", down.round, text, {"node": name, "until": down.until, "statuses": statuses})

    def _delivery(self, round_: int, hops: int) -> StoryStep:
        name = self._names[self._trail.path[-1]]
        return StoryStep("delivery", round_, f"{name} delivers it in round {round_}", {"node": name, "hops": hops})


Ended = Literal["delivered", "lost", "not_matching", "not_issued", "unknown"]
_WIDE = 10_000
_STYLES = {"crash": "red", "detection": "yellow", "delivery": "green"}


@dataclass(frozen=True)
class Story:
    """The explanation of the delivery of one publication to one subscriber; ``print`` shows it as a tree.

    Attributes:
        run_id: The id of the run.
        subscriber: The name of the subscriber.
        source: The name of the publisher.
        seq: The number of the publication among the issued publications of the publisher; None if it was not issued.
        call: The number of the publication among all calls of the publisher: column ``source_seq``.
        ended: ``delivered``; ``lost``; ``not_matching``: the subscriber had no matching subscription, or ended it
            before the delivery was due, and no copy was lost before this end; ``not_issued``: the publisher could not
            issue the publication; ``unknown``: a message that may lead to the delivery was in flight at the end of the
            history.
        node: The name of the last node on the path that received the publication; None if it was not issued.
        round: The round of the delivery, or the round in which ``node`` received the publication; None if it was not
            issued.
        late_rounds: For a delivery, its latency minus the latency of the fastest path; None in runs without links.
        is_expected: Whether the delivery is a row of view ``expected_delivery``.
        excused: For a loss, the excuse ``subscriber_down`` or ``publisher_crashed``; None if the loss is not excused.
        cause: The cause if the publication was not delivered or was late; None if no cause is known.
        also: For a loss, the crashes (``node, round, until``) because of which a repeated copy could not pass the nodes
            behind ``node`` on the path.
        path: The names of the nodes on the fastest path.
        verdict: The outcome as a sentence.
        steps: The tree of steps.
        subscription: If the subscription reached the publisher too late, the tree of steps of its propagation; else
            None.
        names: Node names by id.
    """

    run_id: int
    subscriber: str
    source: str
    seq: int | None
    call: int
    ended: Ended
    node: str | None
    round: int | None
    late_rounds: int | None
    is_expected: bool
    excused: str | None
    cause: Cause | None
    also: tuple[dict[str, Any], ...]
    path: tuple[str, ...]
    verdict: str
    steps: StoryStep | None
    subscription: StoryStep | None
    names: dict[int, str]

    def as_dict(self) -> dict[str, Any]:
        """Returns all attributes except ``names`` as a JSON-serialisable dict.

        ``cause`` is the dict of `Cause.as_dict`; ``steps`` and ``subscription`` are dicts of `StoryStep.as_dict`.
        """
        found = {name: value for name, value in vars(self).items() if name != "names"}
        cause = self.cause.as_dict(self.names) if self.cause else None
        trees = {"steps": self.steps, "subscription": self.subscription}
        return (
            found
            | {"cause": cause, "also": list(self.also), "path": list(self.path)}
            | {name: tree.as_dict() if tree else None for name, tree in trees.items()}
        )

    def __str__(self) -> str:
        """Returns the plain text that ``roundtable why`` prints, without a final line break."""
        out = io.StringIO()
        print_story(self, out)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    def _repr_html_(self) -> str:
        heading = f"{story_name(self)}; path: {' - '.join(self.path)}"
        told = "" if self.steps is None else f"<ul>{_items(self.steps)}</ul>"
        return f"<p>{escape(heading)}</p>{told}<p><b>{escape(self.verdict)}</b></p>"


def print_story(story: Story, out: TextIO | None = None) -> None:
    """Prints a story to ``out``, or to standard output if ``out`` is ``None``; wraps lines only on a terminal."""
    stream = out if out is not None else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else _WIDE, soft_wrap=False, highlight=False)
    console.print(Text(f"{story_name(story)}; path: {' - '.join(story.path)}"))
    if story.steps is not None:
        console.print(_tree(story.steps))
    console.print(Text(story.verdict))


def publication_name(source: str, seq: int | None, call: int) -> str:
    """Returns the display name of a publication with both of its numbers: `Story.seq` and `Story.call`."""
    return f"call {call} of {source}" if seq is None else f"publication {seq} (call {call}) of {source}"


def story_name(story: Story) -> str:
    """Returns the heading of a story: run, publication and subscriber."""
    return f"run {story.run_id}: {publication_name(story.source, story.seq, story.call)} for {story.subscriber}"


def _items(step: StoryStep) -> str:
    below = "".join(_items(one) for one in step.steps)
    return f"<li>{escape(step.text)}{f'<ul>{below}</ul>' if below else ''}</li>"


def _tree(step: StoryStep) -> Tree:
    is_lost = str(step.data.get("fate", "")).startswith("lost")
    tree = Tree(Text(step.text, style="red" if is_lost else _STYLES.get(step.event, "")))
    tree.children.extend(map(_tree, step.steps))
    return tree
