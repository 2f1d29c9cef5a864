-- When did each node crash and recover, and how long did the recovery take?
-- One row per crash. A node that has status RECOVERING in the round of its recovery is operational when its status
-- becomes OPERATIONAL. If its join restarts, it is operational when its status becomes VALID_JOINED. Any other node is
-- operational in the round of its recovery.
-- :incarnation number of crashes of the node before this crash, from 0
-- :operational_round round from which the node is operational again; null: never, or not before its next crash
-- :end_round operational_round, or the round of the next crash if that is earlier; null: neither happened
-- :down_rounds rounds from the crash to the recovery; null: the node did not recover
-- :recovering_rounds rounds from the recovery to operational_round; null where operational_round is null
-- :down_ms down_rounds in ms
-- :recovering_ms recovering_rounds in ms
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
  t.recovery_round - t.crash_round as down_rounds, t.operational_round - t.recovery_round as recovering_rounds,
  (t.recovery_round - t.crash_round) * r.round_ms as down_ms,
  (t.operational_round - t.recovery_round) * r.round_ms as recovering_ms
from timed t
join run r on r.run_id = t.run_id
join node n on n.run_id = t.run_id and n.node_id = t.node_id
