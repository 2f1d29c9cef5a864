-- audit, is_unconditional: a node that leaves a topic sends PRUNE to its mesh
-- Rule S4. A row is a neighbour that is in a node's mesh when the node's last subscription ends, and that gets no
-- PRUNE.
select distinct e.run_id, e.until_round as round, e.node_id,
  concat('leaves topic ', e.topic, ' without PRUNE to node ', h.peer, ', which is in the mesh since round ',
    h.from_round) as detail
from joined e
join in_mesh h on h.run_id = e.run_id and h.node_id = e.node_id and h.topic = e.topic
  and h.from_round < e.until_round and e.until_round < h.until_round
left join joined o on o.run_id = e.run_id and o.node_id = e.node_id and o.topic = e.topic
  and o.subscription_id <> e.subscription_id and o.issued_round <= e.until_round and e.until_round <= o.until_round
where o.run_id is null and e.until_round < 9223372036854775807
