-- Which message locks a key item, at which broker, and for how long (rule G1)?
-- One row per lock: a run, broker, topic, key item and total-order message (protocol ginger). A broker that crashes
-- loses its locks, so the same message may later lock a key item at this broker again. Locks are computed from
-- messages: a broker forwards Metadata when it locks key items, and TotalProcessed when it unlocks them. A broker under
-- repair delays messages; its locks count from the round in which the message arrived.
-- :topic topic of the message
-- :key_item the key item
-- :number number of the lock, from 1, among the locks of the key item at the broker, in the order in which the locks
--   end
-- :locked_round round in which the broker locked the key item
-- :unlocked_round round in which the broker unlocked the key item, or crashed; null: the lock exists at the end of the
--   run
-- :lock_rounds rounds from locked_round to unlocked_round
-- :lock_ms lock_rounds in ms
with total as (
  select run_id, source, source_seq, topic, keys from publication where guarantee = 'total'
), sent as (
  select m.run_id, m.source, m.source_seq, m.kind, m.src, m.dst, m.sent_round, m.due_round, m.message_id, m.fate,
    a.role as src_role, b.role as dst_role
  from sent_message m
  join total t on t.run_id = m.run_id and t.source = m.source and t.source_seq = m.source_seq
  join node a on a.run_id = m.run_id and a.node_id = m.src
  join node b on b.run_id = m.run_id and b.node_id = m.dst
  where m.kind in ('Metadata', 'TotalAck', 'TotalProcessed')
), sign as (
  select run_id, dst as node_id, source, source_seq, due_round as round, message_id,
    case when kind = 'Metadata' then 'locked' else 'unlocked' end as what
  from sent
  where fate = 'delivered' and src_role = 'broker' and dst_role = 'broker' and kind <> 'TotalAck'
  union all
  select run_id, src as node_id, source, source_seq, sent_round as round, message_id,
    case when kind = 'TotalProcessed' or dst_role <> 'broker' then 'unlocked' else 'locked' end as what
  from sent
  where src_role = 'broker'
  union all
  select run_id, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq, round,
    cast(-1 as bigint) as message_id, 'crash' as what
  from fault_event
  where kind = 'crash'
), lived as (
  select *, count_if(what = 'crash') over (
    partition by run_id, node_id order by round, message_id rows between unbounded preceding and current row
  ) as life
  from sign
), crash as (
  select run_id, node_id, life, round from lived where what = 'crash'
), held as (
  select run_id, node_id, source, source_seq, life, min(round) as locked_round, min(message_id) as lock_id,
    min(case when what = 'unlocked' then round end) as unlocked_round,
    min(case when what = 'unlocked' then message_id end) as unlock_id
  from lived
  where what <> 'crash'
  group by run_id, node_id, source, source_seq, life
), ended as (
  select h.run_id, h.node_id, h.source, h.source_seq, t.topic, explode(t.keys) as key_item, h.locked_round, h.lock_id,
    h.unlock_id, coalesce(h.unlocked_round, c.round) as unlocked_round
  from held h
  join total t on t.run_id = h.run_id and t.source = h.source and t.source_seq = h.source_seq
  left join crash c on c.run_id = h.run_id and c.node_id = h.node_id and c.life = h.life + 1
)
select e.run_id, e.node_id, n.name, e.topic, e.key_item,
  row_number() over (
    partition by e.run_id, e.node_id, e.topic, e.key_item
    order by coalesce(e.unlocked_round, 4611686018427387904), coalesce(e.unlock_id, 4611686018427387904), e.lock_id
  ) as number,
  e.source, p.name as source_name, e.source_seq, e.locked_round, e.unlocked_round,
  e.unlocked_round - e.locked_round as lock_rounds, (e.unlocked_round - e.locked_round) * r.round_ms as lock_ms
from ended e
join run r on r.run_id = e.run_id
join node n on n.run_id = e.run_id and n.node_id = e.node_id
join node p on p.run_id = e.run_id and p.node_id = e.source
where r.protocol = 'ginger'
