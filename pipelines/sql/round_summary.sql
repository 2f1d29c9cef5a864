-- How many messages, deliveries, crashes and recoveries happened in each round of a run?
-- One row per run and round in which at least one of these events happened. Timers (from a node to itself) are not
-- messages.
-- :* outage
-- :round the round
-- :n_sent messages that were sent in the round
-- :n_handled messages that were handled in the round, including duplicates
-- :n_lost messages due in the round that were lost
-- :sent_kinds types of the sent messages with their numbers, for example "CONF 3, PUB 2"
-- :handled_kinds types of the handled messages with their numbers
-- :n_timers timers that expired
-- :n_recoveries recoveries of nodes
with event as (
  select run_id, sent_round as round, kind, 'sent' as what from sent_message where src <> dst
  union all
  select run_id, due_round as round, kind,
    case when fate in ('delivered', 'duplicate') then 'handled' else 'lost' end as what
  from message
  where fate <> 'in_flight' and src <> dst
  union all
  select run_id, due_round as round, cast(null as string) as kind, 'timer' as what
  from message
  where fate = 'delivered' and src = dst
  union all
  select run_id, round, cast(null as string) as kind, 'delivery' as what from delivery
  union all
  select run_id, round, cast(null as string) as kind, kind as what from fault_event where kind in ('crash', 'recovery')
), counted as (
  select run_id, round, kind, what, count(1) as n
  from event
  group by run_id, round, kind, what
), summed as (
  select run_id, round, sum(case when what = 'sent' then n else 0 end) as n_sent,
    sum(case when what = 'handled' then n else 0 end) as n_handled,
    sum(case when what = 'lost' then n else 0 end) as n_lost,
    sum(case when what = 'delivery' then n else 0 end) as n_deliveries,
    array_join(array_sort(collect_list(case when what = 'sent' then concat(kind, ' ', n) end)), ', ') as sent_kinds,
    array_join(array_sort(collect_list(case when what = 'handled' then concat(kind, ' ', n) end)), ', ')
      as handled_kinds,
    sum(case when what = 'timer' then n else 0 end) as n_timers,
    sum(case when what = 'crash' then n else 0 end) as n_crashes,
    sum(case when what = 'recovery' then n else 0 end) as n_recoveries
  from counted
  group by run_id, round
)
select s.run_id, s.round, s.n_sent, s.n_handled, s.n_lost, s.n_deliveries, s.sent_kinds, s.handled_kinds, s.n_timers,
  s.n_crashes, s.n_recoveries, coalesce(o.n_not_operational, 0) as n_not_operational
from summed s
left join outage o on o.run_id = s.run_id
  and s.round >= o.first_round and (o.end_round is null or s.round < o.end_round)
