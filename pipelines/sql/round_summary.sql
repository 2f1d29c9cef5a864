-- What happened in each round of a run: messages sent, handled and lost, by kind, and deliveries?
-- One row per run and round in which any of it happened; the kinds are texts such as "CONF 3, PUB 2".
with event as (
  select run_id, sent_round as round, kind, 1 as sent, 0 as handled, 0 as lost, 0 as delivered
  from sent_message
  union all
  select run_id, due_round as round, kind, 0 as sent,
    case when fate in ('delivered', 'duplicate') then 1 else 0 end as handled,
    case when fate in ('delivered', 'duplicate') then 0 else 1 end as lost, 0 as delivered
  from message
  where fate <> 'in_flight'
  union all
  select run_id, round, cast(null as string) as kind, 0 as sent, 0 as handled, 0 as lost, 1 as delivered
  from delivery
), counted as (
  select run_id, round, kind, sum(sent) as n_sent, sum(handled) as n_handled, sum(lost) as n_lost,
    sum(delivered) as n_deliveries
  from event
  group by run_id, round, kind
)
select run_id, round, sum(n_sent) as n_sent, sum(n_handled) as n_handled, sum(n_lost) as n_lost,
  sum(n_deliveries) as n_deliveries,
  array_join(array_sort(collect_list(case when n_sent > 0 then concat(kind, ' ', n_sent) end)), ', ') as sent_kinds,
  array_join(array_sort(collect_list(case when n_handled > 0 then concat(kind, ' ', n_handled) end)), ', ')
    as handled_kinds
from counted
group by run_id, round
