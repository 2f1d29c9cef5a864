-- The times in which a broker that has recovered has no parent: up to its next acceptance or crash (null: to the end).
select n.run_id, n.node_id, n.recovery_round as from_round, least(min(p.due_round), min(c.crash_round)) as end_round
from node_recovery n
left join sent_message p on p.run_id = n.run_id and p.dst = n.node_id and p.kind = 'ParentResponse'
  and p.fate = 'delivered' and p.due_round >= n.recovery_round and get_json_object(p.body, '$.answer') = 'accepted'
left join node_recovery c on c.run_id = n.run_id and c.node_id = n.node_id and c.crash_round > n.recovery_round
where n.recovery_round is not null
group by n.run_id, n.node_id, n.recovery_round
