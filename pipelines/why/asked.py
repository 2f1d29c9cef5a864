"""Whether a subscriber asked for a publication at the time, and whether it is excused that it did not come."""

from __future__ import annotations

from pipelines.why.cause import Cause
from pipelines.why.facts import NEVER, Publication, RunFacts, Subscription

_SHOWN = 3
ISSUED_LATER, NOT_CONFIRMED = "issued_later", "not_confirmed"


def asking(facts: RunFacts, subscriber: int, publication: Publication) -> list[Subscription]:
    """Returns the subscriptions that stood when the publication was issued, and that it satisfies."""
    return [
        subscription
        for subscription in satisfied_by(facts, subscriber, publication)
        if _since(facts, subscription) <= publication.round < _or_never(subscription.unsubscribed_round)
    ]


def not_asked(facts: RunFacts, subscriber: int, publication: Publication) -> Cause | None:
    """Returns why nobody has to deliver it to the subscriber; None where a subscription stands that asks for it.

    The kinds are ``no_subscription``, ``no_match``, ``issued_later``, ``not_confirmed`` and ``unsubscribed``.
    """
    is_asked = (subscriber, publication.source, publication.seq) in facts.receivers
    standing = asking(facts, subscriber, publication)
    ended = [subscription for subscription in standing if subscription.unsubscribed_round is not None]
    if is_asked or (standing and not ended):
        return None
    name, issued = facts.names[subscriber], facts.subscriptions.get(subscriber, [])
    if ended:
        return _unsubscribed(name, subscriber, ended[0])
    if not issued:
        return Cause("no_subscription", subscriber, publication.round, f"{name} never subscribed to anything")
    satisfied = satisfied_by(facts, subscriber, publication)
    if not satisfied:
        asked = "; ".join(str(subscription.predicate) for subscription in issued[:_SHOWN])
        more = f" and {len(issued) - _SHOWN} more" if len(issued) > _SHOWN else ""
        return Cause(
            "no_match", subscriber, publication.round, f"it satisfies no subscription of {name} ({asked}{more})"
        )
    return _not_standing(facts, name, subscriber, publication, satisfied[0])


def excuse(facts: RunFacts, subscriber: int, publication: Publication) -> str | None:
    """Returns in words why even a protocol that bears the faults may lose it (view ``receiver``); None: it may not."""
    code = facts.receivers.get((subscriber, publication.source, publication.seq))
    if code is None:
        return None
    node = publication.source if code == "publisher_crashed" else subscriber
    downs = facts.downs.get(node, [])
    if code == "publisher_crashed":
        felt = [down for down in downs if down.round > publication.round]
    else:
        felt = [down for down in downs if _or_never(down.restored) > publication.round]
    why = f" (crash in round {felt[0].round})" if felt else ""
    name = facts.names[node]
    return (
        f"{name} crashed before the publication was confirmed" + why
        if node == publication.source
        else f"{name} was not up all the time" + why
    )


def satisfied_by(facts: RunFacts, subscriber: int, publication: Publication) -> list[Subscription]:
    """Returns the subscriptions of a subscriber that a publication satisfies, in the order of their calls."""
    satisfied = facts.matching.get((publication.source, publication.seq), set())
    found = [s for s in facts.subscriptions.get(subscriber, []) if s.subscription_id in satisfied]
    return sorted(found, key=lambda subscription: (subscription.issued_round, subscription.subscription_id))


def _not_standing(
    facts: RunFacts, name: str, subscriber: int, publication: Publication, subscription: Subscription
) -> Cause:
    if subscription.unsubscribed_round is not None and subscription.unsubscribed_round <= publication.round:
        return _unsubscribed(name, subscriber, subscription)
    if subscription.issued_round > publication.round:
        text = f"{name} subscribed in round {subscription.issued_round} only"
        return Cause(ISSUED_LATER, subscriber, subscription.issued_round, text)
    at = "never" if subscription.confirmed_round is None else f"in round {subscription.confirmed_round} only"
    text = f"the subscription of {name} of round {subscription.issued_round} was confirmed {at}"
    return Cause(NOT_CONFIRMED, subscriber, subscription.issued_round, text)


def _unsubscribed(name: str, subscriber: int, subscription: Subscription) -> Cause:
    round_ = _or_never(subscription.unsubscribed_round)
    return Cause("unsubscribed", subscriber, round_, f"{name} ended its subscription in round {round_}")


def _since(facts: RunFacts, subscription: Subscription) -> int:
    return _or_never(subscription.confirmed_round) if facts.confirms else subscription.issued_round


def _or_never(round_: int | None) -> int:
    return NEVER if round_ is None else round_
