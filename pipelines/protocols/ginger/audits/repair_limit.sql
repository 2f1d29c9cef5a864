-- The duration of a repair (rule G14). most_rounds: rounds after a failure in which the repair must end.
select r.run_id, r.protocol_detection_rounds + r.protocol_max_hops * s.latency_rounds
  + 4 * (2 * r.protocol_max_hops * s.latency_rounds + 3 * r.protocol_timer_rounds) as most_rounds
from parameter r
join (select run_id, max(latency_rounds) as latency_rounds from link group by run_id) s on s.run_id = r.run_id
