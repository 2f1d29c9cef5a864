-- audit, is_unconditional: neighbours that are linked again send each other their clients' patterns
-- Two neighbours that a recovery or a new link connects send each other their clients' patterns (rules E14 and E16).
with met as (
  select f.run_id, f.round, l.src as node_id, l.dst as neighbour
  from fault_event f
  join link l on l.run_id = f.run_id and (l.src = f.node_id or l.dst = f.node_id)
  left join link_change x on x.run_id = l.run_id and x.a = least(l.src, l.dst) and x.b = greatest(l.src, l.dst)
  where f.kind = 'recovery' and x.run_id is null
  union all
  select run_id, round, src as node_id, dst as neighbour from fault_event where kind = 'link'
  union all
  select run_id, round, dst as node_id, src as neighbour from fault_event where kind = 'link'
), away as (
  select run_id, node_id, crash_round as first_round, coalesce(recovery_round, 9223372036854775807) as end_round
  from node_recovery
  union all
  select p.run_id, p.node_id, p.round as first_round,
    coalesce(min(e.round), 9223372036854775807) as end_round
  from fault_event p
  left join fault_event e on e.run_id = p.run_id and e.node_id = p.node_id and e.kind = 'pause_end'
    and e.round > p.round
  where p.kind = 'pause'
  group by p.run_id, p.node_id, p.round
), owed as (
  select distinct m.run_id, m.round, m.node_id, m.neighbour, w.pattern_id
  from met m
  join client_pattern w on w.run_id = m.run_id and w.node_id = m.node_id and w.issued_round < m.round
    and m.round < w.until_round
  left join away a on a.run_id = m.run_id and a.node_id in (m.node_id, m.neighbour) and a.first_round <= m.round
    and m.round < a.end_round
  where a.run_id is null
)
select o.run_id, o.round, o.node_id,
  concat('sends node ', o.neighbour, ' no SUB for pattern ', o.pattern_id, ' when the two are connected') as detail
from owed o
left join sent_message m on m.run_id = o.run_id and m.kind = 'SUB' and m.src = o.node_id and m.dst = o.neighbour
  and m.sent_round = o.round and cast(get_json_object(m.body, '$.pattern_id') as bigint) = o.pattern_id
where m.run_id is null
