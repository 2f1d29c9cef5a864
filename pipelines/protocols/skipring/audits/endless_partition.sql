-- A row is a run with a partition that lasts to the end of the run, with the first message that the partition loses
-- (rule K19). Self-stabilization begins after the last fault, because channels of the paper lose no messages (1.1).
with part as (
  select run_id, max(case when kind = 'partition' then round end) as round, count_if(kind = 'partition') as n_begun,
    count_if(kind = 'partition_end') as n_ended
  from fault_event
  group by run_id
)
select p.run_id, min(m.sent_round) as round, concat('the partition of round ', p.round,
  ' lasts to the end of the run, and topics become legitimate only after it') as reason
from part p
join sent_message m on m.run_id = p.run_id and m.fate = 'lost_link' and m.sent_round >= p.round
where p.n_begun > p.n_ended
group by p.run_id, p.round
