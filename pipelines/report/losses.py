"""Deliveries that are missing, twice or late, and violations without one of these, each with its story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from pipelines.sql.query import StoreReader
from pipelines.why import Question, Story, stories
from pipelines.why.overview import LATE, MISSING, TWICE, WENT_WRONG, why_options

MOST_TOLD = 60
"""Stories of a run and kind that are told."""
_ASKED = ("run_id", "subscriber", "source", "source_seq")


def losses(reader: StoreReader, run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Returns what went wrong with deliveries of some runs, for JSON.

    Returns:
        By run: ``stories``: as `Story.as_dict`, with ``what`` and ``options``, those of ``roundtable why``;
        ``left_out``: by kind how many are not told.
    """
    listed = ", ".join(map(str, run_ids))
    asked: list[tuple[str, Question]] = []
    found: dict[int, dict[str, Any]] = {run_id: {"stories": [], "left_out": {}} for run_id in run_ids}
    for what in (MISSING, TWICE, LATE):
        wrong = f"select * from ({WENT_WRONG[what]}) a where run_id in ({listed})"  # noqa: S608 - built of constants
        rows = reader.sql(f"{wrong} order by run_id, round, subscriber, source, source_seq").toArrow().to_pylist()
        for run_id, members in groupby(rows, key=itemgetter("run_id")):
            questions = [Question(*(row[name] for name in _ASKED)) for row in members]
            asked += [(what, question) for question in questions[:MOST_TOLD]]
            if len(questions) > MOST_TOLD:
                found[run_id]["left_out"][what] = len(questions) - MOST_TOLD
    for (what, _), story in zip(asked, stories(reader, [question for _, question in asked]), strict=True):
        if what != LATE or story.late_rounds:
            found[story.run_id]["stories"].append(_told(what, story))
    return found


def _told(what: str, story: Story) -> dict[str, Any]:
    options = why_options(story.run_id, story.subscriber, story.source, story.call)
    return {**story.as_dict(), "what": what, "options": options}


def said(found: Mapping[str, int], command: str) -> list[str]:
    """Returns in words which stories are left out; the command is the one that groups them."""
    words = {MISSING: "are missing", TWICE: "came twice", LATE: "may be late"}
    return [
        f"stories of {number:,} more deliveries that {words[what]}; {command} groups them by cause"
        for what, number in found.items()
    ]
