-- audit, is_unconditional: a subscriber with a silent ring neighbour requests its configuration
-- Rule K6: when a neighbour has been silent for silence_intervals, the subscriber requests its configuration with
-- probability 1/2 at each Timeout. A row is a period of 24 further Timeouts without a request. In this period the
-- subscriber gets neither a message that names the neighbour nor a configuration that omits it.
with spell as (
  select h.run_id, h.node_id, h.topic, h.held_node_id as peer_id, h.round,
    least(coalesce(h.until_round, s.last_round + 1), coalesce(min(f.round), s.last_round + 1)) as until_round,
    (s.silence_intervals + 26) * s.interval_rounds as patience_rounds
  from held_edge h
  join ring_setting s on s.run_id = h.run_id
  left join fault_event f on f.run_id = h.run_id and f.node_id = h.node_id and f.kind = 'crash'
  where h.side <> 'shortcut'
  group by h.run_id, h.node_id, h.topic, h.side, h.held_node_id, h.believed_label, h.round, h.until_round, s.last_round,
    s.silence_intervals, s.interval_rounds
), long as (
  select * from spell where until_round - round > patience_rounds
), cut as (
  select run_id, dst as node_id, topic, named_node as peer_id, due_round as round, before_node, after_node
  from ring_message
  where kind in ('Introduce', 'Remove') and is_handled
  union all
  select run_id, dst as node_id, topic, cast(null as bigint) as peer_id, due_round as round, before_node, after_node
  from ring_message
  where kind = 'SetData' and is_handled
  union all
  select run_id, src as node_id, topic, cast(null as bigint) as peer_id, sent_round as round, before_node, after_node
  from ring_message
  where kind = 'GetConfiguration' and reason = 'silence' and sent_round >= 0
), moment as (
  select run_id, node_id, topic, peer_id, round as begin_round, patience_rounds, round from long
  union all
  select run_id, node_id, topic, peer_id, round as begin_round, patience_rounds, until_round as round from long
  union all
  select l.run_id, l.node_id, l.topic, l.peer_id, l.round as begin_round, l.patience_rounds, c.round
  from long l
  join cut c on c.run_id = l.run_id and c.node_id = l.node_id and c.topic = l.topic
    and coalesce(c.peer_id, l.peer_id) = l.peer_id and c.round > l.round and c.round < l.until_round
    and not l.peer_id <=> c.before_node and not l.peer_id <=> c.after_node
), quiet as (
  select *, lead(round) over (partition by run_id, node_id, topic, peer_id, begin_round order by round) as next_round
  from moment
)
select distinct q.run_id, q.round, q.node_id,
  concat('topic ', q.topic, ': ', n.name, ' is silent in rounds ', q.round, ' to ', q.next_round,
    ', and it does not request its configuration') as detail
from quiet q
join node n on n.run_id = q.run_id and n.node_id = q.peer_id
left join pause_span p on p.run_id = q.run_id and p.node_id = q.node_id and p.round <= q.next_round
  and coalesce(p.end_round, q.next_round) >= q.round
left join ring_state s on s.run_id = q.run_id and s.node_id = q.node_id and s.topic = q.topic and s.round < q.next_round
  and s.until_round > q.round and (s.label is null or not s.wants)
where q.next_round - q.round > q.patience_rounds and p.run_id is null and s.run_id is null
