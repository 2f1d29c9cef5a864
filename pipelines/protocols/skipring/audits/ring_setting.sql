-- A row is a run, with the settings that audits read and the last round with an event.
select r.run_id, f.last_round, f.fault_round,
  r.protocol_timeout_interval as interval_rounds,
  r.protocol_silence_intervals as silence_intervals,
  r.protocol_min_delay as min_delay,
  r.protocol_max_delay as max_delay
from parameter r
join fault_end f on f.run_id = r.run_id
