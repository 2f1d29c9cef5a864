-- audit: the cut of a deregistration has no message that was published after all members knew the deregistration
-- Sections 3.3 and 3.8, rule P25. A member knows the deregistration when it sends the deregistration by gossip. The cut
-- contains the messages that a member had stored before.
with gossip as (
  select run_id, src as node_id, get_json_object(body, '$.topic') as topic, sent_round,
    explode(from_json(get_json_object(body, '$.entries'),
      'array<struct<action:struct<client:bigint,role:string,number:bigint,is_registered:boolean>>>')) as one
  from sent_message
  where kind = 'Gossip-ACK' and src = cast(get_json_object(body, '$.origin') as bigint)
), told as (
  select run_id, node_id, topic, one.action.client as client, one.action.role as role, one.action.number as number,
    min(sent_round) as round
  from gossip
  where not one.action.is_registered
  group by run_id, node_id, topic, one.action.client, one.action.role, one.action.number
), known as (
  select run_id, topic, client, role, number, max(round) as round
  from told
  group by run_id, topic, client, role, number
), ended as (
  select run_id, node_id, topic, client, role, number, explode(cut) as one from state_registration where not is_registered
)
select distinct e.run_id, p.issued_round as round, e.node_id, p.source, p.source_seq,
  concat('the cut of the deregistration of ', c.name, ' has it, and all members knew the deregistration in round ',
    k.round) as detail
from ended e
join known k on k.run_id = e.run_id and k.topic = e.topic and k.client = e.client and k.role = e.role
  and k.number = e.number
join node c on c.run_id = e.run_id and c.node_id = e.client
join stored_message s on s.run_id = e.run_id and s.topic = e.topic and s.source = e.one.publisher
  and s.incarnation = e.one.incarnation and s.n <= e.one.n
join publication p on p.run_id = s.run_id and p.source = s.source and p.source_seq = s.source_seq
where p.issued_round > k.round
