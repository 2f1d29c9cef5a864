"""A story on a terminal: a line for the question, a tree of steps, and the verdict."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

if TYPE_CHECKING:
    from pipelines.why.steps import Step
    from pipelines.why.story import Story

_WIDE = 10_000
_STYLES = {"crash": "red", "detection": "yellow", "delivery": "green"}


def print_story(story: Story, out: TextIO | None = None) -> None:
    """Prints a story; a step takes one line where the output is no terminal."""
    stream = out if out is not None else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else _WIDE, soft_wrap=False, highlight=False)
    way = " - ".join(story.path)
    console.print(
        Text(f"run {story.run}: publication {story.seq} of {story.source} for {story.subscriber}; way: {way}")
    )
    if story.steps is not None:
        console.print(_tree(story.steps))
    console.print(Text(story.verdict))


def as_text(story: Story) -> str:
    """Gives a story as text without a line end."""
    out = io.StringIO()
    print_story(story, out)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def json_line(story: Story) -> str:
    """Gives a story as one JSON object, see `Story.as_dict`."""
    return json.dumps(story.as_dict(), ensure_ascii=False)


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
