-- audit, is_unconditional: a node gossips about a publication in at most `history_gossip` heartbeats
-- A crash between the first and the last of these heartbeats excuses the node: it may receive the publication again
-- after its recovery. Publications that a node has forgotten are also left out.
with counted as (
  select run_id, src, id.source as source, id.source_seq as source_seq, min(sent_round) as first_round, max(sent_round) as round,
    count(distinct sent_round) as n_heartbeats
  from gossip_id
  where kind = 'IHAVE'
  group by run_id, src, id.source, id.source_seq
)
select c.run_id, c.round, c.src as node_id, c.source, c.source_seq,
  concat('gossiped about in ', c.n_heartbeats, ' heartbeats, history_gossip is ', r.protocol_history_gossip) as detail
from counted c
join parameter r on r.run_id = c.run_id
left join fault_event x on x.run_id = c.run_id and x.node_id = c.src and x.kind = 'crash'
  and x.round between c.first_round and c.round
left join forgotten f on f.run_id = c.run_id and f.node_id = c.src and f.source = c.source
  and f.source_seq = c.source_seq
where c.n_heartbeats > r.protocol_history_gossip
  and x.run_id is null and f.run_id is null
