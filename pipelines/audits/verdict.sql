-- For each run: whether it is in busy_run, and the last round with an event. A message in flight is an event of the
-- round in which it was sent. The beginning and the end of a link fault are not events.
with happened as (
  select run_id, max(case when fate = 'in_flight' then sent_round else due_round end) as last_round
  from message group by run_id
  union all
  select run_id, max(round) as last_round from delivery group by run_id
  union all
  select run_id, max(greatest(issued_round, confirmed_round)) as last_round from publication group by run_id
  union all
  select run_id, max(greatest(issued_round, confirmed_round, unsubscribed_round, ended_round)) as last_round
  from subscription group by run_id
  union all
  select run_id, max(round) as last_round from node_status group by run_id
  union all
  select run_id, max(round) as last_round from fault_event where node_id is not null group by run_id
), last as (
  select run_id, max(last_round) as last_round from happened group by run_id
)
select r.run_id, b.run_id is not null as is_busy, cast(coalesce(l.last_round, 0) as bigint) as rounds
from run r
left join busy_run b on b.run_id = r.run_id
left join last l on l.run_id = r.run_id
order by r.run_id
