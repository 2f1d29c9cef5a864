-- audit: subscriptions are confirmed before a publication on their topic
-- Subscriptions are confirmed before the first publication on their topic. Without this audit, a run without
-- confirmations would require no delivery and violate no guarantee. Earlier faults that delay messages or pause nodes
-- excuse a late confirmation.
with slow as (
  select run_id, min(round) as round from fault_event where kind in ('delay', 'reorder', 'pause') group by run_id
), asked as (
  select s.run_id, s.subscriber, p.text as topic, s.confirmed_round
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
), first as (
  select run_id, topic, min(issued_round) as round from publication group by run_id, topic
)
select a.run_id, f.round, a.subscriber as node_id,
  concat('its subscription to ', a.topic,
  coalesce(concat(' was confirmed in round ', a.confirmed_round), ' was never confirmed')) as detail
from asked a
left join first f on f.run_id = a.run_id and f.topic = a.topic
left join slow w on w.run_id = a.run_id and w.round < a.confirmed_round
left join quiet_run q on q.run_id = a.run_id
where (a.confirmed_round is null and q.run_id is not null) or (a.confirmed_round > f.round and w.run_id is null)
