-- audit, is_unconditional: subscriptions are confirmed before a publication on their topic
-- Subscriptions are confirmed before the first publication on their topic. Without this audit, a run without
-- confirmations would require no delivery and violate no guarantee. A confirmation may be later by the rounds in which
-- faults held the subscription (view held_subscription). A crash, or a fault that breaks an assumption of the protocol,
-- excuses all later confirmations.
with asked as (
  select s.run_id, s.subscription_id, s.subscriber, p.text as topic, s.confirmed_round
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
), first as (
  select run_id, topic, min(issued_round) as round from publication group by run_id, topic
), broken as (
  select run_id, min(round) as round
  from fault_event
  where kind not in ('delay', 'delay_end', 'pause', 'pause_end')
  group by run_id
)
select a.run_id, f.round, a.subscriber as node_id,
  concat('its subscription to ', a.topic,
  coalesce(concat(' was confirmed in round ', a.confirmed_round), ' was never confirmed')) as detail
from asked a
left join first f on f.run_id = a.run_id and f.topic = a.topic
left join held_subscription h on h.run_id = a.run_id and h.subscription_id = a.subscription_id
left join broken b on b.run_id = a.run_id and (a.confirmed_round is null or b.round < a.confirmed_round)
left join quiet_run q on q.run_id = a.run_id
where b.run_id is null and ((a.confirmed_round is null and q.run_id is not null)
  or a.confirmed_round > f.round + coalesce(h.held_rounds, 0))
