-- audit, is_unconditional: at the end no mesh lacks neighbours that its node may graft
-- Rules S1 and S12. The audit does not check nodes with a fault in the last two heartbeats, nor nodes that sent or
-- received GRAFT, PRUNE or ANNOUNCE in the last two heartbeats, nor nodes of which a neighbour or a link had a fault in
-- the last three heartbeats. A backoff that ended three heartbeats ago prevents no GRAFT. A mesh may contain a
-- neighbour whose ANNOUNCE was lost (S10).
with moved as (
  select run_id, node_id, max(round) as round from (
    select run_id, src as node_id, sent_round as round from sent_message where kind in ('GRAFT', 'PRUNE', 'ANNOUNCE')
    union all
    select run_id, dst as node_id, due_round as round from sent_message where kind in ('GRAFT', 'PRUNE', 'ANNOUNCE')
  ) message
  group by run_id, node_id
), struck as (
  select f.run_id, l.dst as node_id,
    max(f.round + greatest(l.latency_rounds, b.latency_rounds) + r.protocol_detection_rounds) as round
  from fault_event f
  join parameter r on r.run_id = f.run_id
  join link l on l.run_id = f.run_id and (f.node_id = l.src or f.node_id is null)
  join link b on b.run_id = l.run_id and b.src = l.dst and b.dst = l.src
  group by f.run_id, l.dst
), blocked as (
  select k.run_id, k.topic, k.node_id, k.kept.key as peer
  from (select run_id, topic, node_id, explode(backoff) as kept from state_topic) k
  join parameter r on r.run_id = k.run_id
  join ended e on e.run_id = k.run_id
  where k.kept.value + 3 * r.protocol_heartbeat_rounds >= e.round
), opened as (
  select run_id, topic, node_id, peer,
    case when (node_id < peer) = ((node_id + peer) % 2 = 0) then 1 else 0 end as is_outbound,
    array_contains(peers, peer) as is_known
  from (
    select run_id, topic, node_id, peers, explode(array_union(peers, mesh)) as peer from state_topic where is_joined
  ) known
), meshed as (
  select run_id, topic, node_id, peer from (
    select run_id, topic, node_id, explode(mesh) as peer from state_topic where is_joined
  ) grafted
), has as (
  select o.run_id, o.topic, o.node_id, sum(case when m.run_id is null then 0 else 1 end) as n_mesh,
    sum(case when m.run_id is null then 0 else o.is_outbound end) as n_outbound,
    sum(case when o.is_known and m.run_id is null and b.run_id is null then 1 else 0 end) as n_free,
    sum(case when o.is_known and m.run_id is null and b.run_id is null then o.is_outbound else 0 end) as n_free_outbound
  from opened o
  left join meshed m on m.run_id = o.run_id and m.topic = o.topic and m.node_id = o.node_id and m.peer = o.peer
  left join blocked b on b.run_id = o.run_id and b.topic = o.topic and b.node_id = o.node_id and b.peer = o.peer
  group by o.run_id, o.topic, o.node_id
)
select h.run_id, h.node_id,
  concat('topic ', h.topic, ': ', h.n_mesh, ' neighbours in the mesh, ', h.n_outbound, ' of them outbound, and ',
    h.n_free, ' that it may graft') as detail
from has h
join parameter r on r.run_id = h.run_id
join ended e on e.run_id = h.run_id
left join moved m on m.run_id = h.run_id and m.node_id = h.node_id
left join fault_event u on u.run_id = h.run_id and u.node_id = h.node_id
  and u.round + 2 * r.protocol_heartbeat_rounds > e.round
left join struck f on f.run_id = h.run_id and f.node_id = h.node_id
where u.run_id is null and coalesce(m.round, 0) + 2 * r.protocol_heartbeat_rounds < e.round
  and (f.run_id is null or f.round + 3 * r.protocol_heartbeat_rounds < e.round)
  and ((h.n_mesh < r.protocol_d_lo and h.n_free > 0)
    or (h.n_outbound < r.protocol_d_out and h.n_free_outbound > 0))
