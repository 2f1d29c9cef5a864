-- Until which round do link faults and pauses disturb each run?
-- One row per run (protocol skipring).
-- :last_round round of the last message that was sent or handled, 0 if the run has none
-- :fault_round last round in which a link fault or a pause has an effect, 0 if the run has none. The effect of a pause,
--   break or partition lasts to its end, or to last_round if it does not end. Other link faults have an effect up to
--   the last message that a link loses, or delays by more than setting max_delay
with ended as (
  select run_id, max(case when fate in ('delivered', 'duplicate') then due_round else sent_round end) as last_round
  from sent_message
  group by run_id
), struck as (
  select m.run_id, max(m.due_round) as round
  from sent_message m
  join run r on r.run_id = m.run_id and r.protocol = 'skipring'
  where m.src <> m.dst and (m.fate = 'lost_link' or m.due_round - m.sent_round
    > cast(from_json(r.parameters, 'map<string,string>')['protocol.max_delay'] as bigint))
  group by m.run_id
), cut as (
  select run_id, max(round) as round, sum(case when endswith(kind, '_end') then -1 else 1 end) as n_open
  from fault_event
  where kind in ('break', 'break_end', 'partition', 'partition_end', 'pause', 'pause_end')
  group by run_id
)
select r.run_id, coalesce(e.last_round, 0) as last_round,
  least(
    coalesce(e.last_round, 0),
    greatest(coalesce(s.round, 0), coalesce(case when c.n_open > 0 then e.last_round else c.round end, 0))
  ) as fault_round
from run r
left join ended e on e.run_id = r.run_id
left join struck s on s.run_id = r.run_id
left join cut c on c.run_id = r.run_id
where r.protocol = 'skipring'
