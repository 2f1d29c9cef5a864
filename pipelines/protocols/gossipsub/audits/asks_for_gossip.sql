-- audit, is_unconditional: an IWANT names only publications that an IHAVE has named and that its sender lacks
-- Rule S15. A crash excuses a request for a publication that the node has had before the crash.
with asked as (
  select run_id, src as node_id, dst as peer, sent_round, id from gossip_id where kind = 'IWANT'
), known as (
  select a.run_id, a.node_id, a.sent_round, a.id, min(h.round) as had_round
  from asked a
  join had h on h.run_id = a.run_id and h.node_id = a.node_id and h.source = a.id.source
    and h.source_seq = a.id.source_seq and h.round < a.sent_round
  group by a.run_id, a.node_id, a.sent_round, a.id
)
select k.run_id, k.sent_round as round, k.node_id, k.id.source as source, k.id.source_seq as source_seq,
  concat('asks for it, and has had it in round ', k.had_round) as detail
from known k
join parameter r on r.run_id = k.run_id
left join fault_event x on x.run_id = k.run_id and x.node_id = k.node_id and x.kind = 'crash'
  and x.round between k.had_round and k.sent_round
where x.run_id is null and k.sent_round < k.had_round + r.protocol_seen_ttl * r.protocol_heartbeat_rounds
union all
select a.run_id, a.sent_round as round, a.node_id, a.id.source as source, a.id.source_seq as source_seq,
  concat('asks node ', a.peer, ' for it, and no IHAVE of this round from there names it') as detail
from asked a
left join gossip_id w on w.run_id = a.run_id and w.kind = 'IHAVE' and w.fate = 'delivered' and w.dst = a.node_id
  and w.src = a.peer and w.due_round = a.sent_round and w.id.source = a.id.source and w.id.source_seq = a.id.source_seq
where w.run_id is null
