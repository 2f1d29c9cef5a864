-- audit, is_dated: a recovery ends T_assist after its last progress, if no heard member has a missing message
-- Section 4.8, rule P35. A repository requests missing messages from heard members every T_f. A row is a period of a
-- recovery without progress: for more than T_assist + 2 T_f the repository sends no request and receives no new message
-- or order. An R2R-Recovery has answered the R2R-Assist of each topic before this period. The audit does not check
-- recoveries during which the repository pauses. The recovery of a removed repository ends when the repository learns
-- of its removal and gets status LEFT (rule P36).
with departure as (
  select run_id, node_id, max(round) as left_round from node_status where status = 'LEFT' group by run_id, node_id
), life as (
  select n.run_id, n.node_id, n.recovery_round,
    least(coalesce(n.end_round, s.last_round), coalesce(d.left_round, s.last_round), s.last_round) as end_round,
    r.protocol_assist_rounds
      + 2 * r.protocol_fetch_rounds as most_rounds
  from node_recovery n
  join node o on o.run_id = n.run_id and o.node_id = n.node_id and o.role = 'repository'
  join settled_run s on s.run_id = n.run_id
  join parameter r on r.run_id = n.run_id
  left join departure d on d.run_id = n.run_id and d.node_id = n.node_id and d.left_round >= n.recovery_round
  left join fault_event f on f.run_id = n.run_id and f.node_id = n.node_id and f.kind = 'pause'
    and f.round between n.recovery_round and coalesce(n.end_round, s.last_round)
  where n.recovery_round is not null and f.run_id is null
), said as (
  select l.run_id, l.node_id, l.recovery_round, m.kind, get_json_object(m.body, '$.topic') as topic,
    cast(m.sent_round + 0 as bigint) as round
  from life l
  join sent_message m on m.run_id = l.run_id and m.src = l.node_id and m.kind in ('R2R-Assist', 'R2R-NAK')
    and m.sent_round between l.recovery_round and l.end_round
  union all
  select l.run_id, l.node_id, l.recovery_round, m.kind, get_json_object(m.body, '$.topic') as topic,
    cast(m.due_round + 0 as bigint) as round
  from life l
  join sent_message m on m.run_id = l.run_id and m.dst = l.node_id and m.fate = 'delivered'
    and m.kind in ('R2R-Recovery', 'R2R-Retransmit')
    and m.due_round between l.recovery_round and l.end_round
  union all
  select l.run_id, l.node_id, l.recovery_round, m.kind, min(get_json_object(m.body, '$.topic')) as topic,
    min(m.due_round) as round
  from life l
  join sent_message m on m.run_id = l.run_id and m.dst = l.node_id and m.fate = 'delivered'
    and m.kind in ('Message', 'P2R-Order', 'P2R-Retransmit')
    and m.due_round between l.recovery_round and l.end_round
  group by l.run_id, l.node_id, l.recovery_round, m.kind, m.source, m.source_seq
), topic as (
  select run_id, node_id, recovery_round, topic, count_if(kind = 'R2R-Assist') as n_asked,
    min(case when kind = 'R2R-Recovery' then round end) as answered_round
  from said
  group by run_id, node_id, recovery_round, topic
), answered as (
  select run_id, node_id, recovery_round, max(answered_round) as round
  from topic
  where n_asked > 0
  group by run_id, node_id, recovery_round
  having count_if(answered_round is null) = 0
), event as (
  select distinct s.run_id, s.node_id, s.recovery_round, s.round
  from said s
  join answered a on a.run_id = s.run_id and a.node_id = s.node_id and a.recovery_round = s.recovery_round
    and s.round >= a.round
  where s.kind not in ('R2R-Assist', 'R2R-Recovery')
  union all
  select run_id, node_id, recovery_round, round from answered
), waited as (
  select e.run_id, e.node_id, e.recovery_round, e.round, l.most_rounds, coalesce(
    lead(e.round) over (partition by e.run_id, e.node_id, e.recovery_round order by e.round), l.end_round) as next_round
  from event e
  join life l on l.run_id = e.run_id and l.node_id = e.node_id and l.recovery_round = e.recovery_round
)
select run_id, round + most_rounds as round, node_id,
  concat('recovers since round ', recovery_round, ', without progress and requests since round ', round) as detail
from waited
where next_round - round > most_rounds
