-- Messages in the buffer of a subscriber that has not been notified of their storage. The messages have no row if the
-- steering repository has a reserved number for the topic, because this number causes the wait (waits/slot.sql).
select b.run_id, b.node_id, b.source, b.source_seq, case
    when s.repository is null or s.is_seeking then 'the subscriber has no steering repository yet'
    when s.is_refused then 'the subscriber is refused: it is not registered for the topic'
    else concat(n.name, ' has not announced that it is stored') end as reason
from state_buffered b
join state_steering s on s.run_id = b.run_id and s.node_id = b.node_id and s.topic = b.topic and s.role = 'subscriber'
left join node n on n.run_id = s.run_id and n.node_id = s.repository
left join state_expected e on e.run_id = b.run_id and e.node_id = b.node_id and e.topic = b.topic
  and e.source = b.source and e.source_seq = b.source_seq
left join (select distinct run_id, node_id, topic from state_slot where status = 'reserved') r
  on r.run_id = b.run_id and r.node_id = s.repository and r.topic = b.topic
where e.source is null and r.node_id is null
