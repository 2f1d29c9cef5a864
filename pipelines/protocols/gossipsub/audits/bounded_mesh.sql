-- audit, is_unconditional: after a heartbeat no mesh has more than `d_hi` neighbours
-- Rule S12. A row is a mesh with more than `d_hi` neighbours, if its node got no GRAFT in the last heartbeat interval.
-- The audit does not check nodes with faults.
with unsteady as (
  select distinct run_id, node_id from fault_event where node_id is not null
), grown as (
  select m.run_id, m.dst as node_id, max(m.due_round) as round
  from sent_message m
  where m.kind = 'GRAFT' and m.fate = 'delivered'
  group by m.run_id, m.dst
)
select t.run_id, cast(null as bigint) as round, t.node_id, cast(null as bigint) as source, cast(null as bigint)
  as source_seq,
  concat('topic ', t.topic, ': ', size(t.mesh), ' neighbours in the mesh, d_hi is ',
    cast(get_json_object(r.parameters, "$['protocol.d_hi']") as bigint)) as detail
from state_topic t
join run r on r.run_id = t.run_id
join ended l on l.run_id = t.run_id
left join grown g on g.run_id = t.run_id and g.node_id = t.node_id
left join unsteady u on u.run_id = t.run_id and u.node_id = t.node_id
where u.run_id is null and size(t.mesh) > cast(get_json_object(r.parameters, "$['protocol.d_hi']") as bigint)
  and coalesce(g.round, -1) + cast(get_json_object(r.parameters, "$['protocol.heartbeat_rounds']") as bigint) <= l.round
