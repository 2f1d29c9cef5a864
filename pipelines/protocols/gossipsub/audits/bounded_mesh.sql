-- audit, is_unconditional: after a heartbeat no mesh has more than `d_hi` neighbours, apart from outbound grafts
-- Rule S12. A row is a mesh with too many neighbours at the end of the run. If a mesh has too few outbound neighbours,
-- a heartbeat grafts up to `d_out` of them, even beyond `d_hi` neighbours. The audit does not check nodes with a
-- fault in the last heartbeat interval, nor nodes that got a GRAFT in this interval.
with grown as (
  select m.run_id, m.dst as node_id, max(m.due_round) as round
  from sent_message m
  where m.kind = 'GRAFT' and m.fate = 'delivered'
  group by m.run_id, m.dst
), outbound as (
  select g.run_id, g.node_id, g.topic, count(*) as number
  from grafted g
  join ended l on l.run_id = g.run_id
  join parameter s on s.run_id = g.run_id
  where g.is_sent and (g.node_id < g.peer) = ((g.node_id + g.peer) % 2 = 0)
    and g.round + s.protocol_heartbeat_rounds > l.round
  group by g.run_id, g.node_id, g.topic
)
select t.run_id, t.node_id,
  concat('topic ', t.topic, ': ', size(t.mesh), ' neighbours in the mesh, d_hi is ', s.protocol_d_hi) as detail
from state_topic t
join parameter s on s.run_id = t.run_id
join ended l on l.run_id = t.run_id
left join grown g on g.run_id = t.run_id and g.node_id = t.node_id
left join outbound o on o.run_id = t.run_id and o.node_id = t.node_id and o.topic = t.topic
left join fault_event u on u.run_id = t.run_id and u.node_id = t.node_id
  and u.round + s.protocol_heartbeat_rounds > l.round
where u.run_id is null and size(t.mesh) > s.protocol_d_hi + least(s.protocol_d_out, coalesce(o.number, 0))
  and coalesce(g.round, -1) + s.protocol_heartbeat_rounds <= l.round
