-- audit, is_dated: a registration is confirmed when all heard members have it
-- Section 3.3, rule P34. A member is heard if its Gossip-ACK has arrived at the confirming repository in the last
-- T_assist rounds, before the round of the confirmation: in this round the repository may handle the Gossip-ACK later. A
-- member has a registration from the owner or from a Gossip-ACK. Members that have left are left out.
with said as (
  select run_id, kind, src, dst, sent_round, due_round, fate, body, get_json_object(body, '$.topic') as topic,
    cast(get_json_object(body, '$.origin') as bigint) as origin,
    cast(get_json_object(body, '$.client') as bigint) as client, get_json_object(body, '$.role') as role,
    cast(get_json_object(body, '$.number') as bigint) as number
  from sent_message
  where kind in ('R2C-Confirm', 'Register', 'Deregister', 'Gossip-ACK')
), confirmed as (
  select s.run_id, s.src as node_id, s.topic, s.client, s.role, s.number, s.sent_round as round, s.sent_round
    - r.protocol_assist_rounds as silent_round
  from said s
  join parameter r on r.run_id = s.run_id
  where s.kind = 'R2C-Confirm' and s.src = s.origin
), heard as (
  select distinct c.run_id, c.node_id, c.topic, c.client, c.role, c.number, c.round, g.origin as member
  from confirmed c
  join said g on g.run_id = c.run_id and g.dst = c.node_id and g.topic = c.topic and g.kind = 'Gossip-ACK'
    and g.fate = 'delivered' and g.due_round > c.silent_round and g.due_round < c.round
  left join moved_member m on m.kind <> 'join' and m.run_id = g.run_id and m.topic = g.topic and m.node_id = g.origin
    and m.round <= c.round
  where m.run_id is null
), known as (
  select run_id, dst as member, topic, client, role, number, due_round as round
  from said
  where kind in ('Register', 'Deregister') and fate = 'delivered'
  union all
  select run_id, dst as member, topic, action.client as client, action.role as role, action.number as number,
    due_round as round
  from gossip_entry
  where fate = 'delivered' and action is not null
)
select distinct h.run_id, h.round, h.node_id,
  concat('confirms the registration of ', c.name, ' as ', h.role, ', and ', n.name, ' does not have it') as detail
from heard h
join node n on n.run_id = h.run_id and n.node_id = h.member
join node c on c.run_id = h.run_id and c.node_id = h.client
left join known k on k.run_id = h.run_id and k.member = h.member and k.topic = h.topic and k.client = h.client
  and k.role = h.role and k.number >= h.number and k.round <= h.round
where k.run_id is null
