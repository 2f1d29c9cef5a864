-- audit, is_dated: R2S-Rectify lists no message whose acknowledgement the repository knows
-- Sections 4.3 and 4.6, rules P11 and P15. A steering repository knows an acknowledgement when the S2R-ACK has arrived.
-- Any other repository knows it when both the S2R-ACK and the Gossip-ACK with the entry of the acknowledged number have
-- arrived. The audit ignores repositories that join, that have left, or that crash before the acknowledgement is
-- known.
with located as (
  select run_id, dst as node_id, topic, origin as repository, seq, min(due_round) as due_round
  from gossip_entry
  where fate = 'delivered'
  group by run_id, dst, topic, origin, seq
), known as (
  select a.run_id, a.dst as node_id, a.topic, a.client, a.steering, a.seq,
    min(greatest(a.due_round, l.due_round)) as known_round
  from acknowledged_seq a
  left join located l on l.run_id = a.run_id and l.node_id = a.dst and l.topic = a.topic and l.repository = a.steering
    and l.seq = a.seq
  where a.fate = 'delivered' and (a.steering = a.dst or l.run_id is not null)
  group by a.run_id, a.dst, a.topic, a.client, a.steering, a.seq
), noted as (
  select k.run_id, k.node_id, k.topic, k.client, s.source, s.incarnation, s.n, min(k.known_round) as known_round
  from known k
  join stored_message s on s.run_id = k.run_id and s.node_id = k.steering and s.topic = k.topic and s.seq = k.seq
  left join moved_member m on m.run_id = k.run_id and m.topic = k.topic
    and m.node_id in (k.node_id, k.steering) and (m.kind = 'join' or m.round <= k.known_round)
  left join node_recovery c on c.run_id = k.run_id and c.node_id in (k.node_id, k.steering)
    and c.crash_round <= k.known_round
  where m.run_id is null and c.run_id is null
  group by k.run_id, k.node_id, k.topic, k.client, s.source, s.incarnation, s.n
), listed as (
  select run_id, src as node_id, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.to[0]') as bigint) as client, sent_round,
    explode(from_json(get_json_object(body, '$.listed'),
      'array<struct<source:bigint,source_seq:bigint,incarnation:bigint,n:bigint>>')) as one
  from sent_message
  where kind = 'R2S-Rectify' and src = cast(get_json_object(body, '$.origin') as bigint)
)
select l.run_id, l.sent_round as round, l.node_id, l.one.source as source, l.one.source_seq as source_seq,
  concat('lists the message to ', c.name, ', whose acknowledgement it knows since round ', k.known_round) as detail
from listed l
join noted k on k.run_id = l.run_id and k.node_id = l.node_id and k.topic = l.topic and k.client = l.client
  and k.source = l.one.source and k.incarnation = l.one.incarnation and k.n = l.one.n and k.known_round < l.sent_round
join node c on c.run_id = l.run_id and c.node_id = l.client
