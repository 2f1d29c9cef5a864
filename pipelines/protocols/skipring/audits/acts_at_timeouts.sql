-- audit, is_unconditional: in each interval a node takes the actions of Timeout
-- Sections 2.2, 3.2 and 4.2, rules K11 and K15. A node that has no label sends Subscribe. A node that has a label and
-- whose subscription has ended sends Unsubscribe. Any other node sends Introduce to left and right, and CheckTrie. A
-- row is a period in which a node omits one of these messages. The period is longer than an interval, and the state of
-- the node does not change in it.
with due as (
  select run_id, node_id, topic, round, until_round, 'Subscribe' as kind, cast(null as bigint) as dst
  from ring_state
  where wants and label is null
  union all
  select run_id, node_id, topic, round, until_round, 'Unsubscribe' as kind, cast(null as bigint) as dst
  from ring_state
  where not wants and label is not null
  union all
  select run_id, node_id, topic, round, until_round, 'CheckTrie' as kind, cast(null as bigint) as dst
  from ring_state
  where wants and label is not null and size(peers) > 0
  union all
  select run_id, node_id, topic, round, until_round, 'Introduce' as kind, `left`.node as dst
  from ring_state
  where wants and label is not null and `left` is not null
  union all
  select run_id, node_id, topic, round, until_round, 'Introduce' as kind, `right`.node as dst
  from ring_state
  where wants and label is not null and `right` is not null
), long as (
  select d.*, s.interval_rounds
  from due d
  join ring_setting s on s.run_id = d.run_id
  left join pause_span p on p.run_id = d.run_id and p.node_id = d.node_id and p.round <= d.until_round
    and coalesce(p.end_round, d.round) >= d.round
  where d.until_round - greatest(d.round, 0) > s.interval_rounds and p.run_id is null
), sent as (
  select distinct run_id, src as node_id, topic, kind, dst, sent_round as round
  from ring_message
  where sent_round >= 0 and (kind in ('Subscribe', 'Unsubscribe', 'CheckTrie')
    or (kind = 'Introduce' and named_node = src and flag = 'LIN'))
), moment as (
  select run_id, node_id, topic, kind, dst, round as begin_round, interval_rounds, greatest(round, 0) as round from long
  union
  select run_id, node_id, topic, kind, dst, round as begin_round, interval_rounds, until_round as round from long
  union
  select l.run_id, l.node_id, l.topic, l.kind, l.dst, l.round as begin_round, l.interval_rounds, t.round
  from long l
  join sent t on t.run_id = l.run_id and t.node_id = l.node_id and t.topic = l.topic and t.kind = l.kind
    and t.dst = coalesce(l.dst, t.dst) and t.round >= l.round and t.round < l.until_round
), spaced as (
  select *, lead(round) over (partition by run_id, node_id, topic, kind, dst, begin_round order by round) as next_round
  from moment
)
select run_id, round, node_id,
  concat('topic ', topic, ': it sends no ', kind, coalesce(concat(' to node ', dst), ''), ' in rounds ', round + 1,
    ' to ', next_round - 1) as detail
from spaced
where next_round - round > interval_rounds
