-- In which long periods of a run did neither a fault nor a change of a bundle occur?
-- One row per run and period of at least needed_rounds rounds, see view settled_run (protocol repository). In this
-- period no fault, recovery or change of a bundle occurred, and no link fault was active. Each broker and each
-- repository was up, or had crashed permanently.
-- :from_round first round of the period: the round of the last fault, recovery or change of a bundle, or 0
-- :to_round end of the period: the round of the next fault, recovery or change of a bundle, or the last round of the
--   run
with outage as (
  select r.run_id, r.crash_round, r.recovery_round
  from node_recovery r
  join node n on n.run_id = r.run_id and n.node_id = r.node_id and n.role <> 'client'
  where r.recovery_round is not null
), moment as (
  select run_id, cast(0 as bigint) as round, 0 as n_more from run
  union all
  select run_id, round, case when kind in ('crash', 'recovery', 'link', 'unlink') then 0
    when endswith(kind, '_end') then -1 else 1 end as n_more
  from fault_event
  union all
  select run_id, crash_round as round, 1 as n_more from outage
  union all
  select run_id, recovery_round as round, -1 as n_more from outage
  union all
  select run_id, round, 0 as n_more from issued_call where kind in ('join', 'leave', 'remove')
), counted as (
  select run_id, round, sum(n_more) as n_more from moment group by run_id, round
), period as (
  select c.run_id, c.round as from_round, s.needed_rounds,
    coalesce(lead(c.round) over (partition by c.run_id order by c.round), s.last_round) as to_round,
    sum(c.n_more) over (partition by c.run_id order by c.round rows between unbounded preceding and current row) as n_open
  from counted c
  join settled_run s on s.run_id = c.run_id
)
select run_id, from_round, to_round
from period
where n_open = 0 and from_round + needed_rounds <= to_round
