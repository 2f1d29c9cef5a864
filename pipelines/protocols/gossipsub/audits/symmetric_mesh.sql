-- audit: of two nodes each has the other in its mesh, or neither has
-- A row is a node that is in a neighbour's mesh at the end, but lacks this neighbour in its own mesh. The audit does
-- not check pairs of nodes with a GRAFT, PRUNE or ANNOUNCE in flight.
with mesh as (
  select run_id, topic, node_id, explode(mesh) as peer from state_topic where is_joined
), moving as (
  select distinct run_id, get_json_object(body, '$.topic') as topic, src as node_id, dst as peer
  from sent_message
  where kind in ('GRAFT', 'PRUNE', 'ANNOUNCE') and fate = 'in_flight'
), changed as (
  select run_id, topic, node_id, peer from moving
  union
  select run_id, topic, peer as node_id, node_id as peer from moving
)
select m.run_id, m.node_id,
  concat('topic ', m.topic, ': has ', n.name, ' in its mesh, and is not in that of ', n.name) as detail
from mesh m
join node n on n.run_id = m.run_id and n.node_id = m.peer
left join mesh b on b.run_id = m.run_id and b.topic = m.topic and b.node_id = m.peer and b.peer = m.node_id
left join changed c on c.run_id = m.run_id and c.topic = m.topic and c.node_id = m.node_id and c.peer = m.peer
where b.run_id is null and c.run_id is null
