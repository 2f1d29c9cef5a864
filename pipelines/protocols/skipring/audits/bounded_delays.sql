-- audit, is_unconditional: a message takes min_delay to max_delay rounds if no fault delays it
-- Rule K15. The audit does not check messages that a fault may have delayed: a pause of the receiver, or a fault of
-- kind delay, reorder or duplicate on the link. With a fault of kind delay, messages do not overtake earlier messages
-- of their link. So it may delay messages that are sent up to 1,000 rounds after its end.
with fault as (
  select b.run_id, b.src, b.dst, b.round, min(e.round) + case when b.kind = 'delay' then 1000 else 0 end as end_round
  from fault_event b
  left join fault_event e on e.run_id = b.run_id and e.kind = concat(b.kind, '_end') and e.src <=> b.src
    and e.dst <=> b.dst and e.round >= b.round
  where b.kind in ('delay', 'reorder', 'duplicate')
  group by b.run_id, b.src, b.dst, b.round, b.kind
)
select distinct m.run_id, m.sent_round as round, m.src as node_id,
  concat(m.kind, ' to node ', m.dst, ' takes ', m.due_round - m.sent_round, ' rounds; allowed: ', s.min_delay, ' to ',
    s.max_delay) as detail
from ring_message m
join ring_setting s on s.run_id = m.run_id
left join fault f on f.run_id = m.run_id and coalesce(f.src, m.src) = m.src and coalesce(f.dst, m.dst) = m.dst
  and f.round <= m.sent_round and coalesce(f.end_round, m.sent_round) >= m.sent_round
left join pause_span p on p.run_id = m.run_id and p.node_id = m.dst and p.round <= m.due_round
  and coalesce(p.end_round, m.due_round) >= m.due_round
where not m.due_round - m.sent_round between s.min_delay and s.max_delay and f.run_id is null and p.run_id is null
