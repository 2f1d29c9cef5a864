-- audit, is_unconditional: with eviction `oldest`, a full cache discards its oldest event
-- Section 4, rule E11. The audit checks runs in which all events are cached (setting caching). A row is an event that
-- is cached at the end, although at least `buffer` events arrived after the round in which it was cached.
with had as (
  select run_id, dst as node_id, source, source_seq, min(due_round) as round
  from sent_message
  where kind in ('EVENT', 'REPLY') and fate = 'delivered'
  group by run_id, dst, source, source_seq
  union all
  select distinct run_id, node_id, node_id as source, source_seq, issued_round as round from state_tag
)
select c.run_id, c.node_id, c.source, c.source_seq,
  concat('is cached since round ', c.cached_round, ', and ', count(1), ' events have arrived since') as detail
from state_cache c
join parameter r on r.run_id = c.run_id and r.protocol_eviction = 'oldest' and r.protocol_caching = 'all'
join had h on h.run_id = c.run_id and h.node_id = c.node_id and h.round > c.cached_round
group by c.run_id, c.node_id, c.source, c.source_seq, c.cached_round, r.protocol_buffer
having count(1) >= r.protocol_buffer
