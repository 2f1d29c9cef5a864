-- The runs in which a broker joins while messages are slow: run_id, round, reason. The timers of a join depend on the
-- latencies of links (rule G14). A pause or a delay counts if it begins before the repair must end, and if it has not
-- ended, or its last delayed message has not arrived, in the round of the broker's first ParentRequest.
with joined as (
  select c.run_id, c.node_id, min(q.sent_round) as round
  from (select distinct run_id, node_id from state_contact where is_joining) c
  join sent_message q on q.run_id = c.run_id and q.src = c.node_id and q.kind = 'ParentRequest'
  group by c.run_id, c.node_id
), late as (
  select distinct m.run_id, m.sent_round, m.due_round
  from (select distinct run_id from joined) j
  join sent_message m on m.run_id = j.run_id
  join link l on l.run_id = m.run_id and l.src = m.src and l.dst = m.dst
  where m.due_round > m.sent_round + l.latency_rounds
), fault as (
  select b.run_id, b.round, min(e.round) as end_round
  from fault_event b
  left join fault_event e on e.run_id = b.run_id and e.kind = concat(b.kind, '_end') and e.node_id <=> b.node_id
    and e.src <=> b.src and e.dst <=> b.dst and e.round >= b.round
  where b.kind in ('delay', 'reorder', 'pause')
  group by b.run_id, b.kind, b.round, b.node_id, b.src, b.dst
), slow as (
  select f.run_id, f.round, greatest(f.end_round, coalesce(max(m.due_round), f.end_round)) as end_round
  from fault f
  left join late m on m.run_id = f.run_id and m.sent_round >= f.round and m.sent_round < f.end_round
  group by f.run_id, f.round, f.end_round
)
select j.run_id, min(greatest(j.round, s.round)) as round,
  'a broker joins, and messages take longer than links do or wait for nodes that pause' as reason
from joined j
join repair_limit p on p.run_id = j.run_id
join slow s on s.run_id = j.run_id and s.round <= j.round + p.most_rounds
  and coalesce(s.end_round >= j.round, true)
group by j.run_id
