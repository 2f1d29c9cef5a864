-- audit, is_unconditional: no cache holds more than `buffer` events
select c.run_id, c.node_id,
  concat('the cache holds ', c.n_events, ' events, buffer is ', r.protocol_buffer) as detail
from (select run_id, node_id, count(1) as n_events from state_cache group by run_id, node_id) c
join parameter r on r.run_id = c.run_id
where c.n_events > r.protocol_buffer
