-- audit, is_unconditional: each action and topic of a node has a draw of its own
-- Section 3.2.1, rule K13. A row is a pair of draws that have the same result in 40 intervals. Both draws have
-- probability 1/2: they are draws of action (iv) at a node without a left neighbour, or of action (ii) at a node with
-- label 0 or 1.
with drawn as (
  select run_id, node_id, topic, 'minimum' as reason, round, until_round
  from ring_state
  where wants and label is not null and `left` is null
  union all
  select run_id, node_id, topic, 'label' as reason, round, until_round
  from ring_state
  where wants and label in ('0', '1')
), paired as (
  select a.run_id, a.node_id, a.topic, a.reason, b.topic as other_topic, b.reason as other_reason,
    greatest(a.round, b.round) as round, least(a.until_round, b.until_round) as until_round
  from drawn a
  join drawn b on b.run_id = a.run_id and b.node_id = a.node_id
    and concat(a.topic, ' ', a.reason) < concat(b.topic, ' ', b.reason)
  join ring_setting s on s.run_id = a.run_id
  left join pause_span p on p.run_id = a.run_id and p.node_id = a.node_id
  where least(a.until_round, b.until_round) - greatest(a.round, b.round) >= 40 * s.interval_rounds
    and p.run_id is null
), asked as (
  select distinct run_id, src as node_id, topic, reason, sent_round as round
  from ring_message
  where kind = 'GetConfiguration' and sent_round >= 0
), outcome as (
  select p.*, a.round as asked_round, a.topic = p.topic and a.reason = p.reason as is_first
  from paired p
  left join asked a on a.run_id = p.run_id and a.node_id = p.node_id and a.round > p.round and a.round < p.until_round
    and ((a.topic = p.topic and a.reason = p.reason) or (a.topic = p.other_topic and a.reason = p.other_reason))
), counted as (
  select run_id, node_id, topic, reason, other_topic, other_reason, round, until_round, asked_round,
    count(1) as n_asked
  from outcome
  group by run_id, node_id, topic, reason, other_topic, other_reason, round, until_round, asked_round
)
select run_id, round, node_id,
  concat('topics ', topic, ' and ', other_topic, ': its requests for reasons ', reason, ' and ', other_reason,
    ' agree in all rounds from ', round, ' to ', until_round) as detail
from counted
group by run_id, node_id, topic, reason, other_topic, other_reason, round, until_round
having min(case when asked_round is not null then n_asked else 2 end) > 1
