-- audit, is_unconditional: a REPLY answers an IWANT that names its publication
-- The IWANT arrives in the round of the REPLY.
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('REPLY to node ', m.dst, ', which has not asked for it') as detail
from sent_message m
left join gossip_id a on a.run_id = m.run_id and a.kind = 'IWANT' and a.fate = 'delivered' and a.src = m.dst
  and a.dst = m.src and a.due_round = m.sent_round and a.id.source = m.source and a.id.source_seq = m.source_seq
where m.kind = 'REPLY' and a.run_id is null
