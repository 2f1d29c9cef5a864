-- audit, is_unconditional: an IWANT is answered for `history_length` heartbeats, and no longer
-- Rules S16 and S17. A crash excuses the node for the publications that it has had before the crash. A pause delays
-- heartbeats, so it excuses late answers of the node. Publications that a node has forgotten are left out.
with known as (
  select a.run_id, a.dst as node_id, a.src as peer, a.due_round, a.id, min(h.round) as had_round
  from gossip_id a
  join had h on h.run_id = a.run_id and h.node_id = a.dst and h.source = a.id.source
    and h.source_seq = a.id.source_seq and h.round < a.due_round
  left join forgotten f on f.run_id = a.run_id and f.node_id = a.dst and f.source = a.id.source
    and f.source_seq = a.id.source_seq
  where a.kind = 'IWANT' and a.fate = 'delivered' and f.run_id is null
  group by a.run_id, a.dst, a.src, a.due_round, a.id
), answered as (
  select k.run_id, k.node_id, k.peer, k.due_round, k.id, k.had_round, m.message_id
  from known k
  left join sent_message m on m.run_id = k.run_id and m.kind = 'REPLY' and m.src = k.node_id and m.dst = k.peer
    and m.sent_round = k.due_round and m.source = k.id.source and m.source_seq = k.id.source_seq
)
select a.run_id, a.due_round as round, a.node_id, a.id.source as source, a.id.source_seq as source_seq,
  concat(case when a.message_id is null then 'does not answer' else 'answers' end, ' node ', a.peer,
    ', and has had it since round ', a.had_round) as detail
from answered a
join parameter r on r.run_id = a.run_id
left join fault_event x on x.run_id = a.run_id and x.node_id = a.node_id and x.round between a.had_round and a.due_round
  and (x.kind = 'crash' or (x.kind in ('pause', 'pause_end') and a.message_id is not null))
where x.run_id is null and case
  when a.message_id is null
    then a.due_round <= a.had_round + (r.protocol_history_length - 1) * r.protocol_heartbeat_rounds
  else a.due_round >= a.had_round + r.protocol_history_length * r.protocol_heartbeat_rounds end
