-- audit, is_unconditional: a full mesh refuses GRAFT over connections that are not outbound
-- Rules S1 and S10. A row is a GRAFT of a neighbour outside the mesh that arrives when the mesh has D_hi neighbours.
-- The node does not answer it with PRUNE. The audit does not check GRAFT after a fault of either node.
with came as (
  select distinct g.run_id, g.topic, g.node_id, g.peer, g.round
  from grafted g
  join joined j on j.run_id = g.run_id and j.node_id = g.node_id and j.topic = g.topic
    and j.issued_round < g.round and g.round < j.until_round
  left join first_fault u on u.run_id = g.run_id and u.node_id in (g.node_id, g.peer) and u.round <= g.round
  where not g.is_sent and u.run_id is null
    and (g.node_id < g.peer) <> ((g.node_id + g.peer) % 2 = 0)
), before as (
  select c.run_id, c.topic, c.node_id, c.peer, c.round, max(g.round) as graft_round
  from came c
  left join grafted g on g.run_id = c.run_id and g.topic = c.topic and g.node_id = c.node_id and g.peer = c.peer
    and (g.round < c.round or (g.is_sent and g.round = c.round))
  group by c.run_id, c.topic, c.node_id, c.peer, c.round
), outside as (
  select distinct b.run_id, b.topic, b.node_id, b.peer, b.round
  from before b
  left join parted p on p.run_id = b.run_id and p.topic = b.topic and p.node_id = b.node_id and p.peer = b.peer
    and (p.round > b.graft_round or (p.round = b.graft_round and p.is_sent)) and p.round < b.round
  where b.graft_round is null or p.run_id is not null
), filled as (
  select o.run_id, o.topic, o.node_id, o.peer, o.round, count(distinct h.peer) as n_mesh
  from outside o
  join in_mesh h on h.run_id = o.run_id and h.topic = o.topic and h.node_id = o.node_id and h.from_round < o.round
    and o.round < h.until_round and h.peer <> o.peer
  group by o.run_id, o.topic, o.node_id, o.peer, o.round
)
select f.run_id, f.round, f.node_id,
  concat('does not refuse the GRAFT of node ', f.peer, ', and has ', f.n_mesh, ' neighbours in the mesh') as detail
from filled f
join parameter r on r.run_id = f.run_id and f.n_mesh >= r.protocol_d_hi
left join sent_message m on m.run_id = f.run_id and m.kind = 'PRUNE' and m.src = f.node_id and m.dst = f.peer
  and m.sent_round = f.round and get_json_object(m.body, '$.topic') = f.topic
where m.run_id is null
