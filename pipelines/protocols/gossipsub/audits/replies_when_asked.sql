-- audit, is_unconditional: each REPLY answers an IWANT that names its publication
-- Rule S16. The IWANT arrives in the round of the REPLY, and each IWANT has one REPLY. An earlier link fault that
-- duplicates messages excuses a second REPLY in a round.
with asked as (
  select run_id, dst as node_id, src as peer, due_round, id.source as source, id.source_seq as source_seq, count(1) as n
  from gossip_id
  where kind = 'IWANT' and fate = 'delivered'
  group by run_id, dst, src, due_round, id.source, id.source_seq
), replied as (
  select run_id, src as node_id, dst as peer, sent_round, source, source_seq, count(1) as n
  from sent_message
  where kind = 'REPLY'
  group by run_id, src, dst, sent_round, source, source_seq
)
select p.run_id, p.sent_round as round, p.node_id, p.source, p.source_seq,
  case when a.run_id is null then concat('REPLY to node ', p.peer, ', which has not asked for it')
    else concat(p.n, ' REPLY to node ', p.peer, ' for ', a.n, ' IWANT') end as detail
from replied p
left join asked a on a.run_id = p.run_id and a.node_id = p.node_id and a.peer = p.peer and a.due_round = p.sent_round
  and a.source = p.source and a.source_seq = p.source_seq
left join fault_event d on d.run_id = p.run_id and d.kind = 'duplicate' and d.round <= p.sent_round
where a.run_id is null or (p.n > a.n and d.run_id is null)
