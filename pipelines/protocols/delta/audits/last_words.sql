-- audit: a failure detector reports a crash after the node's last messages
-- A failure detector reports a crash after the detection delay, and after the last messages of the node (rules R9 and
-- R21). PAR_TOP and PAR_SUB have an additional delay in proportion to their size (R10).
with report as (
  select run_id, dst as node_id, cast(get_json_object(body, '$.peer') as bigint) as peer,
    cast(get_json_object(body, '$.incarnation') as bigint) as incarnation, due_round
  from sent_message
  where kind = 'DETECT' and src = dst
), life as (
  select run_id, node_id, incarnation, crash_round,
    coalesce(lag(recovery_round) over (partition by run_id, node_id order by incarnation), -1) as first_round
  from node_recovery
)
select r.run_id, r.due_round as round, r.node_id,
  concat('is told that node ', r.peer, ' crashed in round ', l.crash_round, ', before ', max(m.kind),
    ' from there comes') as detail
from report r
join life l on l.run_id = r.run_id and l.node_id = r.peer and l.incarnation = r.incarnation
join sent_message m on m.run_id = r.run_id and m.src = r.peer and m.dst = r.node_id
  and m.sent_round >= l.first_round and m.sent_round < l.crash_round and m.due_round > r.due_round
where m.kind not in ('PAR_TOP', 'PAR_SUB')
group by r.run_id, r.due_round, r.node_id, r.peer, l.crash_round
union all
select r.run_id, r.due_round as round, r.node_id,
  concat('is told that node ', r.peer, ' crashed in round ', l.crash_round, ', before its detection delay is over')
    as detail
from report r
join life l on l.run_id = r.run_id and l.node_id = r.peer and l.incarnation = r.incarnation
join parameter p on p.run_id = r.run_id
where r.due_round < l.crash_round + p.protocol_detection_rounds
