-- audit: an authorised client's subscription is confirmed
-- Sections 3.3 and 3.11. The audit checks clients that are up at the end, and registered without a crash of the owner
-- that may have lost the registration.
with about as (
  select run_id, subscription_id, max(case when attribute = 'topic' and op = '=' then text end) as topic
  from predicate
  group by run_id, subscription_id
), standing as (
  select distinct run_id, topic, node_id from authorisation
  where role = 'subscriber' and end_round is null and is_certain
), gone as (
  select distinct run_id, node_id from node_recovery where recovery_round is null
)
select u.run_id, u.issued_round as round, u.subscriber as node_id,
  concat('subscription ', u.subscription_id, ' is never confirmed') as detail
from subscription u
join settled_run s on s.run_id = u.run_id and s.is_settled
left join about b on b.run_id = u.run_id and b.subscription_id = u.subscription_id
join topic_service v on v.run_id = u.run_id and v.topic = coalesce(b.topic, '') and v.n_serving > 0
left join topic_owner o on o.run_id = u.run_id and o.topic = v.topic
left join standing a on a.run_id = u.run_id and a.topic = v.topic and a.node_id = u.subscriber
left join gone g on g.run_id = u.run_id and g.node_id = u.subscriber
where u.confirmed_round is null and u.unsubscribed_round is null and g.node_id is null
  and (o.topic is null or a.node_id is not null)
