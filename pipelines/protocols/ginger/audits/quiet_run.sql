-- The quiescent runs: at their end no message except maintenance was in flight, and no timer was pending.
select r.run_id
from run r
left join in_flight_run f on f.run_id = r.run_id
left join (select distinct run_id from state_timer) t on t.run_id = r.run_id
where f.run_id is null and t.run_id is null
