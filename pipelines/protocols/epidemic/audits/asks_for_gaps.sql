-- audit, is_unconditional: a dispatcher requests an event only after a later event has revealed the loss
-- Rules E3, E8 and E9. A later event of the same source and pattern has arrived, and the event itself has not. If no
-- client subscribed before the first publication, an earlier event has arrived, too.
with asked as (
  select distinct run_id, initiator, event_source, pattern_id, number, sent_round
  from entry
  where style <> 'push' and src = initiator
), later as (
  select a.run_id, a.initiator, a.event_source, a.pattern_id, a.number, a.sent_round,
    max(case when c.number > a.number then 1 else 0 end) as has_later,
    max(case when c.number = a.number then 1 else 0 end) as has_come,
    max(case when c.number < a.number then 1 else 0 end) as has_earlier
  from asked a
  left join counted c on c.run_id = a.run_id and c.node_id = a.initiator and c.source = a.event_source
    and c.pattern_id = a.pattern_id and c.due_round <= a.sent_round
  group by a.run_id, a.initiator, a.event_source, a.pattern_id, a.number, a.sent_round
), initial as (
  select distinct run_id, node_id, pattern_id from state_pattern where is_initial
)
select a.run_id, min(a.sent_round) as round, a.initiator as node_id,
  concat('asks for event ', a.number, ' of node ', a.event_source, ' and pattern ', a.pattern_id, case
    when a.has_later = 0 then ', and no later one has arrived' when a.has_come = 1 then ', which has arrived'
    else ', and no earlier one has arrived' end) as detail
from later a
left join initial i on i.run_id = a.run_id and i.node_id = a.initiator and i.pattern_id = a.pattern_id
where a.has_later = 0 or a.has_come = 1 or (a.has_earlier = 0 and i.run_id is null)
group by a.run_id, a.initiator, a.event_source, a.pattern_id, a.number, a.has_later, a.has_come
