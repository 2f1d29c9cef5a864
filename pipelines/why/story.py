"""The story of one publication for one subscriber: how it ended, why, what happened on the way; its printed forms."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from pipelines.why.cause import Cause
from pipelines.why.steps import Step

Ended = Literal["delivered", "lost", "not_matching", "not_issued", "unknown"]
_WIDE = 10_000
_STYLES = {"crash": "red", "detection": "yellow", "delivery": "green"}


@dataclass(frozen=True)
class Story:
    """How a publication ended for a subscriber; ``print`` shows it as a tree.

    Attributes:
        run_id: The run.
        subscriber: Name of the subscriber.
        source: Name of the publisher.
        seq: Number of the publication among those that the publisher issued; None: it was not issued.
        call: Its number among all calls of the publisher, ``source_seq`` in the tables.
        ended: ``delivered``; ``lost``; ``not_matching``: no subscription of the subscriber stood that asks for it;
            ``not_issued``: the publisher could not publish it; ``unknown``: it was under way when the history ended.
        node: Name of the last node on the path that had it; None where nobody had.
        round: Round of the delivery, or in which that node had it; None where nobody had it.
        late_rounds: Deliveries: by how many rounds later than the links allow; None where there are no links.
        is_expected: Whether the subscriber has to get it, as view ``expected_delivery`` says.
        excused: Losses: ``subscriber_down`` or ``publisher_crashed``, why it does not have to get it; None: neither.
        cause: What ended it; deliveries: what kept it, None where nothing did.
        also: Losses: other crashes on the way because of which nobody sent it again: ``node, round, until``.
        path: Names of the nodes on the fastest way.
        steps: What happened, a tree.
        subscription: How the subscription came to the publisher, a tree, where it came too late; None: it did not.
        verdict: All that in a sentence.
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
    steps: Step | None
    verdict: str
    names: dict[int, str]
    subscription: Step | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns it for JSON.

        Returns:
            The attributes by name, without ``names``. ``cause`` has ``kind, node, round, text`` (see `Cause`), and
            with a crash ``until``. A step has ``event, round, text``, what belongs to the event (see `steps.Step`), and
            ``steps``, those that followed from it.
        """
        kept = (
            "run_id", "subscriber", "source", "seq", "call", "ended", "node", "round", "late_rounds", "is_expected",
            "excused",
        )  # fmt: skip
        return {name: getattr(self, name) for name in kept} | {
            "cause": self.cause.as_dict(self.names) if self.cause else None,
            "also": list(self.also),
            "path": list(self.path),
            "verdict": self.verdict,
            "steps": self.steps.as_dict() if self.steps else None,
            "subscription": self.subscription.as_dict() if self.subscription else None,
        }

    def __str__(self) -> str:
        """Returns it as text, as ``roundtable why`` prints it where the output is no terminal."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """Shows it in a notebook: what happened as nested lists, then the verdict."""
        heading = f"{story_name(self)}; way: {' - '.join(self.path)}"
        told = "" if self.steps is None else f"<ul>{_items(self.steps)}</ul>"
        return f"<p>{escape(heading)}</p>{told}<p><b>{escape(self.verdict)}</b></p>"


def print_story(story: Story, out: TextIO | None = None) -> None:
    """Prints a story; a step takes one line where the output is no terminal."""
    stream = out if out is not None else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else _WIDE, soft_wrap=False, highlight=False)
    way = " - ".join(story.path)
    console.print(Text(f"{story_name(story)}; way: {way}"))
    if story.steps is not None:
        console.print(_tree(story.steps))
    console.print(Text(story.verdict))


def as_text(story: Story) -> str:
    """Returns a story as text without a line end."""
    out = io.StringIO()
    print_story(story, out)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def json_line(story: Story) -> str:
    """Returns a story as one JSON object, see `Story.as_dict`."""
    return json.dumps(story.as_dict(), ensure_ascii=False)


def publication_name(source: str, seq: int | None, call: int) -> str:
    """Returns the name of a publication: its number among those that its source issued, and among all calls of it.

    Args:
        source: Name of the publisher.
        seq: The first number; None: it was not issued.
        call: The second one, ``source_seq`` in the tables.
    """
    return f"call {call} of {source}" if seq is None else f"publication {seq} (call {call}) of {source}"


def story_name(story: Story) -> str:
    """Returns the heading of a story: run, publication and subscriber."""
    return f"run {story.run_id}: {publication_name(story.source, story.seq, story.call)} for {story.subscriber}"


def _items(step: Step) -> str:
    below = "".join(_items(one) for one in step.steps)
    return f"<li>{escape(step.text)}{f'<ul>{below}</ul>' if below else ''}</li>"


def _tree(step: Step) -> Tree:
    tree = Tree(_line(step))
    _grow(tree, step)
    return tree


def _grow(tree: Tree, step: Step) -> None:
    for below in step.steps:
        _grow(tree.add(_line(below)), below)


def _line(step: Step) -> Text:
    is_lost = str(step.data.get("fate", "")).startswith("lost")
    return Text(step.text, style="red" if is_lost else _STYLES.get(step.event, ""))
