-- Messages that their publisher has not sent, because its steering repository has not answered.
select q.run_id, q.node_id, q.publication.source as source, q.publication.source_seq as source_seq, case
    when s.is_refused then 'its publisher is refused: it is not registered for the topic'
    when s.repository is null or s.is_seeking then 'its publisher has no steering repository yet'
    else concat('its publisher waits for R2P-Recovery from ', n.name) end as reason
from state_queued q
left join state_steering s on s.run_id = q.run_id and s.node_id = q.node_id and s.topic = q.topic
  and s.role = 'publisher'
left join node n on n.run_id = s.run_id and n.node_id = s.repository
