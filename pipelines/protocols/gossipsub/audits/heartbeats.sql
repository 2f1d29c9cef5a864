-- audit, is_unconditional: heartbeats of a node are whole intervals apart
-- Rule S18. All rounds in which a node sends gossip have the same remainder modulo the heartbeat interval.
select m.run_id, max(m.sent_round) as round, m.src as node_id,
  concat('gossips in rounds ', min(m.sent_round), ' and ', max(m.sent_round),
    ', which are not whole heartbeats apart') as detail
from sent_message m
join parameter r on r.run_id = m.run_id
where m.kind = 'IHAVE'
group by m.run_id, m.src, r.protocol_heartbeat_rounds
having count(distinct m.sent_round % r.protocol_heartbeat_rounds) > 1
