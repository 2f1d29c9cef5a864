-- audit, is_unconditional: after a PRUNE neither node grafts the other within the backoff
-- Rule S11. Neither node grafts the other during the backoff and the heartbeat that follows it.
select g.run_id, g.round, g.node_id,
  concat('grafts node ', g.peer, ' after PRUNE in round ', max(p.round)) as detail
from grafted g
join pruned p on p.run_id = g.run_id and p.topic = g.topic and p.node_id = g.node_id and p.peer = g.peer
  and p.round < g.round
join parameter r on r.run_id = g.run_id
left join fault_event x on x.run_id = g.run_id and x.node_id = g.node_id and x.kind = 'crash'
  and x.round between p.round and g.round
where g.is_sent and x.run_id is null and g.round < p.round + p.backoff_rounds + r.protocol_heartbeat_rounds
group by g.run_id, g.round, g.node_id, g.peer
