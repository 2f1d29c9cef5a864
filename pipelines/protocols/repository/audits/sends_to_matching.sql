-- audit, is_dated: messages and notifications go only to clients with a matching subscription
-- Section 3.7, rules P11 and P29. Publishers send Message, and repositories send R2S*-Persistent and R2S-Retransmit. On
-- a topic with an owner, a receiver must also have been registered as a subscriber before. A subscription matches
-- independently of its rounds. The audit does not check receivers that crash, because history lacks the subscriptions
-- that a client could not issue while it was down.
with addressed as (
  select run_id, kind, src as node_id, sent_round, source, source_seq, get_json_object(body, '$.topic') as topic,
    explode(from_json(get_json_object(body, '$.to'), 'array<bigint>')) as client
  from sent_message
  where kind in ('Message', 'R2S*-Persistent', 'R2S-Retransmit')
    and src = cast(get_json_object(body, '$.origin') as bigint)
), wanted as (
  select distinct m.run_id, m.source, m.source_seq, s.subscriber
  from matching m
  join subscription s on s.run_id = m.run_id and s.subscription_id = m.subscription_id
), registered as (
  select run_id, topic, node_id, min(from_round) as round
  from authorisation
  where role = 'subscriber'
  group by run_id, topic, node_id
)
select distinct a.run_id, a.sent_round as round, a.node_id, a.source, a.source_seq,
  concat(a.kind, ' goes to ', n.name, case when w.run_id is null then ', which has no matching subscription'
    else ', which is not registered as a subscriber' end) as detail
from addressed a
join node n on n.run_id = a.run_id and n.node_id = a.client and n.role = 'client'
left join wanted w on w.run_id = a.run_id and w.source = a.source and w.source_seq = a.source_seq
  and w.subscriber = a.client
left join topic_owner o on o.run_id = a.run_id and o.topic = a.topic
left join parameter b on b.run_id = a.run_id and b.protocol_baseline
left join registered r on r.run_id = a.run_id and r.topic = a.topic and r.node_id = a.client and r.round <= a.sent_round
left join node_recovery c on c.run_id = a.run_id and c.node_id = a.client
where c.run_id is null and (w.run_id is null or (o.topic is not null and r.run_id is null and b.run_id is null))
