-- audit, is_unconditional: ring neighbours and forwarded nodes come from introductions and configurations
-- Section 2.2, rule K2. A row is a reference, a pair of a node and a label, that a node stores on its ring or forwards.
-- The reference was not on the node's ring before the round. No Introduce or SetData that the node handles in the round
-- contains it.
with used as (
  select run_id, node_id, topic, round, peer.node as peer_id, peer.label as label, 'has on its ring' as what
  from (select run_id, node_id, topic, round, explode(peers) as peer from ring_state where round >= 0) held
  union all
  select run_id, src as node_id, topic, sent_round as round, named_node as peer_id, label, 'forwards' as what
  from ring_message
  where kind = 'Introduce' and named_node <> src and sent_round >= 0
), learned as (
  select run_id, dst as node_id, topic, due_round as round, named_node as peer_id, label
  from ring_message
  where kind = 'Introduce' and is_handled
  union all
  select run_id, dst as node_id, topic, due_round as round, before_node as peer_id, before_label as label
  from ring_message
  where kind = 'SetData' and is_handled and before_node is not null
  union all
  select run_id, dst as node_id, topic, due_round as round, after_node as peer_id, after_label as label
  from ring_message
  where kind = 'SetData' and is_handled and after_node is not null
), held as (
  select run_id, node_id, topic, round, until_round, peer.node as peer_id, peer.label as label
  from (select run_id, node_id, topic, round, until_round, explode(peers) as peer from ring_state) one
)
select distinct u.run_id, u.round, u.node_id,
  concat('topic ', u.topic, ': it ', u.what, ' ', n.name, ' with label ', u.label,
    ', which no introduction and no configuration named') as detail
from used u
join node n on n.run_id = u.run_id and n.node_id = u.peer_id
left join learned l on l.run_id = u.run_id and l.node_id = u.node_id and l.topic = u.topic and l.round = u.round
  and l.peer_id = u.peer_id and l.label = u.label
left join held h on h.run_id = u.run_id and h.node_id = u.node_id and h.topic = u.topic and h.peer_id = u.peer_id
  and h.label = u.label and h.round < u.round and h.until_round >= u.round
where l.run_id is null and h.run_id is null
