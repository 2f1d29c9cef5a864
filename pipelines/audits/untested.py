"""Finds untested runs. In these runs no delivery was expected, so guarantees about deliveries hold trivially."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pipelines.contract.audit import Reader
from pipelines.contract.protocol import Protocol
from pipelines.errors import plural

_NO_DELIVERY = """
with published as (
  select run_id, count(1) as n from publication group by run_id
), subscribed as (
  select run_id, count(1) as n from subscription group by run_id
)
select r.run_id, coalesce(p.n, 0) as n_publications, coalesce(s.n, 0) as n_subscriptions
from run r
left join published p on p.run_id = r.run_id
left join subscribed s on s.run_id = r.run_id
left anti join delivery d on d.run_id = r.run_id
order by r.run_id
"""
"""The query for the runs without a delivery. If it returns no row, the queries below are not executed."""
_MATCHED = "select run_id, count(1) as n from matching group by run_id"
_BUSY = "select distinct run_id from sent_message where src <> dst"
_ASKED = "select distinct run_id from receiver"


class Untested(NamedTuple):
    """A run in which no delivery happened and none was expected, with the reason."""

    run_id: int
    reason: str


def untested_runs(reader: Reader, protocol: Protocol, beyond: Collection[int]) -> tuple[Untested, ...]:
    """Returns the untested runs, ordered by id.

    A run with messages but without publications counts as tested if the protocol has its own audits, because these
    audits check the messages. ``beyond`` contains the ids of the runs that exceed the protocol's fault bound. If a
    publication of one of these runs matches a subscription, the run counts as tested, because faults may have prevented
    the expected delivery.
    """
    silent = reader.sql(_NO_DELIVERY).collect()
    if not silent:
        return ()
    busy = {row.run_id for row in reader.sql(_BUSY).collect()} if protocol.audits else set()
    asked = {row.run_id for row in reader.sql(_ASKED).collect()}
    matches = {row.run_id: row.n for row in reader.sql(_MATCHED).collect()}
    return tuple(
        Untested(row.run_id, _reason(row.n_publications, row.n_subscriptions, matches.get(row.run_id, 0)))
        for row in silent
        if row.run_id not in asked
        and (row.n_publications or row.run_id not in busy)
        and not (row.run_id in beyond and matches.get(row.run_id))
    )


def _reason(n_publications: int, n_subscriptions: int, n_matches: int) -> str:
    if not n_publications:
        return "nothing was published"
    if not n_subscriptions:
        return f"nobody subscribed to any of {plural(n_publications, 'publication')}"
    if not n_matches:
        subscriptions = plural(n_subscriptions, "subscription")
        return f"none of {plural(n_publications, 'publication')} satisfies any of {subscriptions}"
    return (
        "every publication that satisfies a subscription was issued before the start of the subscription, or after its "
        "end"
    )
