-- For how long did faults hold each subscription?
-- One row per run and subscription that a fault held (protocol ginger). A fault holds a subscription in two cases. One
-- of its messages (Subscribe, Subscribed) is due later than the latency of its link requires, because of a delay or a
-- pause of the receiver. Or the subscriber pauses in the round of the call, and issues the subscription when the pause
-- ends.
-- :topic topic of the subscription
-- :called_round issued_round; if the subscriber issued the subscription at the end of a pause, first round of the pause
-- :held_rounds number of rounds before the confirmation in which a fault held the subscription
-- :held_ms held_rounds in ms
with asked as (
  select s.run_id, s.subscription_id, s.subscriber, p.text as topic, s.issued_round, s.confirmed_round
  from subscription s
  join predicate p on p.run_id = s.run_id and p.subscription_id = s.subscription_id and p.attribute = 'topic'
  join (select distinct run_id from fault_event where kind in ('delay', 'pause')) f on f.run_id = s.run_id
), paused as (
  select a.run_id, a.subscription_id, max(b.round) as first_round, a.issued_round as end_round
  from asked a
  join fault_event e on e.run_id = a.run_id and e.kind = 'pause_end' and e.node_id = a.subscriber
    and e.round = a.issued_round
  join fault_event b on b.run_id = a.run_id and b.kind = 'pause' and b.node_id = a.subscriber
    and b.round < a.issued_round
  group by a.run_id, a.subscription_id, a.issued_round
), late as (
  select m.run_id, cast(get_json_object(m.body, '$.subscription_id') as bigint) as subscription_id,
    m.sent_round + l.latency_rounds as first_round, m.due_round as end_round
  from message m
  join link l on l.run_id = m.run_id and l.src = m.src and l.dst = m.dst
  where m.kind in ('Subscribe', 'Subscribed') and m.due_round > m.sent_round + l.latency_rounds
  union all
  select run_id, subscription_id, first_round, end_round from paused
), held as (
  select run_id, subscription_id, explode(sequence(first_round, end_round - 1)) as round from late
)
select a.run_id, a.subscription_id, a.subscriber, n.name as subscriber_name, a.topic,
  coalesce(p.first_round, a.issued_round) as called_round, count(distinct h.round) as held_rounds,
  count(distinct h.round) * r.round_ms as held_ms
from asked a
join run r on r.run_id = a.run_id
join node n on n.run_id = a.run_id and n.node_id = a.subscriber
join held h on h.run_id = a.run_id and h.subscription_id = a.subscription_id
  and (a.confirmed_round is null or h.round < a.confirmed_round)
left join paused p on p.run_id = a.run_id and p.subscription_id = a.subscription_id
group by a.run_id, a.subscription_id, a.subscriber, n.name, a.topic, p.first_round, a.issued_round, r.round_ms
