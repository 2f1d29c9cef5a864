"""Orders of deliveries, and all-or-none stability (sections 3.5, 3.8; rules P1, P6).

Table ``state_ordered_delivery`` has the order of the deliveries of a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORDED = """recorded as (
  select run_id, node_id, source, source_seq, min(position) as position
  from state_ordered_delivery
  group by run_id, node_id, source, source_seq
)"""
"""The positions of deliveries; a repeated delivery has that of the first."""

OF_PUBLISHERS = f"""
with {_RECORDED}, life as (
  select p.run_id, p.source, p.source_seq, coalesce(p.topic, '') as topic, count(n.node_id) as incarnation
  from publication p
  join parameter a on a.run_id = p.run_id and not a.protocol_baseline
  left join node_recovery n on n.run_id = p.run_id and n.node_id = p.source and n.recovery_round <= p.issued_round
  group by p.run_id, p.source, p.source_seq, coalesce(p.topic, '')
), followed as (
  select d.run_id, d.round, d.subscriber, d.source, d.source_seq, max(d.source_seq) over (
    partition by d.run_id, d.subscriber, d.source, l.topic, l.incarnation
    order by d.round, coalesce(e.position, 0), d.source_seq rows between unbounded preceding and 1 preceding) as newest
  from delivery d
  join life l on l.run_id = d.run_id and l.source = d.source and l.source_seq = d.source_seq
  left join recorded e on e.run_id = d.run_id and e.node_id = d.subscriber and e.source = d.source
    and e.source_seq = d.source_seq
)
select run_id, round, subscriber as node_id, source, source_seq,
  concat('delivered after publication ', newest, ' of the same life of its publisher') as detail
from followed
where newest > source_seq
"""  # noqa: S608 - built of constants
"""A subscriber delivers the messages of a publisher on a topic, published between two crashes, in their order."""

PLACED = """
select d.run_id, d.round, d.subscriber, d.source, d.source_seq, p.topic, p.designation, p.repository, s.seq,
  s.is_filled, n.name
from delivery d
join publication m on m.run_id = d.run_id and m.source = d.source and m.source_seq = d.source_seq
join parameter a on a.run_id = d.run_id and not a.protocol_baseline
left join designation_period p on p.run_id = d.run_id and p.subscriber = d.subscriber
  and p.topic = coalesce(m.topic, '') and d.round > p.designation and (p.end_round is null or d.round <= p.end_round)
left join stored_message s on s.run_id = d.run_id and s.node_id = p.repository and s.topic = p.topic
  and s.source = d.source and s.source_seq = d.source_seq
left join node n on n.run_id = d.run_id and n.node_id = p.repository
"""
"""Deliveries with the steering repository of that round, and their number there, or null."""

OF_REPOSITORIES = f"""
with {_RECORDED}, placed as (
  {PLACED}
), followed as (
  select p.*, max(p.seq) over (
    partition by p.run_id, p.subscriber, p.topic, p.designation order by p.round, coalesce(e.position, 0), p.seq
    rows between unbounded preceding and 1 preceding) as newest
  from placed p
  left join recorded e on e.run_id = p.run_id and e.node_id = p.subscriber and e.source = p.source
    and e.source_seq = p.source_seq
  where p.seq is not null
)
select run_id, round, subscriber as node_id, source, source_seq,
  concat('it has number ', seq, ' at ', name, ', and was delivered after ', newest) as detail
from followed
where newest > seq
"""  # noqa: S608 - built of constants
"""As long as a subscriber designates a repository, it delivers in the order of the numbers there."""

UNSTORED = f"""
with placed as (
  {PLACED}
)
select run_id, round, subscriber as node_id, source, source_seq, case
    when repository is null then 'delivered without a steering repository'
    when seq is null then concat('delivered, and not stored at its steering repository ', name)
    else concat('delivered, and behind the first reserved number of ', name) end as detail
from placed
where seq is null or not is_filled
"""  # noqa: S608 - built of constants

UNNOTIFIED = """
with listed as (
  select run_id, dst, due_round, explode(from_json(get_json_object(body, '$.listed'),
    'array<struct<source:bigint,source_seq:bigint>>')) as one
  from message
  where kind = 'R2S-Rectify' and fate = 'delivered'
), named as (
  select run_id, dst, due_round, source, source_seq
  from message
  where kind in ('R2S*-Persistent', 'R2S-Retransmit') and fate = 'delivered'
  union all
  select run_id, dst, due_round, one.source as source, one.source_seq as source_seq from listed
), first as (
  select run_id, dst as subscriber, source, source_seq, min(due_round) as round
  from named
  group by run_id, dst, source, source_seq
)
select d.run_id, d.round, d.subscriber as node_id, d.source, d.source_seq,
  concat('delivered in round ', d.round, '; told to be stored ',
    coalesce(concat('in round ', f.round), 'never')) as detail
from delivery d
join parameter a on a.run_id = d.run_id and not a.protocol_baseline
left join first f on f.run_id = d.run_id and f.subscriber = d.subscriber
  and f.source = d.source and f.source_seq = d.source_seq
where f.round is null or f.round > d.round
"""

DIVIDED = """
select o.run_id, coalesce(o.due_round, s.last_round) as round, o.subscriber as node_id, o.source, o.source_seq,
  concat('never delivered here, and delivered to ', count(t.subscriber), ' others, first in round ',
    min(t.delivery_round)) as detail
from owed_message o
join settled_run s on s.run_id = o.run_id and s.is_settled
join topic_owner r on r.run_id = o.run_id and r.topic = o.topic
join owed_message t on t.run_id = o.run_id and t.source = o.source and t.source_seq = o.source_seq
  and t.delivery_round is not null
where o.delivery_round is null and o.excuse is null
group by o.run_id, o.due_round, s.last_round, o.subscriber, o.source, o.source_seq
"""
"""Publications on topics with registrations that some registered subscribers have, and others lack."""


def all_or_none(evidence: Evidence) -> DataFrame:
    """Deliveries are announced by the steering repository, and go to all subscribers or none (section 3.8)."""
    found = evidence.sql(UNSTORED).unionByName(evidence.sql(UNNOTIFIED))
    return found.unionByName(evidence.sql(DIVIDED)).select(*FOUND)
