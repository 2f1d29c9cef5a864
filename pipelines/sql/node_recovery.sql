-- When did each node crash and recover, and how many rounds did that take?
-- One row per crash. A node whose status says RECOVERING in the round in which it recovers is there again when its
-- status says OPERATIONAL, or VALID_JOINED where its join starts again; any other at once. end_round is that round, or
-- the one in which it crashes again before that; null: neither happened. down_rounds and recovering_rounds are null where
-- they did not come to an end.
with fault as (
  select run_id, node_id, kind, round as crash_round,
    lead(round, 1) over (partition by run_id, node_id order by round) as recovery_round,
    lead(round, 2) over (partition by run_id, node_id order by round) as next_round
  from fault_event
  where kind in ('crash', 'recovery')
), crash as (
  select *, row_number() over (partition by run_id, node_id order by crash_round) - 1 as incarnation
  from fault
  where kind = 'crash'
), returned as (
  select c.run_id, c.node_id, c.incarnation, c.crash_round, c.recovery_round, c.next_round,
    max(case when s.status = 'RECOVERING' and s.round = c.recovery_round then 1 else 0 end) as n_recovering,
    min(case when s.status in ('OPERATIONAL', 'VALID_JOINED') then s.round end) as told_round
  from crash c
  left join node_status s on s.run_id = c.run_id and s.node_id = c.node_id
    and s.round >= c.recovery_round and (c.next_round is null or s.round < c.next_round)
  group by c.run_id, c.node_id, c.incarnation, c.crash_round, c.recovery_round, c.next_round
), timed as (
  select *, case when n_recovering = 1 then told_round else recovery_round end as operational_round
  from returned
)
select t.run_id, t.node_id, n.name, t.incarnation, t.crash_round, t.recovery_round, t.operational_round,
  coalesce(t.operational_round, t.next_round) as end_round,
  t.recovery_round - t.crash_round as down_rounds, t.operational_round - t.recovery_round as recovering_rounds
from timed t
join node n on n.run_id = t.run_id and n.node_id = t.node_id
