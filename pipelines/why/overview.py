"""What went wrong in a store, by cause: deliveries that are missing, twice or late, and one of each to ask about."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root
from pipelines.why.ask import Question, stories
from pipelines.why.story import Story

MAX_ASKED = 300
"""Deliveries of a kind whose stories are told; those of the first runs and rounds."""
MISSING, TWICE, LATE, EXCUSED = "missing", "twice", "late", "excused"
WENT_WRONG = {
    MISSING: "select run_id, subscriber, source, source_seq, publication_round as round from missing_delivery",
    TWICE: "select run_id, subscriber, source, source_seq, first_round as round from duplicate_delivery",
    LATE: """
      select run_id, subscriber, source, source_seq, round from (
        select *, min(latency_rounds) over (partition by run_id, subscriber, source) as fastest from delivery
      ) d where latency_rounds > fastest""",
    EXCUSED: """
      select w.run_id, w.subscriber, w.source, w.source_seq, w.publication_round as round
      from wanted_delivery w
      left join missing_delivery m on m.run_id = w.run_id and m.subscriber = w.subscriber and m.source = w.source
        and m.source_seq = w.source_seq
      where w.delivery_round is null and m.run_id is null""",
}
"""Deliveries to ask about, by kind: ``run_id, subscriber, source, source_seq, round``; some of the late may not be.
With those that are missing, the excused ones are all that subscribers wanted and did not get."""


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
    """Returns what went wrong, in one run or in all.

    Late is a delivery that took longer than the links allow.
    """
    groups: list[Group] = []
    left_out: dict[str, int] = {}
    for what, text in WENT_WRONG.items():
        where = "" if run_id is None else f" where run_id = {run_id}"
        asked = f"select * from ({text}) a{where}"  # noqa: S608 - built of constants and a number
        rows = reader.sql(
            f"select *, count(1) over () as n from ({asked}) b "  # noqa: S608 - as above
            f"order by run_id, round, subscriber, source, source_seq limit {MAX_ASKED}"
        ).collect()
        left_out |= {what: rows[0].n - len(rows)} if rows and rows[0].n > len(rows) else {}
        told = stories(reader, [Question(row.run_id, row.subscriber, row.source, row.source_seq) for row in rows])
        groups += _grouped(what, told if what != LATE else [story for story in told if story.late_rounds])
    return Overview(groups, left_out)


def why_options(run_id: int, subscriber: str, source: str, call: int) -> str:
    """Returns the options of ``roundtable why`` for a publication, ready for a shell."""
    named = (("run", str(run_id)), ("subscriber", subscriber), ("source", source), ("call", str(call)))
    return " ".join(f"--{name} {shlex.quote(value)}" for name, value in named)


def why_command(store: Root, options: str) -> str:
    """Returns a command for a shell."""
    return f"roundtable why {shlex.quote(str(store))} {options}"


def _grouped(what: str, told: Sequence[Story]) -> list[Group]:
    found: dict[tuple[str | int, ...], list[Story]] = {}
    for story in told:
        cause = None if what == TWICE else story.cause
        key = () if cause is None else (cause.kind, story.names[cause.node], cause.round, story.run_id)
        found.setdefault(key, []).append(story)
    groups = [Group(what, _words(what, members[0]), len(members), members[0]) for members in found.values()]
    return sorted(groups, key=lambda group: -group.number)


def _words(what: str, story: Story) -> str:
    if what == TWICE:
        return "delivered again"
    return story.verdict if story.cause is None else story.cause.text
