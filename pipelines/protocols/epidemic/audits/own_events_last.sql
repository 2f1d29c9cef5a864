-- audit, is_unconditional: caches that discard foreign events first hold no foreign event after discarding an own one
-- With eviction foreign_first a cache discards no own event while it contains a foreign event (section 5). Own events
-- are events that the dispatcher published or delivered; all other events are foreign. A crash excuses the
-- dispatcher for the own events that it had before, because it loses its cache.
with own as (
  select run_id, subscriber as node_id, source, source_seq, round from delivery
  union
  select run_id, node_id, node_id as source, source_seq, issued_round as round from state_tag
), mixed as (
  select distinct c.run_id, c.node_id
  from state_cache c
  join parameter r on r.run_id = c.run_id
  where not c.is_own and r.protocol_eviction = 'foreign_first'
)
select o.run_id, o.node_id, o.source, o.source_seq,
  'discarded, although the cache holds an event that the dispatcher neither published nor subscribed to' as detail
from own o
join mixed m on m.run_id = o.run_id and m.node_id = o.node_id
left join fault_event x on x.run_id = o.run_id and x.node_id = o.node_id and x.kind = 'crash' and x.round >= o.round
left join state_cache c on c.run_id = o.run_id and c.node_id = o.node_id
  and c.source = o.source and c.source_seq = o.source_seq
where c.run_id is null and x.run_id is null
