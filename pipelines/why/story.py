"""The story of one publication for one subscriber: how it ended, why, and what happened on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.plan import counted
from pipelines.why.asked import asking, excuse, not_asked
from pipelines.why.cause import CRASH, IN_FLIGHT, Case, Cause, crash_words, delay, ending
from pipelines.why.facts import Down, Publication, RunFacts
from pipelines.why.render import as_text
from pipelines.why.steps import Step, steps
from pipelines.why.trail import LOST, Trail, make_trail

Ended = Literal["delivered", "lost", "not_matching", "not_issued", "unknown"]


@dataclass(frozen=True)
class Story:
    """How a publication ended for a subscriber; ``print`` shows it as a tree.

    Attributes:
        run: The run.
        subscriber: Name of the subscriber.
        source: Name of the publisher.
        seq: Number of the publication.
        ended: ``delivered``; ``lost``; ``not_matching``: no subscription of the subscriber stood that asks for it;
            ``not_issued``: the publisher could not publish it; ``unknown``: it was under way when the history ended.
        node: Name of the last node on the path that had it; None where nobody had.
        round: Round of the delivery, or in which that node had it; None where nobody had it.
        late_rounds: Deliveries: by how many rounds later than the links allow.
        is_expected: Whether the subscriber has to get it, as view ``expected_delivery`` says.
        excused: Losses: ``subscriber_down`` or ``publisher_crashed``, why it does not have to get it; None: neither.
        cause: What ended it; deliveries: what kept it, None where nothing did.
        also: Losses: other crashes on the way because of which nobody sent it again: ``node, round, until``.
        path: Names of the nodes on the fastest way.
        steps: What happened, a tree.
        verdict: All that in a sentence.
        names: Node names by id.
    """

    run: int
    subscriber: str
    source: str
    seq: int
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

    def as_dict(self) -> dict[str, Any]:
        """Gives it for JSON.

        Returns:
            The attributes by name, without ``names``. ``cause`` has ``kind, node, round, text`` (see `Cause`), and
            with a crash ``until``. A step has ``event, round, text``, what belongs to the event (see `steps.Step`), and
            ``steps``, those that followed from it.
        """
        kept = ("run", "subscriber", "source", "seq", "ended", "node", "round", "late_rounds", "is_expected", "excused")
        return {name: getattr(self, name) for name in kept} | {
            "cause": self.cause.as_dict(self.names) if self.cause else None,
            "also": list(self.also),
            "path": list(self.path),
            "verdict": self.verdict,
            "steps": self.steps.as_dict() if self.steps else None,
        }

    def __str__(self) -> str:
        """Gives it as text, as ``roundtable why`` prints it where the output is no terminal."""
        return as_text(self)


@dataclass(frozen=True)
class _End:
    ended: Ended
    node: int | None
    round: int | None
    verdict: str
    cause: Cause | None = None
    late: int | None = None
    excused: str | None = None
    also: Sequence[Down] = ()


def issued_story(facts: RunFacts, subscriber: int, publication: Publication) -> Story:
    """Tells the story of a publication that was issued."""
    served = facts.messages.get((publication.source, publication.seq), [])
    facts = facts.at(publication.round)
    path = facts.path(publication.source, subscriber)
    deliveries = sorted(facts.deliveries.get((subscriber, publication.source, publication.seq), []))
    trail = make_trail(facts, served, path, publication.round, deliveries[0][0] if deliveries else None)
    end = _delivered(trail, deliveries) if deliveries else _missing(trail, subscriber, publication)
    causes = [(end.cause.node, end.cause.round)] if end.cause is not None and end.cause.kind == CRASH else []
    tree = steps(trail, publication, deliveries, {*causes, *((down.node, down.round) for down in end.also)})
    return _story(facts, subscriber, publication.source, publication.seq, path, end, tree)


def unissued_story(facts: RunFacts, subscriber: int, source: int, seq: int, cause: Cause) -> Story:
    """Tells the story of a publication that its publisher could not issue."""
    end = _End("not_issued", None, None, f"not issued: {cause.text}", cause)
    return _story(facts, subscriber, source, seq, facts.path(source, subscriber), end, None)


def _story(
    facts: RunFacts, subscriber: int, source: int, seq: int, path: list[int], end: _End, tree: Step | None
) -> Story:
    names = facts.names
    return Story(
        run=facts.run_id,
        subscriber=names[subscriber],
        source=names[source],
        seq=seq,
        ended=end.ended,
        node=None if end.node is None else names[end.node],
        round=end.round,
        late_rounds=end.late,
        is_expected=facts.receivers.get((subscriber, source, seq), "not asked for") is None,
        excused=end.excused,
        cause=end.cause,
        also=tuple({"node": names[down.node], "round": down.round, "until": down.until} for down in end.also),
        path=tuple(names[node] for node in path),
        steps=tree,
        verdict=end.verdict,
        names=names,
    )


def _delivered(trail: Trail, deliveries: list[tuple[int, int]]) -> _End:
    facts, subscriber = trail.facts, trail.path[-1]
    (round_, hops), again = deliveries[0], deliveries[1:]
    late = round_ - trail.start - facts.latency(trail.path)
    cause = delay(trail, round_) if late > 0 else None
    text = f"delivered: to {facts.names[subscriber]} in round {round_}, over {counted(hops, 'hop')}"
    if late > 0:
        text += f", {counted(late, 'round')} later than the links allow"
    if cause is not None:
        text += f": {cause.text}"
    if again:
        text += f"; and again in round {', '.join(str(other) for other, _ in again)}"
    return _End("delivered", subscriber, round_, text, cause, late)


def _missing(trail: Trail, subscriber: int, publication: Publication) -> _End:
    facts = trail.facts
    cause = not_asked(facts, subscriber, publication)
    node = trail.reached()
    taken = trail.arrivals.get(node)
    round_ = taken[-1].due if taken else trail.start
    if facts.is_finished and cause is not None:
        return _End("not_matching", node, round_, f"not asked for: {cause.text}", cause)
    cause = _under_way(trail)
    if cause is not None:
        return _End("unknown", node, round_, f"not known: {cause.text}", cause)
    named = (publication.source, publication.seq)
    end = ending(Case(facts, trail, asking(facts, subscriber, publication), subscriber, named))
    key = (subscriber, *named)
    text = f"lost: {end.cause.text}"
    if end.also:
        others = (f"{facts.names[down.node]} ({crash_words(down)})" for down in end.also)
        text += f"; also down: {', '.join(others)}"
    if key not in facts.receivers:
        text += "; it was not promised"
    if facts.receivers.get(key) is not None:
        text += f"; excused: {excuse(facts, subscriber, publication)}"
    return _End("lost", end.node, end.round, text, end.cause, excused=facts.receivers.get(key), also=end.also)


def _under_way(trail: Trail) -> Cause | None:
    """Tells whether it may still come: copies, reports and connections that were under way when the history ended."""
    facts = trail.facts
    if not facts.is_finished:
        text = "the runs are not finished; more rounds are to come"
        return Cause(IN_FLIGHT, trail.reached(), trail.start, text)
    for copy in trail.copies:
        if copy.fate == "in_flight":
            text = f"the copy of round {copy.sent} to {facts.names[copy.dst]} was still under way when the run ended"
            return Cause(IN_FLIGHT, copy.dst, copy.due, f"{text}, due in round {copy.due}")
    lost = {(copy.src, copy.dst) for copy in trail.copies if copy.fate in LOST}
    for message in facts.others:
        is_report = message.src == message.dst and (message.src, message.body.get("peer")) in lost
        is_talk = message.src != message.dst and {message.src, message.dst} <= set(trail.path)
        if message.fate == "in_flight" and (is_report or is_talk):
            text = f"{facts.names[message.src]} was finding its way around a failure when the run ended"
            return Cause(IN_FLIGHT, message.src, message.due, text)
    return None
