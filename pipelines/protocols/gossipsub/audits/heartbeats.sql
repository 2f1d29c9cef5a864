-- audit, is_unconditional: heartbeats of a node are whole intervals apart
-- Rule S18. All rounds in which a node sends gossip have the same remainder modulo the heartbeat interval. A row is a
-- node, with the first round whose remainder differs from that of its first gossip.
with gossiped as (
  select run_id, src as node_id, sent_round, min(sent_round) over (partition by run_id, src) as first_round
  from sent_message
  where kind = 'IHAVE'
)
select g.run_id, min(g.sent_round) as round, g.node_id,
  concat('gossips in rounds ', g.first_round, ' and ', min(g.sent_round), ', which are not whole heartbeats apart')
    as detail
from gossiped g
join parameter r on r.run_id = g.run_id
where (g.sent_round - g.first_round) % r.protocol_heartbeat_rounds <> 0
group by g.run_id, g.node_id, g.first_round
