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
  select run_id, sent_round as round, kind, 1 as sent, 0 as handled, 0 as lost, 0 as timer, 0 as delivered,
    0 as crashed, 0 as recovered
  from sent_message
  where src <> dst
  union all
  select run_id, due_round as round, case when src <> dst then kind end as kind, 0 as sent,
    case when src <> dst and fate in ('delivered', 'duplicate') then 1 else 0 end as handled,
    case when src <> dst and fate not in ('delivered', 'duplicate') then 1 else 0 end as lost,
    case when src = dst and fate = 'delivered' then 1 else 0 end as timer, 0 as delivered, 0 as crashed, 0 as recovered
  from message
  where fate <> 'in_flight'
  union all
  select run_id, round, cast(null as string) as kind, 0 as sent, 0 as handled, 0 as lost, 0 as timer, 1 as delivered,
    0 as crashed, 0 as recovered
  from delivery
  union all
  select run_id, round, cast(null as string) as kind, 0 as sent, 0 as handled, 0 as lost, 0 as timer, 0 as delivered,
    case when kind = 'crash' then 1 else 0 end as crashed, case when kind = 'recovery' then 1 else 0 end as recovered
  from fault_event
), counted as (
  select run_id, round, kind, sum(sent) as n_sent, sum(handled) as n_handled, sum(lost) as n_lost,
    sum(timer) as n_timers, sum(delivered) as n_deliveries, sum(crashed) as n_crashes, sum(recovered) as n_recoveries
  from event
  group by run_id, round, kind
), summed as (
  select run_id, round, sum(n_sent) as n_sent, sum(n_handled) as n_handled, sum(n_lost) as n_lost,
    sum(n_deliveries) as n_deliveries,
    array_join(array_sort(collect_list(case when n_sent > 0 then concat(kind, ' ', n_sent) end)), ', ') as sent_kinds,
    array_join(array_sort(collect_list(case when n_handled > 0 then concat(kind, ' ', n_handled) end)), ', ')
      as handled_kinds,
    sum(n_timers) as n_timers, sum(n_crashes) as n_crashes, sum(n_recoveries) as n_recoveries
  from counted
  group by run_id, round
)
select s.run_id, s.round, s.n_sent, s.n_handled, s.n_lost, s.n_deliveries, s.sent_kinds, s.handled_kinds, s.n_timers,
  s.n_crashes, s.n_recoveries, coalesce(o.n_not_operational, 0) as n_not_operational
from summed s
left join outage o on o.run_id = s.run_id
  and s.round >= o.first_round and (o.end_round is null or s.round < o.end_round)
where s.n_sent + s.n_handled + s.n_lost + s.n_deliveries + s.n_timers + s.n_crashes + s.n_recoveries > 0
