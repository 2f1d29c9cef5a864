-- audit, is_unconditional: a subscriber has the label of its configuration, and no ring neighbours outside it
-- Section 3.2.1, rule K3. The audit checks the rounds in which a subscriber handles exactly one SetData, and no
-- introduction after it.
with configured as (
  select run_id, dst as node_id, topic, due_round as round, count(1) as n_configurations, max(label) as label,
    max(before_node) as before_node, max(before_label) as before_label, max(after_node) as after_node,
    max(after_label) as after_label, min(is_valid) as is_valid
  from ring_message
  where kind = 'SetData' and is_handled
  group by run_id, dst, topic, due_round
), introduced as (
  select distinct run_id, dst as node_id, topic, due_round as round
  from ring_message
  where kind = 'Introduce' and is_handled
), judged as (
  select c.*, s.label as own_label, filter(s.peers, one -> not coalesce(
      (one.node = c.before_node and one.label = c.before_label)
      or (one.node = c.after_node and one.label = c.after_label), false)) as other_peers
  from configured c
  left join introduced i on i.run_id = c.run_id and i.node_id = c.node_id and i.topic = c.topic and i.round = c.round
  join ring_state s on s.run_id = c.run_id and s.node_id = c.node_id and s.topic = c.topic and s.round <= c.round
    and s.until_round > c.round
  where c.n_configurations = 1 and c.is_valid and i.run_id is null and (s.wants or c.label is null)
)
select run_id, round, node_id,
  concat('topic ', topic, ': its configuration has label ', coalesce(label, '-'), ', and it has label ',
    coalesce(own_label, '-'), ' and ', size(other_peers), ' ring neighbours that the configuration does not name'
  ) as detail
from judged
where not own_label <=> label or size(other_peers) > 0
