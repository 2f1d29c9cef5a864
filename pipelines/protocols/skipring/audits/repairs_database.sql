-- audit, is_unconditional: from the first Timeout on, a database has its n subscribers with the first n labels
-- Section 3.1, rules K7, K8 and K21. A row is a tuple that the supervisor should have repaired, or a tuple at a node
-- that is not the topic's supervisor. Label l(x) is bin(x) with the first digit moved to the end.
with judged as (
  select t.*, s.interval_rounds as first_round, v.supervisor,
    lpad(concat(right(t.label, 1), substr(t.label, 1, length(t.label) - 1)), 64, '0') as index_digits,
    t.label = '0' or endswith(t.label, '1') as is_label
  from tuple_span t
  join ring_setting s on s.run_id = t.run_id
  join topic_supervisor v on v.run_id = t.run_id and v.topic = t.topic
  left join pause_span p on p.run_id = t.run_id and p.node_id = t.node_id and p.round <= s.interval_rounds
  where t.until_round > s.interval_rounds and p.run_id is null
), held as (
  select * from judged where node_id = supervisor
), moment as (
  select run_id, topic, greatest(round, first_round) as round from held
  union
  select run_id, topic, until_round as round from held
), sized as (
  select m.run_id, m.topic, m.round, lpad(bin(count(1)), 64, '0') as n_digits, count(1) as n_tuples
  from moment m
  join held h on h.run_id = m.run_id and h.topic = m.topic and h.round <= m.round and h.until_round > m.round
  group by m.run_id, m.topic, m.round
), found as (
  select run_id, greatest(round, first_round) as round, node_id, topic, label,
    'it is not the supervisor of the topic' as what
  from judged
  where node_id <> supervisor
  union all
  select run_id, greatest(round, first_round) as round, node_id, topic, label, 'the tuple has no subscriber' as what
  from held
  where subscriber is null
  union all
  select h.run_id, greatest(h.round, h.first_round) as round, h.node_id, h.topic, h.label,
    concat('node ', h.subscriber, ' has label ', o.label, ', too') as what
  from held h
  join held o on o.run_id = h.run_id and o.topic = h.topic and o.subscriber = h.subscriber and o.label <> h.label
    and o.round < h.until_round and o.until_round > h.round
  where least(h.until_round, o.until_round) > greatest(h.first_round, h.round, o.round)
  union all
  select h.run_id, min(z.round) as round, h.node_id, h.topic, h.label,
    concat('it is none of the first ', min(z.n_tuples), ' labels') as what
  from held h
  join sized z on z.run_id = h.run_id and z.topic = h.topic and z.round >= h.round and z.round < h.until_round
  where not h.is_label or h.index_digits >= z.n_digits
  group by h.run_id, h.node_id, h.topic, h.label, h.round
  union all
  select t.run_id, greatest(t.round, r.round) as round, t.node_id, t.topic, t.label,
    concat('the crash of node ', t.subscriber, ' was reported in round ', r.round) as what
  from tuple_span t
  join topic_supervisor v on v.run_id = t.run_id and v.topic = t.topic and v.supervisor = t.node_id
  join crash_report r on r.run_id = t.run_id and r.node_id = t.node_id and r.peer_id = t.subscriber
  where t.until_round > r.round
)
select run_id, round, node_id, concat('topic ', topic, ', label ', label, ': ', what) as detail
from found
