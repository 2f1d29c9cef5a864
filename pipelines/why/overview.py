"""What went wrong in a store, by cause: deliveries that are missing, twice or late, and one of each to ask about."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root
from pipelines.why.ask import stories
from pipelines.why.story import Story
from pipelines.why.wrong import KINDS, TWICE, gone_wrong

CauseKey = tuple[str | int, ...]


@dataclass(frozen=True)
class Group:
    """Deliveries that went wrong in one way, for one cause.

    Attributes:
        what: ``missing``, ``twice``, ``late``, or ``excused``: missing, too, but it did not have to come, as the
            subscriber or the publisher crashed, or the subscription did not stand yet.
        cause: The cause in words, of the first of them.
        number: How many there are among those that were asked about.
        first: The story of the first.
    """

    what: str
    cause: str
    number: int
    first: Story

    @property
    def options(self) -> str:
        """The options of ``roundtable why`` that tell the story of the first."""
        return why_options(self.first.run_id, self.first.subscriber, self.first.source, self.first.call)


@dataclass(frozen=True)
class Overview:
    """What went wrong in a store.

    Attributes:
        groups: By kind, the largest first.
        left_out: How many deliveries of a kind were not asked about.
    """

    groups: Sequence[Group]
    left_out: dict[str, int]


def overview(reader: StoreReader, run_id: int | None = None) -> Overview:
    """Returns the groups of wrong deliveries, of one run or of all.

    Late is a delivery that took longer than the links allow. All are counted; the first of a kind are asked about.
    """
    groups: list[Group] = []
    left_out: dict[str, int] = {}
    for what in KINDS:
        asked = gone_wrong(reader, what, None if run_id is None else [run_id])
        left_out |= {what: asked[0].number - len(asked)} if asked and asked[0].number > len(asked) else {}
        groups += _grouped(what, stories(reader, [one.question for one in asked]))
    return Overview(groups, left_out)


def why_options(run_id: int, subscriber: str, source: str, call: int) -> str:
    """Returns the options of ``roundtable why`` for a publication, ready for a shell."""
    named = (("run", str(run_id)), ("subscriber", subscriber), ("source", source), ("call", str(call)))
    return " ".join(f"--{name} {shlex.quote(value)}" for name, value in named)


def why_command(store: Root, options: str) -> str:
    """Returns a command for a shell."""
    return f"roundtable why {shlex.quote(str(store))} {options}"


def _grouped(what: str, told: Sequence[Story]) -> list[Group]:
    found: dict[CauseKey, list[Story]] = {}
    for story in told:
        found.setdefault(cause_key(what, story), []).append(story)
    groups = [Group(what, cause_words(what, members[0]), len(members), members[0]) for members in found.values()]
    return sorted(groups, key=lambda group: -group.number)


def cause_key(what: str, story: Story) -> CauseKey:
    """Returns a key that stories of a kind share whose deliveries went wrong for one cause."""
    cause = None if what == TWICE else story.cause
    return () if cause is None else (cause.kind, story.names[cause.node], cause.round, story.run_id)


def cause_words(what: str, story: Story) -> str:
    """Returns the cause in words."""
    if what == TWICE:
        return "delivered again"
    return story.verdict if story.cause is None else story.cause.text
