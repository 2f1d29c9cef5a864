-- audit, is_unconditional: a dispatcher requests events of its own clients' patterns only
-- A dispatcher requests only events of patterns to which its own clients subscribe (rules E9 and E10).
select distinct e.run_id, e.sent_round as round, e.src as node_id,
  concat('asks for an event of pattern ', e.pattern_id, ', to which no client there subscribes') as detail
from entry e
left join client_pattern w on w.run_id = e.run_id and w.node_id = e.src and w.pattern_id = e.pattern_id
  and w.issued_round <= e.sent_round and e.sent_round <= w.until_round
where e.style <> 'push' and e.src = e.initiator and w.run_id is null
