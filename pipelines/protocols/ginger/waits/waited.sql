-- Messages that waited and were released, with the crash that caused the wait, or null.
-- Relation repair has one row per node that noticed the crash of a neighbour: the rounds from the crash to the end of
-- the repair. Relation blocked has the total-order messages whose locks lasted until a repair ended.
with repair as (
  select x.run_id, x.node_id, x.crashed, max(f.round) as crash_round, x.noticed_round, x.ended_round
  from (
    select m.run_id, m.dst as node_id, cast(get_json_object(m.body, '$.peer') as bigint) as crashed,
      m.due_round as noticed_round, coalesce(min(c.ended_round), m.due_round) as ended_round
    from sent_message m
    left join reconfiguration c on c.run_id = m.run_id and c.node_id = m.dst and c.detected_round <= m.due_round
      and c.ended_round >= m.due_round
    where m.kind = 'NeighborDown' and m.fate = 'delivered'
    group by m.run_id, m.dst, m.body, m.due_round
  ) x
  join fault_event f on f.run_id = x.run_id and f.node_id = x.crashed and f.kind = 'crash'
    and f.round <= x.noticed_round
  group by x.run_id, x.node_id, x.crashed, x.noticed_round, x.ended_round
), blocked as (
  select l.run_id, l.source, l.source_seq, r.node_id, r.crashed, r.crash_round, r.noticed_round, r.ended_round
  from key_lock l
  join repair r on r.run_id = l.run_id and r.node_id = l.node_id and l.locked_round <= r.ended_round
    and l.unlocked_round >= r.ended_round
  union all
  select m.run_id, m.source, m.source_seq, m.src as node_id, m.dst as crashed, max(f.round) as crash_round,
    m.sent_round as noticed_round, m.due_round as ended_round
  from sent_message m
  join fault_event f on f.run_id = m.run_id and f.node_id = m.dst and f.kind = 'crash' and f.round <= m.due_round
  where m.fate = 'lost_crash' and m.kind in ('Metadata', 'TotalAck', 'TotalProcessed')
  group by m.run_id, m.source, m.source_seq, m.src, m.dst, m.sent_round, m.due_round
), crash as (
  select run_id, source, source_seq, max(struct(ended_round, node_id, crashed, crash_round, noticed_round)) as last
  from blocked
  group by run_id, source, source_seq
), arrived as (
  select run_id, dst as node_id, source, source_seq, min(due_round) as came_round
  from sent_message
  where kind = 'Metadata' and fate = 'delivered'
  group by run_id, dst, source, source_seq
  union all
  select run_id, source as node_id, source, source_seq, issued_round as came_round
  from publication
), held as (
  select a.run_id, a.node_id, a.source, a.source_seq, a.came_round, min(m.sent_round) as left_round
  from arrived a
  join sent_message m on m.run_id = a.run_id and m.src = a.node_id and m.source = a.source
    and m.source_seq = a.source_seq and m.kind = 'Metadata'
  group by a.run_id, a.node_id, a.source, a.source_seq, a.came_round
)
select w.run_id, w.node_id, w.source, w.source_seq, w.since_round, w.until_round,
  case w.reason when 'queue'
    then concat('it was queued behind call ', w.holder_seq, ' of ', w.holder_name, ' for key item ', w.key_item)
    else concat('key item ', w.key_item, ' was locked by call ', w.holder_seq, ' of ', w.holder_name) end as reason,
  c.last.crashed as crashed, c.last.crash_round as crash_round
from lock_wait w
left join crash c on c.run_id = w.run_id and c.source = w.holder and c.source_seq = w.holder_seq
where w.until_round is not null
union all
select c.run_id, c.last.node_id as node_id, c.source, c.source_seq, c.last.noticed_round as since_round,
  c.last.ended_round as until_round, 'its key items stayed locked until a failure was repaired' as reason,
  c.last.crashed as crashed, c.last.crash_round as crash_round
from crash c
join publication p on p.run_id = c.run_id and p.source = c.source and p.source_seq = c.source_seq
where p.guarantee = 'total'
union all
select h.run_id, h.node_id, h.source, h.source_seq, h.came_round as since_round, h.left_round as until_round,
  'messages were held until a failure was repaired' as reason, r.crashed, r.crash_round
from held h
join repair r on r.run_id = h.run_id and r.node_id = h.node_id and h.came_round between r.crash_round and r.ended_round
  and h.left_round >= r.ended_round and h.left_round > h.came_round
left join lock_wait w on w.run_id = h.run_id and w.node_id = h.node_id and w.source = h.source
  and w.source_seq = h.source_seq
where w.node_id is null
