-- A row is an entry of a Gossip-ACK on a link: a message or an action. seq: its sequence number at the sender; null: the
-- Gossip-ACK lists the message as stored after the first reserved number.
with gossip as (
  select run_id, message_id, src, dst, sent_round, due_round, fate, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.origin') as bigint) as origin, explode(from_json(
      concat('[', get_json_object(body, '$.entries'), ',', get_json_object(body, '$.beyond'), ']'),
      'array<array<struct<seq:bigint,publisher:bigint,incarnation:bigint,n:bigint,
        action:struct<client:bigint,role:string,number:bigint,is_registered:boolean>>>>')) as list
  from sent_message
  where kind = 'Gossip-ACK'
), entry as (
  select run_id, message_id, src, dst, sent_round, due_round, fate, topic, origin, explode(list) as one from gossip
)
select run_id, message_id, src, dst, sent_round, due_round, fate, topic, origin, one.seq as seq,
  one.publisher as publisher, one.incarnation as incarnation, one.n as n, one.action as action
from entry
