-- audit: nothing waits in a run that has settled
-- Rule P23. A row is a message, a sequence number or a disk write for which an available node still waits. Dead
-- members are those of view dead_member. The audit has three exceptions:
-- * an acknowledged message at its publisher, if a dead member crashed before it had time to store the message;
-- * a message at a publisher that is deregistered, or whose registration a crash of the owner may have lost;
-- * a message that a repository lacks and that only dead members have.
with published as (
  select run_id, node_id, topic, publication.source as source, publication.source_seq as source_seq,
    publication.issued_round as issued_round, false as is_copy, 'queued at its publisher' as detail
  from state_queued
  union all
  select run_id, node_id, topic, publication.source as source, publication.source_seq as source_seq,
    publication.issued_round as issued_round, is_acknowledged as is_copy,
    case when is_acknowledged then 'its publisher keeps a copy: it does not know that all members have it'
      else 'not acknowledged to its publisher' end as detail
  from state_unstable
), away as (
  select run_id, node_id, cast(null as string) as topic from node_recovery where recovery_round is null
  union
  select run_id, node_id, topic from moved_member where kind <> 'join'
), dead as (
  select run_id, topic, min(crash_round) as gone_round from dead_member group by run_id, topic
), had as (
  select distinct h.run_id, h.topic, h.source, h.incarnation, h.n
  from stored_message h
  left join away b on b.run_id = h.run_id and b.node_id = h.node_id and (b.topic is null or b.topic = h.topic)
  where b.node_id is null
), waiting as (
  select p.run_id, p.node_id, p.topic, p.source, p.source_seq, p.detail
  from published p
  join settled_run s on s.run_id = p.run_id
  left join dead d on d.run_id = p.run_id and d.topic = p.topic and p.is_copy
    and d.gone_round < p.issued_round + s.needed_rounds
  left join topic_owner o on o.run_id = p.run_id and o.topic = p.topic
  left join authorisation a on a.run_id = p.run_id and a.topic = p.topic and a.node_id = p.node_id
    and a.role = 'publisher' and a.end_round is null and a.is_certain
  where d.run_id is null and (o.topic is null or a.node_id is not null)
  union all
  select run_id, node_id, topic, source, source_seq, concat('expected as number ', seq, ', and not delivered') as detail
  from state_expected
  union all
  select run_id, node_id, topic, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('number ', seq, ' is acknowledged, and not synced') as detail
  from state_unsynced
  union all
  select run_id, node_id, topic, publisher as source, source_seq,
    concat('number ', seq, ' is reserved for number ', n, ' of its publisher') as detail
  from state_slot
  where status = 'reserved'
  union all
  select k.run_id, k.node_id, k.topic, k.publisher as source, cast(null as bigint) as source_seq,
    concat('number ', k.n, ' of its publisher is at other members, and not here') as detail
  from state_lacking k
  left join dead d on d.run_id = k.run_id and d.topic = k.topic
  left join had h on h.run_id = k.run_id and h.topic = k.topic and h.source = k.publisher
    and h.incarnation = k.incarnation and h.n = k.n
  where d.run_id is null or h.run_id is not null
  union all
  select run_id, node_id, topic, publisher as source, cast(null as bigint) as source_seq,
    concat('the recovery waits for number ', n, ' of its publisher') as detail
  from state_missed
  union all
  select run_id, node_id, topic, publisher as source, cast(null as bigint) as source_seq,
    concat('number ', n, ' of its publisher is on its way to the disk') as detail
  from state_storing
)
select w.run_id, s.last_round as round, w.node_id, w.source, w.source_seq, w.detail
from waiting w
join settled_run s on s.run_id = w.run_id and s.is_settled
join topic_service v on v.run_id = w.run_id and v.topic = w.topic and v.n_serving > 0
left join away l on l.run_id = w.run_id and l.node_id = w.node_id and (l.topic is null or l.topic = w.topic)
where l.node_id is null
