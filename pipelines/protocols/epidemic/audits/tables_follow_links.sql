-- audit, is_unconditional: no subscription table has an entry for a link that has ended
-- At the end no subscription table has an entry for a link that has ended (rule E16). The audit considers only
-- replacements before the last message. It does not check dispatchers that are down.
with ended as (
  select run_id, max(case when fate in ('delivered', 'duplicate') then due_round else sent_round end) as round
  from sent_message
  group by run_id
), changed as (
  select l.run_id, l.a, l.b, max(case when l.kind = 'unlink' then l.round end) as end_round,
    max(case when l.kind = 'link' then l.round end) as begin_round
  from link_change l
  join ended e on e.run_id = l.run_id and l.round <= e.round
  group by l.run_id, l.a, l.b
), down as (
  select run_id, node_id from node_recovery where recovery_round is null
)
select t.run_id, c.end_round as round, t.node_id,
  concat('has an entry of pattern ', t.pattern_id, ' for node ', t.next_hop, ', to which the link has ended') as detail
from state_routing_entry t
join changed c on c.run_id = t.run_id and c.a = least(t.node_id, t.next_hop) and c.b = greatest(t.node_id, t.next_hop)
left join down d on d.run_id = t.run_id and d.node_id = t.node_id
where d.run_id is null and c.end_round > coalesce(c.begin_round, -1)
