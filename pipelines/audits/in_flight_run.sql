-- The runs with messages in flight at their last round, excluding maintenance messages (Protocol.maintenance).
select distinct m.run_id
from sent_message m
join run r on r.run_id = m.run_id
join protocol p on p.name = r.protocol
where m.fate = 'in_flight' and not array_contains(p.maintenance, m.kind)
