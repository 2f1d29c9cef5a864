"""Everybody gets what is stored, from the cut of a subscription on (sections 3.7, 3.8; rules P10 and P23)."""

from __future__ import annotations

MISSING = """
select o.run_id, coalesce(o.due_round, s.last_round) as round, o.subscriber as node_id, o.source, o.source_seq,
  case when o.n_holders > 0 then concat('stored at ', o.n_holders, ' repositories, and never delivered')
    else 'not stored, though its publisher did not crash' end as detail
from owed_message o
join settled_run s on s.run_id = o.run_id
where o.delivery_round is null and o.excuse is null and s.is_settled
"""
"""A subscriber that is up in the end has every message that it asks for, unless nobody can have it (rule P23).

Deliveries that are missing, with the round by which they had to happen; the last round where none is known.
"""

UNCONFIRMED = """
with about as (
  select run_id, subscription_id, max(case when attribute = 'topic' and op = '=' then text end) as topic
  from predicate
  group by run_id, subscription_id
), standing as (
  select distinct run_id, topic, node_id from authorisation where role = 'subscriber' and end_round is null
), gone as (
  select distinct run_id, node_id from node_recovery where recovery_round is null
)
select u.run_id, u.issued_round as round, u.subscriber as node_id, cast(null as bigint) as source,
  cast(null as bigint) as source_seq, concat('subscription ', u.subscription_id, ' is never confirmed') as detail
from subscription u
join settled_run s on s.run_id = u.run_id and s.is_settled
left join about b on b.run_id = u.run_id and b.subscription_id = u.subscription_id
join topic_service v on v.run_id = u.run_id and v.topic = coalesce(b.topic, '') and v.n_serving > 0
left join topic_owner o on o.run_id = u.run_id and o.topic = v.topic
left join standing a on a.run_id = u.run_id and a.topic = v.topic and a.node_id = u.subscriber
left join gone g on g.run_id = u.run_id and g.node_id = u.subscriber
where u.confirmed_round is null and u.unsubscribed_round is null and g.node_id is null
  and (o.topic is null or a.node_id is not null)
"""
"""A subscription of a client that is up and registered in the end is confirmed (sections 3.3, 3.11).

Subscriptions that wait for ever, of clients that are up and registered in the end.
"""

UNDECIDED = """
select o.run_id, min(o.issued_round) as round,
  concat(count(1), ' deliveries are missing, and the run went on for ', min(s.last_round - s.disturbed_round),
    ' of ', min(s.needed_rounds), ' rounds since the last thing from outside') as reason
from owed_message o
join settled_run s on s.run_id = o.run_id
where o.delivery_round is null and o.excuse is null and not s.is_settled
group by o.run_id
"""
"""The runs that ended before all that is stored could be delivered."""

EARLY = """
with taken as (
  select d.run_id, d.round, d.subscriber, d.source, d.source_seq, u.subscription_id, u.unsubscribed_round
  from delivery d
  join matching m on m.run_id = d.run_id and m.source = d.source and m.source_seq = d.source_seq
  join subscription u on u.run_id = m.run_id and u.subscription_id = m.subscription_id and u.subscriber = d.subscriber
), begun as (
  select run_id, node_id, subscription_id, explode(cut) as one from state_subscribed where cut is not null
), placed as (
  select distinct run_id, source, source_seq, incarnation, n from stored_message
)
select t.run_id, t.round, t.subscriber as node_id, t.source, t.source_seq,
  concat('number ', p.n, ' of its publisher, and no subscription that asks for it starts before number ',
    min(b.one.n) + 1) as detail
from taken t
join placed p on p.run_id = t.run_id and p.source = t.source and p.source_seq = t.source_seq
left join begun b on b.run_id = t.run_id and b.node_id = t.subscriber and b.subscription_id = t.subscription_id
  and b.one.publisher = t.source and b.one.incarnation = p.incarnation
group by t.run_id, t.round, t.subscriber, t.source, t.source_seq, p.n
having count(t.unsubscribed_round) = 0 and min(coalesce(b.one.n, 0)) >= p.n
"""
"""A subscription gets nothing of what was stored when it was made (rule P10).

Deliveries of what all subscriptions that ask for it have in their cuts; one that is taken back leaves no cut.
"""
