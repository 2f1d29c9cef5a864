"""Answers questions about the delivery of one publication to one subscriber: composes the outcome and the cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from pipelines.errors import QueryError, plural
from pipelines.sql.differences import node_id, node_names
from pipelines.sql.query import StoreReader
from pipelines.why.cause import (
    CRASH,
    DETOUR,
    IN_FLIGHT,
    LINK,
    UNDER_WAY,
    WAITED,
    Cause,
    MissingDelivery,
    crashed,
    from_crash,
    lost_because,
    lost_copy,
    received_words,
    waiting,
)
from pipelines.why.facts import (
    LOST,
    Downtime,
    MessageFact,
    PublicationFact,
    RunFacts,
    SubscriptionFact,
    Trail,
    make_trail,
    or_never,
    rounds_of,
)
from pipelines.why.reading import read_facts
from pipelines.why.story import Ended, Story, StoryBuilder, StoryStep

_SHOWN = 3
_SLOWING = ("delay", "reorder", "duplicate")
ISSUED_LATER, NOT_CONFIRMED, UNSUBSCRIBED = "issued_later", "not_confirmed", "unsubscribed"
_TOO_LATE = (ISSUED_LATER, NOT_CONFIRMED, UNDER_WAY)


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

    The publication is number ``seq`` among the publications of ``source``, from 1, or number ``call`` among all its
    calls.

    Raises:
        QueryError: The store has no such run, node or publication, or not exactly one of ``seq`` and ``call`` is set.
    """
    if (seq is None) == (call is None):
        raise QueryError("give either the number of the publication (seq) or the number of its call (call)")
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
    """Returns a story for each question from one read of the history; raises `QueryError` for an unknown one."""
    if not questions:
        return []
    runs, subscribers, sources, seqs = (set(column) for column in zip(*questions, strict=True))
    facts = read_facts(reader, runs, subscribers, sources, seqs)
    return [_answer(facts[question.run_id], question, reader) for question in questions]


def _answer(facts: RunFacts, question: Question, reader: StoreReader) -> Story:
    publication = facts.publications.get((question.source, question.call))
    if publication is not None:
        return issued_story(facts, question.subscriber, publication)
    key, path = (question.source, question.call), facts.path(question.source, question.subscriber)
    cause = waiting(facts, key, question.subscriber, 0) or _preventing_crash(facts, question, reader)
    return _story(facts, path, key, "not_issued", f"not issued: {cause.text}", cause)


