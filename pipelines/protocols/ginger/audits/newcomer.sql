-- The periods in which a broker that has recovered has no parent. A period ends when a broker accepts the recovered
-- broker as a child, or with its next crash; null: at the end of the run. The acceptance must answer a ParentRequest
-- that the broker has sent since its recovery (rule G28).
select n.run_id, n.node_id, n.recovery_round as from_round, least(min(p.due_round), min(c.crash_round)) as end_round
from node_recovery n
left join sent_message a on a.run_id = n.run_id and a.src = n.node_id and a.kind = 'ParentRequest'
  and a.fate = 'delivered' and a.sent_round >= n.recovery_round
left join sent_message p on p.run_id = a.run_id and p.src = a.dst and p.dst = a.src and p.kind = 'ParentResponse'
  and p.fate = 'delivered' and p.sent_round >= a.due_round and get_json_object(p.body, '$.answer') = 'accepted'
left join node_recovery c on c.run_id = n.run_id and c.node_id = n.node_id and c.crash_round > n.recovery_round
where n.recovery_round is not null
group by n.run_id, n.node_id, n.recovery_round
