-- How long after a crash does the last node forget the crashed node?
-- One row per run, crash and topic (protocol skipring). A crash has a row only if a node that stayed up referred to the
-- crashed node in its state of the topic.
-- :node_id node that crashed
-- :forgotten_round first round without a reference to the crashed node; null: n_left references remain
-- :forget_rounds rounds from the crash to forgotten_round
-- :forget_ms forget_rounds in ms
-- :n_left number of references that remain at the end
with crash as (
  select run_id, node_id as dead, round as crash_round from fault_event where kind = 'crash'
), met as (
  select c.run_id, c.dead, c.crash_round, h.topic, h.node_id, h.until_round
  from crash c
  join held_edge h on h.run_id = c.run_id and h.held_node_id = c.dead
  left join crash o on o.run_id = h.run_id and o.dead = h.node_id
  where coalesce(h.until_round, c.crash_round + 1) > c.crash_round and o.dead is null
)
select m.run_id, m.dead as node_id, n.name, m.topic, m.crash_round,
  case when count_if(m.until_round is null) = 0 then max(m.until_round) end as forgotten_round,
  case when count_if(m.until_round is null) = 0 then max(m.until_round) - m.crash_round end as forget_rounds,
  case when count_if(m.until_round is null) = 0 then (max(m.until_round) - m.crash_round) * r.round_ms end as forget_ms,
  count(distinct case when m.until_round is null then m.node_id end) as n_left
from met m
join run r on r.run_id = m.run_id
join node n on n.run_id = m.run_id and n.node_id = m.dead
group by m.run_id, m.dead, n.name, m.topic, m.crash_round, r.round_ms
