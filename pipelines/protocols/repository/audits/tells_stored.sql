-- audit, is_dated: Gossip-ACK tells the other members all messages that the repository has acknowledged to publishers
-- Section 4.5, rules P17 and P18. Each message is an entry of this Gossip-ACK or of an earlier one, or this Gossip-ACK
-- lists it as stored after the first reserved number. The audit does not check Gossip-ACKs to members that have left.
with stored as (
  select run_id, node_id, topic, publisher, incarnation, n, min(sent_round) as round
  from acknowledged_number
  group by run_id, node_id, topic, publisher, incarnation, n
), gossip as (
  select run_id, message_id, src as node_id, get_json_object(body, '$.topic') as topic, sent_round,
    from_json(get_json_object(body, '$.to'), 'array<bigint>') as receivers
  from sent_message
  where kind = 'Gossip-ACK' and src = cast(get_json_object(body, '$.origin') as bigint)
), regular as (
  select g.run_id, g.message_id, g.node_id, g.topic, g.sent_round
  from gossip g
  left join moved_member m on m.kind <> 'join' and m.run_id = g.run_id and m.topic = g.topic
    and array_contains(g.receivers, m.node_id) and m.round <= g.sent_round
  where m.run_id is null
), told as (
  select run_id, origin as node_id, topic, publisher, incarnation, n, min(sent_round) as round
  from gossip_entry
  where src = origin and seq is not null
  group by run_id, origin, topic, publisher, incarnation, n
)
select g.run_id, g.sent_round as round, g.node_id, s.publisher as source,
  concat('gossip lacks number ', s.n, ' of its publisher, acknowledged in round ', s.round) as detail
from stored s
join regular g on g.run_id = s.run_id and g.node_id = s.node_id and g.topic = s.topic and g.sent_round > s.round
left join told t on t.run_id = s.run_id and t.node_id = s.node_id and t.topic = s.topic
  and t.publisher = s.publisher and t.incarnation = s.incarnation and t.n = s.n and t.round <= g.sent_round
left join gossip_entry b on b.run_id = g.run_id and b.message_id = g.message_id and b.seq is null
  and b.publisher = s.publisher and b.incarnation = s.incarnation and b.n = s.n
where t.run_id is null and b.run_id is null
