-- audit, is_unconditional: a publication goes back neither to its sender nor to its publisher
-- Rule S9.
with copy as (
  select run_id, src, dst, source, source_seq, due_round
  from sent_message
  where kind in ('PUB', 'REPLY') and fate = 'delivered'
)
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('pushed back to node ', m.dst) as detail
from sent_message m
left join copy c on c.run_id = m.run_id and c.dst = m.src and c.src = m.dst and c.due_round = m.sent_round
  and c.source = m.source and c.source_seq = m.source_seq
where m.kind = 'PUB' and m.src <> m.source and (m.dst = m.source or c.run_id is not null)
