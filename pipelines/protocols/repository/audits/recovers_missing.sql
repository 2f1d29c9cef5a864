-- audit, is_dated: a repository is OPERATIONAL only after all answers and all messages of its assistants have arrived
-- Section 4.8, rule P21. There are two types of rows:
-- * a message that the prefix of an R2R-Recovery includes, and that the repository requested by R2R-NAK. It has not
--   arrived when the repository becomes OPERATIONAL;
-- * a member to which the repository sent R2R-Assist, and whose answer has not arrived when the repository becomes
--   OPERATIONAL. Members that have left or were removed need not answer.
-- If several R2R-Recovery of a member arrive in the round in which the repository becomes OPERATIONAL, only the least of
-- their prefixes counts, because the first of them may end the recovery.
-- The audit checks recoveries of less than T_assist rounds; longer ones may end with the messages on the repository's
-- own disk (rules P22, P35). It ignores messages of publishers that have recovered since the repository crashed: their
-- earlier incarnations are closed, and the missing numbers of these incarnations are void (rule P2).
with life as (
  select n.run_id, n.node_id, n.crash_round, n.recovery_round, n.operational_round
  from node_recovery n
  join node o on o.run_id = n.run_id and o.node_id = n.node_id and o.role = 'repository'
  join parameter r on r.run_id = n.run_id
  where n.operational_round is not null and n.operational_round - n.recovery_round
    < r.protocol_assist_rounds
), said as (
  select l.run_id, l.node_id, l.recovery_round, l.operational_round, m.kind, m.src, m.source, m.due_round, m.body,
    get_json_object(m.body, '$.topic') as topic, get_json_object(m.body, '$.origin') as origin
  from life l
  join sent_message m on m.run_id = l.run_id and m.dst = l.node_id and m.fate = 'delivered'
    and m.due_round between l.recovery_round and l.operational_round
  where m.kind in ('R2R-Recovery', 'R2R-Assist', 'R2R-Retransmit', 'P2R-Order', 'P2R-Retransmit')
), told as (
  select run_id, node_id, recovery_round, operational_round, topic, origin, due_round,
    explode(from_json(get_json_object(body, '$.prefixes'),
      'array<struct<publisher:bigint,incarnation:bigint,n:bigint>>')) as one
  from said
  where kind = 'R2R-Recovery'
), prefix as (
  select run_id, node_id, recovery_round, topic, one.publisher as publisher, one.incarnation as incarnation,
    case when due_round < operational_round then max(one.n) else min(one.n) end as n
  from told
  group by run_id, node_id, recovery_round, operational_round, topic, origin, due_round, one.publisher, one.incarnation
), copied as (
  select run_id, node_id, recovery_round, topic, explode(from_json(get_json_object(body, '$.copies'),
    'array<struct<incarnation:bigint,n:bigint,publication:struct<source:bigint>>>')) as one
  from said
  where kind = 'R2R-Retransmit'
), arrived as (
  select run_id, node_id, recovery_round, topic, one.publication.source as publisher, one.incarnation as incarnation,
    one.n as n
  from copied
  union all
  select run_id, node_id, recovery_round, topic, source as publisher,
    cast(get_json_object(body, '$.incarnation') as bigint) as incarnation,
    cast(get_json_object(body, '$.n') as bigint) as n
  from said
  where kind in ('P2R-Order', 'P2R-Retransmit')
), requested as (
  select l.run_id, l.node_id, l.crash_round, l.recovery_round, l.operational_round,
    get_json_object(m.body, '$.topic') as topic, explode(from_json(get_json_object(m.body, '$.keys'),
      'array<struct<publisher:bigint,incarnation:bigint,n:bigint>>')) as one
  from life l
  join sent_message m on m.run_id = l.run_id and m.src = l.node_id and m.kind = 'R2R-NAK'
    and m.sent_round between l.recovery_round and l.operational_round
), asked as (
  select distinct l.run_id, l.node_id, l.recovery_round, l.operational_round,
    get_json_object(m.body, '$.topic') as topic, explode(from_json(get_json_object(m.body, '$.to'), 'array<bigint>'))
      as peer
  from life l
  join sent_message m on m.run_id = l.run_id and m.src = l.node_id and m.kind = 'R2R-Assist'
    and m.sent_round between l.recovery_round and l.operational_round
  where cast(get_json_object(m.body, '$.origin') as bigint) = l.node_id
), answered as (
  select run_id, node_id, recovery_round, topic, cast(origin as bigint) as peer
  from said
  where kind in ('R2R-Recovery', 'R2R-Assist')
)
select distinct q.run_id, q.operational_round as round, q.node_id, q.one.publisher as source,
  concat('is OPERATIONAL without number ', q.one.n, ' of its publisher, which it has requested') as detail
from requested q
join prefix p on p.run_id = q.run_id and p.node_id = q.node_id and p.recovery_round = q.recovery_round
  and p.topic = q.topic and p.publisher = q.one.publisher and p.incarnation = q.one.incarnation and p.n >= q.one.n
left join arrived a on a.run_id = q.run_id and a.node_id = q.node_id and a.recovery_round = q.recovery_round
  and a.topic = q.topic and a.publisher = q.one.publisher and a.incarnation = q.one.incarnation and a.n = q.one.n
left join node_recovery c on c.run_id = q.run_id and c.node_id = q.one.publisher
  and c.recovery_round between q.crash_round and q.operational_round
where a.run_id is null and c.run_id is null
union all
select k.run_id, k.operational_round as round, k.node_id, cast(null as bigint) as source,
  concat('is OPERATIONAL before node ', k.peer, ' has answered on topic ', k.topic)
    as detail
from asked k
left join answered w on w.run_id = k.run_id and w.node_id = k.node_id and w.recovery_round = k.recovery_round
  and w.topic = k.topic and w.peer = k.peer
left join moved_member d on d.run_id = k.run_id and d.topic = k.topic and d.node_id = k.peer and d.kind <> 'join'
  and d.round <= k.operational_round
where w.run_id is null and d.run_id is null
