-- audit, is_unconditional: a loss is given up after `lost_rounds`, and LostBuffer is bounded
-- A dispatcher requests no event after lost_rounds, and its LostBuffer has at most lost_buffer entries (rule E13).
select e.run_id, max(e.sent_round) as round, e.initiator as node_id,
  concat('asks for event ', e.number, ' of node ', e.event_source, ' and pattern ', e.pattern_id, ' for ',
    max(e.sent_round) - min(e.sent_round), ' rounds') as detail
from entry e
join parameter r on r.run_id = e.run_id
where e.style <> 'push' and e.src = e.initiator
group by e.run_id, e.initiator, e.event_source, e.pattern_id, e.number,
  r.protocol_lost_rounds
having max(e.sent_round) - min(e.sent_round) >= r.protocol_lost_rounds
union all
select l.run_id, cast(null as bigint) as round, l.node_id,
  concat('LostBuffer holds ', l.n_lost, ' events') as detail
from (
  select run_id, node_id, count(1) as n_lost from state_lost group by run_id, node_id
  union all
  select run_id, initiator as node_id, n_entries as n_lost from gossip where style <> 'push' and src = initiator
) l
join parameter r on r.run_id = l.run_id
where l.n_lost > r.protocol_lost_buffer
