-- The quiescent runs: no message except maintenance was in flight at their end.
select r.run_id
from run r
left join in_flight_run f on f.run_id = r.run_id
where f.run_id is null
