-- The recoveries, publications, subscriptions and unsubscriptions whose deadline (limit_round) is not after the end of
-- the run. Runs with a fault that delays messages or pauses nodes have no rows.
with over as (
  select run_id, max(due_round) as last_round from message where fate <> 'in_flight' group by run_id
), late as (
  select distinct run_id from fault_event where kind in ('delay', 'reorder', 'pause')
), begun as (
  select run_id, node_id, cast(null as bigint) as source_seq, recovery_round as begin_round, end_round,
    'recovery' as what
  from node_recovery
  where recovery_round is not null
  union all
  select run_id, source as node_id, source_seq, issued_round as begin_round, confirmed_round as end_round,
    'publication' as what
  from publication
  union all
  select run_id, subscriber as node_id, cast(null as bigint) as source_seq, issued_round as begin_round,
    confirmed_round as end_round, 'subscription' as what
  from subscription
  union all
  select run_id, subscriber as node_id, cast(null as bigint) as source_seq, unsubscribed_round as begin_round,
    ended_round as end_round, 'unsubscription' as what
  from subscription
  where unsubscribed_round is not null
), limited as (
  select b.run_id, b.node_id, b.source_seq, b.begin_round, b.end_round, b.what,
    case when min(case when d.round <= b.begin_round + g.grace_rounds then d.round end) is null
      then b.begin_round + g.grace_rounds else min(d.settled_round) end as limit_round
  from begun b
  join grace g on g.run_id = b.run_id
  left join disturbance d on d.run_id = b.run_id and d.round > b.begin_round
  group by b.run_id, b.node_id, b.source_seq, b.begin_round, b.end_round, b.what, g.grace_rounds
)
select l.run_id, l.node_id, l.source_seq, l.begin_round, l.end_round, l.what, l.limit_round
from limited l
join over o on o.run_id = l.run_id and o.last_round >= l.limit_round
left join late a on a.run_id = l.run_id
where a.run_id is null
