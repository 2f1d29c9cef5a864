-- audit, is_unconditional: a configuration that a supervisor sends in round-robin order agrees with its database
-- Sections 2.1 and 3.1, rule K18. Timeout is the last event of a round, so the audit reads the database at the end of
-- the round.
with told as (
  select run_id, src as node_id, topic, sent_round as round, label, dst as peer_id
  from ring_message
  where kind = 'SetData' and reason = 'round_robin' and sent_round >= 0
  union all
  select run_id, src as node_id, topic, sent_round as round, before_label as label, before_node as peer_id
  from ring_message
  where kind = 'SetData' and reason = 'round_robin' and sent_round >= 0 and before_node is not null
  union all
  select run_id, src as node_id, topic, sent_round as round, after_label as label, after_node as peer_id
  from ring_message
  where kind = 'SetData' and reason = 'round_robin' and sent_round >= 0 and after_node is not null
)
select distinct t.run_id, t.round, t.node_id,
  concat('topic ', t.topic, ': it tells label ', t.label, ' of node ', t.peer_id, ', and its database does not'
  ) as detail
from told t
left join tuple_span d on d.run_id = t.run_id and d.node_id = t.node_id and d.topic = t.topic and d.label = t.label
  and d.subscriber = t.peer_id and d.round <= t.round and d.until_round > t.round
where d.run_id is null
