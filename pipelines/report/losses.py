"""Deliveries that are missing, twice or late: all counted, by cause, and stories of the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.sql.query import StoreReader
from pipelines.why import Story, stories
from pipelines.why.overview import LATE, MISSING, TWICE, CauseKey, cause_key, cause_words, gone_wrong, why_options

MOST_ASKED = 1_000
"""Deliveries of a run and kind whose cause is found out."""
MOST_TOLD = 60
"""Stories of a run and kind that are in a report, and one of each cause beside these."""
_WAITED = "no fault was in the way: it waited at nodes"


def losses(reader: StoreReader, run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Returns what went wrong with deliveries of some runs, for JSON.

    Returns:
        By run: ``number``: how many there are, by kind, and ``n_asked``: of how many the cause is known; ``causes``:
        ``what, text, n`` (among those asked), and ``round, node`` of the cause, the largest first; ``stories``: as
        `Story.as_dict`, with ``what``, ``group``, the index of the cause, and ``options``, those of ``roundtable why``;
        ``left_out``: by kind how many are not told.
    """
    found: dict[int, dict[str, Any]] = {
        run_id: {"number": {}, "n_asked": {}, "causes": [], "stories": [], "left_out": {}} for run_id in run_ids
    }
    for what in (MISSING, TWICE, LATE):
        asked = gone_wrong(reader, what, run_ids, MOST_ASKED, is_by_run=True)
        told = stories(reader, [one.question for one in asked])
        for run_id, of_run in found.items():
            own = [story for story in told if story.run_id == run_id]
            if own:
                of_run["number"][what] = next(one.number for one in asked if one.question.run_id == run_id)
                of_run["n_asked"][what] = len(own)
                _tell(of_run, what, own)
    return found


def _tell(found: dict[str, Any], what: str, told: Sequence[Story]) -> None:
    """Adds the causes and the stories of one kind to those of a run."""
    number = Counter(cause_key(what, story) for story in told)
    index: dict[CauseKey, int] = {}
    first = {key: next(story for story in told if cause_key(what, story) == key) for key in number}
    for key, n in sorted(number.items(), key=lambda pair: -pair[1]):
        story, index[key] = first[key], len(found["causes"])
        cause = None if what == TWICE else story.cause
        found["causes"].append({
            "what": what, "n": n, "round": story.round if cause is None else cause.round,
            "text": _WAITED if what == LATE and cause is None else cause_words(what, story),
            "node": None if cause is None else story.names[cause.node],
        })  # fmt: skip
    kept = [story for place, story in enumerate(told) if place < MOST_TOLD or story is first[cause_key(what, story)]]
    for story in kept:
        options = why_options(story.run_id, story.subscriber, story.source, story.call)
        told_as = {"what": what, "group": index[cause_key(what, story)], "options": options}
        found["stories"].append(story.as_dict() | told_as)
    if len(kept) < found["number"][what]:
        found["left_out"][what] = found["number"][what] - len(kept)


def said(found: Mapping[str, int], command: str) -> list[str]:
    """Returns in words which stories are left out; the command is the one that groups them."""
    words = {MISSING: "are missing", TWICE: "came twice", LATE: "are late"}
    return [
        f"stories of {number:,} more deliveries that {words[what]}; {command} groups them by cause"
        for what, number in found.items()
    ]
