-- audit, is_dated: a recovering repository does not answer C2R-Probe as operational
-- Sections 4.1 and 4.8, rules P22 and P27. A row is an R2C-Probe of a repository that has sent R2R-Assist since it
-- recovered. No R2R-Recovery has arrived since then, and T_assist has not passed.
with said as (
  select m.run_id, m.kind, m.src, m.dst, m.sent_round, m.due_round, m.fate,
    get_json_object(m.body, '$.topic') as topic, cast(get_json_object(m.body, '$.origin') as bigint) as origin,
    get_json_object(m.body, '$.is_operational') as is_operational
  from sent_message m
  where m.kind in ('R2C-Probe', 'R2R-Assist', 'R2R-Recovery')
), asked as (
  select l.run_id, l.node_id, l.crash_round, l.recovery_round, s.topic, min(s.sent_round) as round
  from node_recovery l
  join said s on s.run_id = l.run_id and s.origin = l.node_id and s.src = l.node_id and s.kind = 'R2R-Assist'
    and s.sent_round >= l.recovery_round
  left join node_recovery n on n.run_id = l.run_id and n.node_id = l.node_id and n.incarnation = l.incarnation + 1
  where n.crash_round is null or s.sent_round < n.crash_round
  group by l.run_id, l.node_id, l.crash_round, l.recovery_round, s.topic
), answered as (
  select a.run_id, a.node_id, a.recovery_round, a.topic, min(s.due_round) as round
  from asked a
  join said s on s.run_id = a.run_id and s.dst = a.node_id and s.topic = a.topic and s.kind = 'R2R-Recovery'
    and s.fate = 'delivered' and s.due_round >= a.recovery_round
  group by a.run_id, a.node_id, a.recovery_round, a.topic
)
select s.run_id, s.sent_round as round, s.src as node_id,
  concat('answers a probe as operational, and recovers since round ', a.recovery_round) as detail
from said s
join parameter r on r.run_id = s.run_id
join asked a on a.run_id = s.run_id and a.node_id = s.src and a.topic = s.topic and s.sent_round >= a.round
  and s.sent_round < a.recovery_round + r.protocol_assist_rounds
left join answered w on w.run_id = a.run_id and w.node_id = a.node_id and w.recovery_round = a.recovery_round
  and w.topic = a.topic and w.round <= s.sent_round
where s.kind = 'R2C-Probe' and s.src = s.origin and s.is_operational = 'true' and w.run_id is null
