-- A row is a run, with the settings that audits read and the last round with an event.
select r.run_id, f.last_round, f.fault_round,
  cast(get_json_object(r.parameters, "$['protocol.timeout_interval']") as bigint) as interval_rounds,
  cast(get_json_object(r.parameters, "$['protocol.silence_intervals']") as bigint) as silence_intervals,
  cast(get_json_object(r.parameters, "$['protocol.min_delay']") as bigint) as min_delay,
  cast(get_json_object(r.parameters, "$['protocol.max_delay']") as bigint) as max_delay
from run r
join fault_end f on f.run_id = r.run_id
