-- The recoveries in which the node has sent REJOIN, with the round of its first REJOIN.
select n.run_id, n.node_id, n.recovery_round, min(j.sent_round) as rejoin_round
from node_recovery n
join sent_message j on j.run_id = n.run_id and j.kind = 'REJOIN' and j.src = n.node_id and j.source = n.node_id
  and j.sent_round >= n.recovery_round and j.sent_round < coalesce(n.end_round, 9223372036854775807)
group by n.run_id, n.node_id, n.recovery_round
