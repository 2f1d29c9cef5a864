-- audit, is_unconditional: at the end a node knows which topics its neighbours have joined
-- Rules S2 to S5. The audit does not check neighbours whose announcement was lost, is in flight, or arrived after a
-- later announcement.
with announced as (
  select run_id, src, dst from sent_message where kind in ('ANNOUNCE', 'HELLO') and fate <> 'delivered'
  union
  select run_id, dst as src, src as dst from sent_message where kind = 'HELLO' and fate <> 'delivered'
  union
  select a.run_id, a.src, a.dst
  from sent_message a
  join sent_message b on b.run_id = a.run_id and b.src = a.src and b.dst = a.dst and b.kind in ('ANNOUNCE', 'HELLO')
    and b.sent_round > a.sent_round and b.due_round <= a.due_round
  where a.kind in ('ANNOUNCE', 'HELLO')
), down as (
  select run_id, node_id from node_recovery where recovery_round is null
), stands as (
  select t.run_id, t.topic, t.node_id, t.is_joined from state_topic t
  left join down d on d.run_id = t.run_id and d.node_id = t.node_id
  where d.run_id is null
), held as (
  select run_id, topic, node_id, explode(peers) as peer from state_topic
), pair as (
  select s.run_id, s.topic, l.dst as node_id, s.node_id as peer, s.is_joined
  from stands s
  join link l on l.run_id = s.run_id and l.src = s.node_id
  join stands o on o.run_id = s.run_id and o.topic = s.topic and o.node_id = l.dst
)
select p.run_id, p.node_id,
  concat('topic ', p.topic, ': node ', p.peer, case when p.is_joined then ' has joined it, and is no peer'
    else ' has left it, and is a peer' end) as detail
from pair p
left join held h on h.run_id = p.run_id and h.topic = p.topic and h.node_id = p.node_id and h.peer = p.peer
left join announced a on a.run_id = p.run_id and a.src = p.peer and a.dst = p.node_id
where a.run_id is null and p.is_joined <> (h.run_id is not null)
union all
select h.run_id, h.node_id,
  concat('topic ', h.topic, ': node ', h.peer, ' crashed in round ', g.crash_round, ', and is a peer') as detail
from held h
join stands s on s.run_id = h.run_id and s.topic = h.topic and s.node_id = h.node_id
join node_recovery g on g.run_id = h.run_id and g.node_id = h.peer and g.recovery_round is null
join link l on l.run_id = h.run_id and l.src = h.node_id and l.dst = h.peer
join link b on b.run_id = h.run_id and b.src = h.peer and b.dst = h.node_id
join parameter r on r.run_id = h.run_id
join ended e on e.run_id = h.run_id
where e.round > g.crash_round + greatest(l.latency_rounds, b.latency_rounds)
  + r.protocol_detection_rounds
