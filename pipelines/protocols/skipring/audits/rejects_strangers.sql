-- audit, is_unconditional: a node without a subscription answers introductions with Remove, SetData with Unsubscribe
-- Section 4.1, rule K4.
with wanting as (
  select run_id, node_id, topic, round, until_round from ring_state where wants
), asked as (
  select run_id, dst as node_id, topic, due_round as round, kind, named_node as peer_id, 'Remove' as answer
  from ring_message
  where kind in ('Introduce', 'IntroduceShortcut') and is_handled and is_valid
  union all
  select run_id, dst as node_id, topic, due_round as round, kind, src as peer_id, 'Remove' as answer
  from ring_message
  where kind = 'IntroduceShortcut' and is_handled and is_valid
  union all
  select run_id, dst as node_id, topic, due_round as round, kind, cast(null as bigint) as peer_id,
    'Unsubscribe' as answer
  from ring_message
  where kind = 'SetData' and is_handled and is_valid and label is not null
), answered as (
  select distinct run_id, src as node_id, topic, sent_round as round, kind as answer,
    case when kind = 'Remove' then dst end as peer_id
  from ring_message
  where (kind = 'Remove' and named_node = src) or kind = 'Unsubscribe'
)
select distinct a.run_id, a.round, a.node_id,
  concat('topic ', a.topic, ': it is not subscribed, handles ', a.kind, ', and sends no ', a.answer,
    coalesce(concat(' to node ', a.peer_id), '')) as detail
from asked a
left join wanting w on w.run_id = a.run_id and w.node_id = a.node_id and w.topic = a.topic and w.round <= a.round
  and w.until_round >= a.round
left join answered t on t.run_id = a.run_id and t.node_id = a.node_id and t.topic = a.topic and t.round = a.round
  and t.answer = a.answer and t.peer_id <=> a.peer_id
where w.run_id is null and t.run_id is null