def _preventing_crash(facts: RunFacts, question: Question, reader: StoreReader) -> Cause:
    """Returns the crash between the issued calls with the next lower and the next higher number than ``question.call``.

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
                return from_crash(down, f"{text}: it was down ({rounds_of(down.round, down.until)})")
    is_other = f" (call {question.call} is not a publication)"
    what = f"publication of call {question.call}{is_other if question.call in other_calls else ''}"
    raise QueryError(_no_publication(facts, question, what, len(known)))


def _no_publication(facts: RunFacts, question: Question, what: str, n_issued: int) -> str:
    name = facts.names[question.source]
    issued = f"it issued {plural(n_issued, 'publication')}"
    downs = ", ".join(rounds_of(down.round, down.until) for down in facts.downs.get(question.source, []))
    missed = f"; its calls while it was down ({downs}) were never issued" if downs else ""
    return f"{what} of {name} does not exist in run {question.run_id}; {issued}{missed}"


def established_subscriptions(facts: RunFacts, subscriber: int, publication: PublicationFact) -> list[SubscriptionFact]:
    """Returns the subscriptions that match ``publication`` and were established when it was issued.

    A subscription is established from its confirmation, or, if the protocol does not confirm calls, from its issue, to
    the unsubscription.
    """
    return [
        subscription
        for subscription in satisfied_by(facts, subscriber, publication)
        if (or_never(subscription.confirmed_round) if facts.confirms else subscription.issued_round)
        <= publication.round
        < or_never(subscription.unsubscribed_round)
    ]


def exemption(facts: RunFacts, subscriber: int, publication: PublicationFact) -> Cause | None:
    """Returns the reason why view ``receiver`` does not list the publication for the subscriber.

    Returns None if the view lists the publication, or if established subscriptions match it and none of them ends
    early. The kind is ``no_subscription``, ``no_match``, ``issued_later``, ``not_confirmed`` or ``unsubscribed``.
    """
    is_asked = (subscriber, *publication.key) in facts.receivers
    standing = established_subscriptions(facts, subscriber, publication)
    ended = [subscription for subscription in standing if _ends_early(facts, subscription, publication)]
    if is_asked or (standing and not ended):
        return None
    name, issued = facts.names[subscriber], facts.subscriptions.get(subscriber, [])
    if ended:
        return _unsubscribed(name, subscriber, ended[0])
    if not issued:
        return Cause("no_subscription", subscriber, publication.round, f"{name} never subscribed")
    satisfied = satisfied_by(facts, subscriber, publication)
    if not satisfied:
        asked = "; ".join(str(subscription.predicate) for subscription in issued[:_SHOWN])
        more = f" and {len(issued) - _SHOWN} more" if len(issued) > _SHOWN else ""
        return Cause("no_match", subscriber, publication.round, f"it matches no subscription of {name} ({asked}{more})")
    return _not_established(name, subscriber, publication, satisfied[0])


def excuse(facts: RunFacts, subscriber: int, publication: PublicationFact) -> str | None:
    """Returns the excuse for a missing delivery in view ``receiver`` as a phrase; None if the view has no excuse."""
    code = facts.receivers.get((subscriber, *publication.key))
    if code is None:
        return None
    if code == "publisher_crashed":
        node, words = publication.source, "crashed before the publication was confirmed"
        felt = [down for down in facts.downs.get(node, []) if down.round > publication.round]
    else:
        node, words = subscriber, "was down or recovering"
        felt = [down for down in facts.downs.get(node, []) if or_never(down.end) > publication.round]
    return f"{facts.names[node]} {words}" + (f" (crash in round {felt[0].round})" if felt else "")


def satisfied_by(facts: RunFacts, subscriber: int, publication: PublicationFact) -> list[SubscriptionFact]:
    """Returns the subscriptions of ``subscriber`` that ``publication`` satisfies, in the order of their calls."""
    satisfied = facts.matching.get(publication.key, set())
    found = [s for s in facts.subscriptions.get(subscriber, []) if s.subscription_id in satisfied]
    return sorted(found, key=lambda subscription: (subscription.issued_round, subscription.subscription_id))


def _not_established(name: str, subscriber: int, publication: PublicationFact, subscription: SubscriptionFact) -> Cause:
    if subscription.unsubscribed_round is not None and subscription.unsubscribed_round <= publication.round:
        return _unsubscribed(name, subscriber, subscription)
    if subscription.issued_round > publication.round:
        text = f"{name} subscribed only in round {subscription.issued_round}"
        return Cause(ISSUED_LATER, subscriber, subscription.issued_round, text)
    confirmed_round = subscription.confirmed_round
    confirmed = "never confirmed" if confirmed_round is None else f"confirmed only in round {confirmed_round}"
    text = f"the subscription that {name} issued in round {subscription.issued_round} was {confirmed}"
    return Cause(NOT_CONFIRMED, subscriber, subscription.issued_round, text)


def _ends_early(facts: RunFacts, subscription: SubscriptionFact, publication: PublicationFact) -> bool:
    """Returns whether ``subscription`` ends before the delivery of ``publication`` is due (see view ``receiver``)."""
    end = subscription.unsubscribed_round
    if end is None:
        return False
    if facts.confirms:
        return True
    copies = facts.messages.get(publication.key, [])
    due = max([publication.round + facts.slowest_rounds, *(copy.due for copy in copies)])
    return end <= due


def _unsubscribed(name: str, subscriber: int, subscription: SubscriptionFact) -> Cause:
    round_ = or_never(subscription.unsubscribed_round)
    return Cause(UNSUBSCRIBED, subscriber, round_, f"{name} unsubscribed in round {round_}")


def issued_story(facts: RunFacts, subscriber: int, publication: PublicationFact) -> Story:
    """Returns the story of the delivery of an issued publication to ``subscriber``."""
    served = facts.messages.get(publication.key, [])
    facts = facts.at(publication.round)
    path = facts.path(publication.source, subscriber)
    deliveries = sorted(facts.deliveries.get((subscriber, *publication.key), []))
    trail = make_trail(facts, served, path, publication.round, deliveries[0][0] if deliveries else None)
    story = _delivered(trail, publication, deliveries) if deliveries else _missing(trail, subscriber, publication)
    ids = {name: node for node, name in facts.names.items()}
    named = {(ids[down["node"]], down["round"]) for down in story.also}
    if story.cause is not None and story.cause.kind == CRASH:
        named.add((story.cause.node, story.cause.round))
    tree = StoryBuilder(trail, deliveries, named).tell(publication)
    return replace(story, steps=tree, subscription=_late_subscription(facts, subscriber, publication, story.cause))


def _late_subscription(
    facts: RunFacts, subscriber: int, publication: PublicationFact, cause: Cause | None
) -> StoryStep | None:
    """Returns the steps that propagate the subscription if it reached the publisher too late; else None."""
    satisfied = satisfied_by(facts, subscriber, publication)
    if cause is None or cause.kind not in _TOO_LATE or not satisfied:
        return None
    subscription, name = satisfied[0], facts.names[subscriber]
    issued = subscription.issued_round
    served = facts.spread.get((subscriber, subscription.subscription_id), [])
    trail = make_trail(facts, served, facts.path(subscriber, publication.source), issued)
    told = StoryBuilder(trail, (), ()).tell(PublicationFact(subscriber, 0, issued, None, None, None))
    text = f"{name} subscribes to {subscription.predicate} in round {issued}"
    data = {"node": name, "confirmed_round": subscription.confirmed_round}
    return StoryStep("subscription", issued, text, data, told.steps)


def _story(
    facts: RunFacts, path: Sequence[int], publication: tuple[int, int], ended: Ended, verdict: str,
    cause: Cause | None, node: int | None = None, round_: int | None = None, *, late: int | None = None,
    excused: str | None = None, also: Sequence[Downtime] = (),
) -> Story:  # fmt: skip
    """Returns a story without steps; ``path`` leads from the publisher to the subscriber."""
    names, subscriber, (source, seq) = facts.names, path[-1], publication
    return Story(
        run_id=facts.run_id, subscriber=names[subscriber], source=names[source], seq=_number(facts, source, seq),
        call=seq, ended=ended, node=None if node is None else names[node], round=round_, late_rounds=late,
        is_expected=facts.receivers.get((subscriber, source, seq), "not asked for") is None, excused=excused,
        cause=cause, also=tuple({"node": names[down.node], "round": down.round, "until": down.until} for down in also),
        path=tuple(names[node] for node in path), verdict=verdict, steps=None, subscription=None, names=names,
    )  # fmt: skip


def _number(facts: RunFacts, source: int, call: int) -> int | None:
    issued = sorted(seq for publisher, seq in facts.publications if publisher == source)
    return issued.index(call) + 1 if call in issued else None


def _delivered(trail: Trail, publication: PublicationFact, deliveries: list[tuple[int, int]]) -> Story:
    facts, subscriber, named = trail.facts, trail.path[-1], publication.key
    (round_, hops), again = deliveries[0], deliveries[1:]
    late = round_ - trail.start - facts.latency(trail.path) if facts.links else None
    cause = None
    text = f"delivered: to {facts.names[subscriber]} in round {round_}, over {plural(hops, 'hop')}"
    if late is not None and late > 0:
        cause = _delay(trail, named, round_)
        text += f", {plural(late, 'round')} later than on the fastest path: {cause.text}"
    if again:
        text += f"; delivered again in round {', '.join(str(other) for other, _ in again)}"
    return _story(facts, trail.path, named, "delivered", text, cause, subscriber, round_, late=late)


def _waited(trail: Trail, publication: tuple[int, int], round_: int) -> Cause | None:
    """Returns the longest wait of ``publication`` as a cause, or None; a wait that a crash extended takes precedence.

    Waits that ended after ``round_``, and waits at other subscribers outside the path, do not delay this delivery.
    """
    facts = trail.facts
    ended = [
        wait for wait in facts.waited.get(publication, ())
        if wait.since < wait.until <= round_
        and (wait.node in trail.path or not facts.deliveries.get((wait.node, *publication)))
    ]  # fmt: skip
    if not ended:
        return None
    wait = max(ended, key=lambda one: (one.until - one.since, one.crash is not None, -one.node, one.reason))
    text = f"it waited at {facts.names[wait.node]} from round {wait.since} to {wait.until}: {wait.reason}"
    down = None if wait.crash is None else facts.down(*wait.crash)
    if down is None:
        return Cause(WAITED, wait.node, wait.since, text)
    return from_crash(down, f"{text}, longer because {crashed(facts, down)}")


def _delay(trail: Trail, publication: tuple[int, int], round_: int) -> Cause:
    """Returns the cause of a late delivery in round ``round_``.

    The chain is the sequence of copies that brought the publication to the subscriber. The result is the first of these
    causes that exists:

    1. the longest wait that the protocol reports;
    2. the reason why a node of the chain sent its copy later than it received the publication: an earlier copy of this
       node was lost, or else a node between sender and receiver was down or recovering during the wait. If several
       copies were sent late for this reason, the first copy counts;
    3. the first loss of any copy up to ``round_``;
    4. the longest of the delays of the chain's copies by link faults, and of the waits at the chain's nodes;
    5. the longest delay by a link fault of any copy on the fastest path;
    6. a detour.
    """
    facts = trail.facts
    if cause := _waited(trail, publication, round_):
        return cause
    chain = trail.chain(round_)
    arrivals = [(trail.path[0], trail.start), *((copy.dst, copy.due) for copy in chain)]
    for copy, (node, had) in zip(chain, arrivals, strict=False):
        if copy.src != node or copy.sent <= had:
            continue
        if lost := [one for one in trail.copies if one.src == copy.src and one.sent < copy.sent and one.fate in LOST]:
            return lost_copy(facts, lost[0])
        between = facts.path(copy.src, copy.dst)[1:]
        felt = [down for node in between if (down := facts.down(node, copy.sent)) and down.overlaps(had, copy.sent)]
        if felt:
            text = f"{facts.names[copy.src]} {received_words(trail, copy.src, had)} it in round {had}"
            text += f" and sent it only in round {copy.sent}"
            return from_crash(felt[0], f"{text}: {crashed(facts, felt[0], had)}")
    lost = [copy for copy in trail.copies if copy.fate in LOST and copy.due <= round_]
    if lost:
        return lost_copy(facts, lost[0])
    departures = [*((copy.src, copy.sent) for copy in chain), (trail.path[-1], round_)]
    stays = [
        (until - had, Cause(WAITED, at, had, f"it waited at {facts.names[at]} from round {had} to {until}"))
        for (at, had), (node, until) in zip(arrivals, departures, strict=True) if at == node and until > had
    ]  # fmt: skip
    links = {*pairwise(trail.path)}
    others = [copy for copy in trail.copies if (copy.src, copy.dst) in links and copy.sent < round_]
    slowest = max(
        [*_slow_copies(facts, chain), *stays] or _slow_copies(facts, others),
        default=(0, Cause(DETOUR, trail.path[-1], round_, "it did not take the fastest path")),
        key=lambda pair: pair[0],
    )
    return slowest[1]


def _slow_copies(facts: RunFacts, copies: Sequence[MessageFact]) -> list[tuple[int, Cause]]:
    """Returns a pair (delay in rounds, cause) for each of ``copies`` that a link fault delayed.

    A fault that ended before the copy was sent can also delay it, because a copy does not overtake earlier messages of
    its link. Faults that are active when the copy is sent take precedence, then the fault that began last.
    """
    found = []
    for copy in copies:
        longer = copy.due - copy.sent - facts.latency(facts.path(copy.src, copy.dst))
        slow = [fault for fault in facts.link_faults if fault.kind in _SLOWING and fault.round <= copy.sent]
        slow = [fault for fault in slow if fault.is_on(copy.src, copy.dst)]
        if longer > 0 and slow and copy.src != copy.dst:
            fault = max(slow, key=lambda one: (one.is_at(copy.sent), one.round))
            text = f"the copy sent to {facts.names[copy.dst]} in round {copy.sent} took"
            text += f" {plural(longer, 'round')} longer on the link from {facts.names[copy.src]} ({fault})"
            found.append((longer, Cause(LINK, copy.dst, copy.due, text, fault=fault)))
    return found


def _missing(trail: Trail, subscriber: int, publication: PublicationFact) -> Story:
    facts, named = trail.facts, publication.key
    node = trail.reached()
    taken = trail.arrivals.get(node)
    round_ = taken[-1].due if taken else trail.start
    exempt = exemption(facts, subscriber, publication) if facts.is_finished else None
    is_lost = exempt is not None and _is_lost_before_end(trail, named, exempt)
    if exempt is not None and not is_lost:
        return _story(facts, trail.path, named, "not_matching", f"not expected: {exempt.text}", exempt, node, round_)
    pending = None if is_lost else _under_way(trail, named)
    if pending is not None:
        return _story(facts, trail.path, named, "unknown", f"unknown: {pending.text}", pending, node, round_)
    standing = established_subscriptions(facts, subscriber, publication) or satisfied_by(facts, subscriber, publication)
    cause, also = lost_because(MissingDelivery(trail, named, node, round_, standing))
    key = (subscriber, *named)
    excused = facts.receivers.get(key)
    text = f"lost: {cause.text}"
    if also:
        text += f"; also, {', '.join(crashed(facts, down, round_) for down in also)}"
    if key not in facts.receivers:
        text += "; the delivery was not guaranteed"
    if excused is not None:
        text += f"; excused: {excuse(facts, subscriber, publication)}"
    return _story(facts, trail.path, named, "lost", text, cause, node, round_, excused=excused, also=also)


def _is_lost_before_end(trail: Trail, publication: tuple[int, int], exempt: Cause) -> bool:
    """Returns whether ``exempt`` is an unsubscription before which a copy to a node after the last one was lost.

    The function returns False if a node holds the publication back.
    """
    if exempt.kind != UNSUBSCRIBED or trail.facts.waits.get(publication):
        return False
    beyond = trail.copies_beyond(trail.reached())
    return any(copy.fate in LOST and copy.due < exempt.round for copy in beyond)


def _under_way(trail: Trail, publication: tuple[int, int]) -> Cause | None:
    """Returns a cause if ``publication`` may still reach the subscriber, the last node of the path, else None.

    The kind is ``in_flight`` if the runs are not finished, or a copy is in flight. A failure report about the receiver
    of a lost copy, or another message between nodes of the path, may be in flight, too: the kind is then ``waiting`` if
    a node holds the publication back, else ``in_flight``.
    """
    facts = trail.facts
    if not facts.is_finished:
        return Cause(IN_FLIGHT, trail.reached(), trail.start, "the runs are not finished")
    for copy in trail.copies:
        if copy.fate == "in_flight":
            text = f"the copy sent to {facts.names[copy.dst]} in round {copy.sent} was in flight at the end of the run"
            return Cause(IN_FLIGHT, copy.dst, copy.due, f"{text}, due in round {copy.due}")
    lost = {(copy.src, copy.dst) for copy in trail.copies if copy.fate in LOST}
    for message in facts.others:
        is_report = message.src == message.dst and (message.src, message.body.get("peer")) in lost
        is_talk = message.src != message.dst and {message.src, message.dst} <= set(trail.path)
        is_talk = is_talk and message.kind not in facts.maintenance
        if message.fate == "in_flight" and (is_report or is_talk):
            text = f"{facts.names[message.src]} was still handling a failure at the end of the run"
            told = waiting(facts, publication, trail.path[-1], trail.start)
            return told or Cause(IN_FLIGHT, message.src, message.due, text)
    return None
