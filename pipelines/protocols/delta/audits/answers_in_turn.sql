-- audit: a RECOVERING node answers SYN_REQUEST after its own synchronisation points on other sides have answered
-- A RECOVERING node S answers a recovering node R only after the synchronisation points of S have answered S (rule
-- R28). S does not wait for points in the direction of R. A DETACHED node is not a synchronisation point (rule R24).
with life as (
  select run_id, node_id, recovery_round, end_round from node_recovery where recovery_round is not null
), given as (
  select m.run_id, m.src as node_id, m.dst as peer, m.sent_round, l.recovery_round
  from sent_message m
  join life l on l.run_id = m.run_id and l.node_id = m.src and l.recovery_round <= m.sent_round
    and m.sent_round < coalesce(l.end_round, 9223372036854775807)
  join link k on k.run_id = m.run_id and k.src = m.src and k.dst = m.dst
  left join sent_message j on j.run_id = m.run_id and j.kind = 'REJOIN' and j.src = m.src and j.source = m.src
    and j.sent_round >= l.recovery_round and j.sent_round <= m.sent_round
  where m.kind = 'PAR_SUB' and get_json_object(m.body, '$.source_seq') is null and j.run_id is null
), open as (
  select distinct g.run_id, g.node_id, g.peer, g.sent_round, q.dst as other
  from given g
  join sent_message q on q.run_id = g.run_id and q.src = g.node_id and q.kind = 'SYN_REQUEST' and q.dst <> g.peer
    and q.sent_round >= g.recovery_round and q.sent_round < g.sent_round
  join link k on k.run_id = g.run_id and k.src = g.node_id and k.dst = q.dst
  left join sent_message a on a.run_id = g.run_id and a.src = q.dst and a.dst = g.node_id and a.kind = 'PAR_SUB'
    and a.fate = 'delivered' and a.due_round >= q.sent_round and a.due_round <= g.sent_round
  left join sent_message d on d.run_id = g.run_id and d.src = g.node_id and d.dst = g.node_id and d.kind = 'DETECT'
    and d.due_round >= g.recovery_round and d.due_round <= g.sent_round
    and cast(get_json_object(d.body, '$.peer') as bigint) = q.dst
  left join detached e on e.run_id = g.run_id and e.node_id = g.node_id and e.peer = q.dst
    and e.round >= q.sent_round and e.round <= g.sent_round
  where a.run_id is null and d.run_id is null and e.run_id is null
)
select run_id, sent_round as round, node_id,
  concat('recovers, and answers node ', peer, ' before node ', min(other), ' has answered it') as detail
from open
group by run_id, sent_round, node_id, peer
