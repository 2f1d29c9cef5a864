-- audit, is_unconditional: a node gossips about a publication in at most `history_gossip` heartbeats
-- Nodes that crash are left out: a recovered node may receive a publication again. Publications that a node
-- has forgotten are also left out.
with told as (
  select distinct run_id, src, dst, sent_round, explode(from_json(get_json_object(body, '$.ids'),
    'array<struct<source:bigint,source_seq:bigint>>')) as id from sent_message where kind = 'IHAVE'
), counted as (
  select run_id, src, id.source as source, id.source_seq as source_seq, max(sent_round) as round,
    count(distinct sent_round) as n_heartbeats
  from told
  group by run_id, src, id.source, id.source_seq
), crashed as (
  select distinct run_id, node_id from fault_event where kind = 'crash'
)
select c.run_id, c.round, c.src as node_id, c.source, c.source_seq,
  concat('gossiped about in ', c.n_heartbeats, ' heartbeats, history_gossip is ', r.protocol_history_gossip) as detail
from counted c
join parameter r on r.run_id = c.run_id
left join crashed x on x.run_id = c.run_id and x.node_id = c.src
left join forgotten f on f.run_id = c.run_id and f.node_id = c.src and f.source = c.source
  and f.source_seq = c.source_seq
where c.n_heartbeats > r.protocol_history_gossip
  and x.run_id is null and f.run_id is null
