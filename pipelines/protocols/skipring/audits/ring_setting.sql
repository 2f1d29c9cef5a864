-- A row is a run, with the settings that audits read and the last round with an event.
with ended as (
  select run_id, max(case when fate in ('delivered', 'duplicate') then due_round else sent_round end) as last_round
  from sent_message
  group by run_id
)
select r.run_id, coalesce(e.last_round, 0) as last_round, f.fault_round,
  cast(get_json_object(r.parameters, "$['protocol.timeout_interval']") as bigint) as interval_rounds,
  cast(get_json_object(r.parameters, "$['protocol.silence_intervals']") as bigint) as silence_intervals,
  cast(get_json_object(r.parameters, "$['protocol.min_delay']") as bigint) as min_delay,
  cast(get_json_object(r.parameters, "$['protocol.max_delay']") as bigint) as max_delay
from run r
join fault_end f on f.run_id = r.run_id
left join ended e on e.run_id = r.run_id
