-- audit, is_unconditional: gossip goes to at most `fanout` neighbours for each copy, and never back
-- Rule E6. The audit does not check publisher-based pull, which goes to one dispatcher only.
with sent as (
  select run_id, src, sent_round, initiator, style, digest, count(distinct dst) as n_receivers
  from gossip
  where style <> 'publisher'
  group by run_id, src, sent_round, initiator, style, digest
), received as (
  select run_id, dst, due_round, initiator, style, digest, count(1) as n_copies, count(distinct src) as n_senders,
    min(src) as sender
  from gossip
  where style <> 'publisher' and fate = 'delivered'
  group by run_id, dst, due_round, initiator, style, digest
)
select s.run_id, s.sent_round as round, s.src as node_id,
  concat('sends gossip of node ', s.initiator, ' to ', s.n_receivers, ' neighbours') as detail
from sent s
join parameter r on r.run_id = s.run_id
left join received g on g.run_id = s.run_id and g.dst = s.src and g.due_round = s.sent_round
  and g.initiator = s.initiator and g.style = s.style and g.digest = s.digest
where s.n_receivers > coalesce(g.n_copies, 1) * r.protocol_fanout
union all
select b.run_id, b.sent_round as round, b.src as node_id,
  concat('sends gossip of node ', b.initiator, ' back to node ', b.dst) as detail
from gossip b
join received g on g.run_id = b.run_id and g.dst = b.src and g.due_round = b.sent_round
  and g.initiator = b.initiator and g.style = b.style and g.digest = b.digest
where b.style <> 'publisher' and g.n_senders = 1 and g.sender = b.dst
