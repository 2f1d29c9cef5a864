-- audit: a recovered node sends its new status to its synchronisation points
-- A recovering node sends STATUS to its synchronisation points in the round in which it sends REJOIN (rule R27). A
-- synchronisation point that has crashed and is DETACHED gets no STATUS, because the connection has ended (rule R24).
with met as (
  select distinct l.run_id, l.node_id, l.recovery_round, l.rejoin_round, m.dst as peer
  from rejoin l
  join sent_message m on m.run_id = l.run_id and m.src = l.node_id and m.kind = 'SYN_REQUEST'
    and m.sent_round >= l.recovery_round and m.sent_round <= l.rejoin_round
  join sent_message a on a.run_id = l.run_id and a.dst = l.node_id and a.src = m.dst and a.kind = 'STATUS'
    and a.fate = 'delivered' and a.due_round > m.sent_round and a.due_round <= l.rejoin_round
  left join sent_message d on d.run_id = l.run_id and d.dst = l.node_id and d.src = l.node_id and d.kind = 'DETECT'
    and d.due_round >= l.recovery_round and d.due_round <= l.rejoin_round
    and cast(get_json_object(d.body, '$.peer') as bigint) = m.dst
  left join detached e on e.run_id = l.run_id and e.node_id = l.node_id and e.peer = m.dst
    and e.round >= a.due_round and e.round <= l.rejoin_round
  where d.run_id is null and e.run_id is null
)
select m.run_id, m.rejoin_round as round, m.node_id,
  concat('does not tell node ', m.peer, ' that it is OPERATIONAL again') as detail
from met m
left join sent_message t on t.run_id = m.run_id and t.src = m.node_id and t.dst = m.peer and t.kind = 'STATUS'
  and t.sent_round >= m.recovery_round and t.sent_round <= m.rejoin_round
  and get_json_object(t.body, '$.status') = 'OPERATIONAL'
where t.run_id is null
