-- When did nodes crash or recover, and when was the run settled again?
-- One row per run and round in which any node crashed or recovered.
-- :round round of the crash or recovery
-- :settled_round end of the grace period (view grace) that starts in this round; null: another crash or recovery
--   happened before the end
with fault as (
  select distinct run_id, round from fault_event where kind in ('crash', 'recovery')
), followed as (
  select run_id, round, lead(round) over (partition by run_id order by round) as next_round from fault
)
select f.run_id, f.round,
  case when f.next_round is null or f.next_round > f.round + g.grace_rounds then f.round + g.grace_rounds end
    as settled_round
from followed f
join grace g on g.run_id = f.run_id
