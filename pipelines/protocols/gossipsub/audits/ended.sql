-- A row is a run, with the last round in which a message was sent or handled. Messages in flight at the end of the run,
-- and lost messages, may be due later.
select run_id, max(case when fate in ('delivered', 'duplicate') then due_round else sent_round end) as round
from sent_message
group by run_id
