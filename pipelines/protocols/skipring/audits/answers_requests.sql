-- audit, is_unconditional: the supervisor answers each request with SetData, except after a report of the node's crash
-- Sections 3.2.1, 3.3 and 4.1, rules K8 and K21.
with asked as (
  select m.run_id, m.dst as node_id, m.topic, m.due_round as round, m.kind,
    case when m.kind = 'RequestFor' then m.named_node else m.src end as peer_id
  from ring_message m
  join topic_supervisor s on s.run_id = m.run_id and s.topic = m.topic and s.supervisor = m.dst
  where m.kind in ('Subscribe', 'GetConfiguration', 'RequestFor', 'Unsubscribe') and m.is_handled
)
select distinct a.run_id, a.round, a.node_id,
  concat('topic ', a.topic, ': it handles ', a.kind, ', and sends no SetData to ', n.name) as detail
from asked a
join node n on n.run_id = a.run_id and n.node_id = a.peer_id
left join crash_report r on r.run_id = a.run_id and r.node_id = a.node_id and r.peer_id = a.peer_id
  and r.round <= a.round
left join ring_message m on m.run_id = a.run_id and m.kind = 'SetData' and m.src = a.node_id and m.dst = a.peer_id
  and m.topic = a.topic and m.sent_round = a.round
where r.run_id is null and m.run_id is null
