"""Answers questions about the delivery of one publication to one subscriber."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipelines.errors import QueryError, is_whole, plural
from pipelines.sql.differences import node_id, node_names
from pipelines.sql.query import StoreReader
from pipelines.why.cause import Cause, crash_words, from_crash, waiting
from pipelines.why.facts import RunFacts, or_never
from pipelines.why.reading import read_facts
from pipelines.why.story import Story
from pipelines.why.telling import issued_story, unissued_story


class Question(NamedTuple):
    """A question: why did ``subscriber`` receive, or not receive, a publication of ``source``?

    Nodes are ids. ``call`` is the number of the publication among all calls of ``source``.
    """

    run_id: int
    subscriber: int
    source: int
    call: int


def story(
    reader: StoreReader, run_id: int, subscriber: str, source: str, seq: int | None = None, call: int | None = None
) -> Story:
    """Explains why one publication reached, or did not reach, one subscriber.

    Args:
        reader: A reader of the store.
        run_id: The id of the run.
        subscriber: The name of the subscriber.
        source: The name of the publisher.
        seq: The number of the publication among the publications of ``source``, from 1; None if ``call`` is set.
        call: The number of the publication among all calls of ``source`` (column ``source_seq``); None if ``seq`` is
            set.

    Raises:
        QueryError: The store has no such run, node or publication, or not exactly one of ``seq`` and ``call`` is set.
    """
    if (seq is None) == (call is None):
        raise QueryError("which publication? give its number (seq), or the number of its call (call)")
    for name, number in (("seq", seq), ("call", call)):
        if number is not None and not is_whole(number):
            raise QueryError(f"{name}={number!r} is no whole number; pass the number of a publication, such as 1")
    names = node_names(reader, run_id)
    asked = Question(run_id, node_id(names, run_id, subscriber), node_id(names, run_id, source), call or 0)
    return stories(reader, [asked if seq is None else _numbered(reader, asked, seq)])[0]


def _numbered(reader: StoreReader, question: Question, seq: int) -> Question:
    """Returns ``question`` with the call number of the publication that is number ``seq``, from 1, of its source."""
    rows = reader.sql(
        "select source_seq from publication"  # noqa: S608 - built of numbers
        f" where run_id = {question.run_id} and source = {question.source} order by source_seq"
    ).collect()
    if not 1 <= seq <= len(rows):
        facts = read_facts(reader, [question.run_id], [question.subscriber], [question.source], [0])[question.run_id]
        raise QueryError(_no_publication(facts, question, f"publication {seq}", len(rows)))
    return question._replace(call=rows[seq - 1].source_seq)


def stories(reader: StoreReader, questions: Sequence[Question]) -> list[Story]:
    """Returns a story for each of ``questions``. All stories are built from one read of the history.

    Raises:
        QueryError: A publication does not exist.
    """
    if not questions:
        return []
    runs, subscribers, sources, seqs = (set(column) for column in zip(*questions, strict=True))
    facts = read_facts(reader, runs, subscribers, sources, seqs)
    return [_story(facts[question.run_id], question, reader) for question in questions]


def _story(facts: RunFacts, question: Question, reader: StoreReader) -> Story:
    publication = facts.publications.get((question.source, question.call))
    if publication is not None:
        return issued_story(facts, question.subscriber, publication)
    cause = waiting(facts, (question.source, question.call), question.subscriber, 0)
    cause = cause or _preventing_crash(facts, question, reader)
    return unissued_story(facts, question.subscriber, question.source, question.call, cause)


def _preventing_crash(facts: RunFacts, question: Question, reader: StoreReader) -> Cause:
    """Returns the crash that prevented the publication of ``question``.

    The crash lies between the issued calls with the next lower and the next higher call number.

    Raises:
        QueryError: No crash of the publisher lies between these two calls.
    """
    name = facts.names[question.source]
    known = {seq: pub.round for (source, seq), pub in facts.publications.items() if source == question.source}
    rows = reader.sql(
        "select source_seq, min(sent_round) as round from sent_message"  # noqa: S608 - built of numbers
        f" where run_id = {question.run_id} and source = {question.source} and source_seq > 0 group by source_seq"
    ).collect()
    other_calls = {row.source_seq: row.round for row in rows}
    before = max((round_ for seq, round_ in {**known, **other_calls}.items() if seq < question.call), default=-1)
    after = min((round_ for seq, round_ in {**known, **other_calls}.items() if seq > question.call), default=None)
    if question.call > 0 and question.call not in other_calls and after is not None:
        for down in facts.downs.get(question.source, []):
            if down.round <= after and before < or_never(down.until):
                text = f"{name} issued no call {question.call} between rounds {max(before, 0)} and {after}"
                return from_crash(down, f"{text}: it was down ({crash_words(down)})")
    is_other = f" (call {question.call} is not a publication)"
    what = f"publication of call {question.call}{is_other if question.call in other_calls else ''}"
    raise QueryError(_no_publication(facts, question, what, len(known)))


def _no_publication(facts: RunFacts, question: Question, what: str, n_issued: int) -> str:
    name = facts.names[question.source]
    issued = f"it issued {plural(n_issued, 'publication')}"
    downs = ", ".join(crash_words(down) for down in facts.downs.get(question.source, []))
    missed = f"; its calls while it was down ({downs}) were never issued" if downs else ""
    return f"{what} of {name} does not exist in run {question.run_id}; {issued}{missed}"
