-- audit, is_unconditional: no dispatcher answers with events from before its crash
-- A crash deletes the cache: after it, a dispatcher answers only with events that it has received or published since
-- (rule E14).
with crashed as (select run_id, node_id, round from fault_event where kind = 'crash'), answer as (
  select m.run_id, m.src, m.source, m.source_seq, m.sent_round, max(c.round) as crash_round
  from sent_message m
  join crashed c on c.run_id = m.run_id and c.node_id = m.src and c.round < m.sent_round
  where m.kind = 'REPLY'
  group by m.run_id, m.src, m.source, m.source_seq, m.sent_round
)
select a.run_id, a.sent_round as round, a.src as node_id, a.source, a.source_seq,
  concat('answers with an event that it had before its crash in round ', a.crash_round) as detail
from answer a
left join arrival h on h.run_id = a.run_id and h.fate = 'delivered' and h.node_id = a.src and h.source = a.source
  and h.source_seq = a.source_seq and h.round >= a.crash_round
where h.run_id is null
