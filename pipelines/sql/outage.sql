-- How many nodes were not OPERATIONAL at the same time, and when?
-- One row per run and span: consecutive rounds in which the number of nodes that are not OPERATIONAL is constant, from
-- the first crash on. A node counts from the round of its crash to the round in which it becomes OPERATIONAL. This
-- round counts, too, because the status changes after the node has handled the messages of the round.
-- :first_round first round of the span
-- :end_round first round after the span; null: the span lasts to the end of the run
-- :n_not_operational nodes that were not OPERATIONAL in the span
with change as (
  select run_id, crash_round as round, 1 as n
  from node_recovery
  union all
  select run_id, end_round + case when operational_round is null then 0 else 1 end as round, -1 as n
  from node_recovery
  where end_round is not null
), changed as (
  select run_id, round, sum(n) as n
  from change
  group by run_id, round
)
select run_id, round as first_round, lead(round) over (partition by run_id order by round) as end_round,
  sum(n) over (partition by run_id order by round rows between unbounded preceding and current row) as n_not_operational
from changed
