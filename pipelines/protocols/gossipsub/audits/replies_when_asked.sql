-- audit, is_unconditional: a REPLY answers an IWANT that names its publication
-- The IWANT arrives in the round of the REPLY.
with asked as (
  select run_id, src, dst, due_round, explode(from_json(get_json_object(body, '$.ids'),
    'array<struct<source:bigint,source_seq:bigint>>')) as id from sent_message where kind = 'IWANT'
      and fate = 'delivered'
)
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('REPLY to node ', m.dst, ', which has not asked for it') as detail
from sent_message m
left join asked a on a.run_id = m.run_id and a.src = m.dst and a.dst = m.src and a.due_round = m.sent_round
  and a.id.source = m.source and a.id.source_seq = m.source_seq
where m.kind = 'REPLY' and a.run_id is null
