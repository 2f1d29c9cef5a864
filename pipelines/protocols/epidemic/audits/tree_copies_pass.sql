-- audit, is_unconditional: a dispatcher forwards the first tree copy of an event, once, and no replies
-- A dispatcher forwards an event once, in the round in which a copy arrives over the tree. It does not forward an event
-- that arrives by REPLY (rule E8).
select m.run_id, m.sent_round as round, m.src as node_id, m.source, m.source_seq,
  concat('forwards it to node ', m.dst, ', and no copy arrived over the tree in this round') as detail
from sent_message m
left join sent_message c on c.run_id = m.run_id and c.kind = 'EVENT' and c.dst = m.src and c.source = m.source
  and c.source_seq = m.source_seq and c.due_round = m.sent_round and c.fate = 'delivered'
where m.kind = 'EVENT' and m.src <> m.source and c.run_id is null
union all
select run_id, max(sent_round) as round, src as node_id, source, source_seq,
  concat('forwards it to node ', dst, ' again, first in round ', min(sent_round)) as detail
from sent_message
where kind = 'EVENT'
group by run_id, src, dst, source, source_seq
having count(distinct sent_round) > 1
