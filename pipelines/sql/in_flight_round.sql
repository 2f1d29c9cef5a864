-- How many messages were in flight at the end of each round?
-- One row per run and round in which a message was sent or due; between two rows the number does not change. Timers
-- (from a node to itself) are not messages.
-- :round round in which a message was sent or due
-- :n_in_flight messages in flight at the end of the round
with change as (
  select run_id, sent_round as round, 1 as n
  from sent_message
  where src <> dst
  union all
  select run_id, due_round as round, -1 as n
  from sent_message
  where fate <> 'in_flight' and src <> dst
), changed as (
  select run_id, round, sum(n) as n
  from change
  group by run_id, round
)
select run_id, round,
  sum(n) over (partition by run_id order by round rows between unbounded preceding and current row) as n_in_flight
from changed
