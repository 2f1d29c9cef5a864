-- audit: a repository that is asked to leave its bundles leaves them
-- Section 4.10, rule P26. The repository is up at the end. A row is a topic of which a remaining member never told by
-- Gossip-ACK that the repository has left. A remaining member is up at the end, and is neither asked to leave nor
-- removed. Repositories leave one after the other, so the run must last needed_rounds (view settled_run) for each of
-- them.
with gone as (
  select run_id, node_id from node_recovery where recovery_round is null
), member as (
  select l.run_id, l.topic, l.node_id, coalesce(j.round, -1) as joined_round
  from state_log l
  left join moved_member j on j.run_id = l.run_id and j.topic = l.topic and j.node_id = l.node_id and j.kind = 'join'
  left join gone g on g.run_id = l.run_id and g.node_id = l.node_id
  where g.run_id is null and coalesce(j.is_issued, true)
), leaving as (
  select m.run_id, m.topic, m.node_id, v.round, count(1) over (partition by m.run_id, m.topic) as n_leaving
  from member m
  join moved_member v on v.run_id = m.run_id and v.topic = m.topic and v.node_id = m.node_id and v.kind = 'leave'
    and v.round > m.joined_round
), remaining as (
  select m.run_id, m.topic, m.node_id
  from member m
  left join moved_member v on v.run_id = m.run_id and v.topic = m.topic and v.node_id = m.node_id and v.kind <> 'join'
  where v.run_id is null
), told as (
  select distinct run_id, get_json_object(body, '$.topic') as topic, src as node_id,
    explode(from_json(get_json_object(body, '$.left'), 'array<bigint>')) as departed
  from sent_message
  where kind = 'Gossip-ACK' and src = cast(get_json_object(body, '$.origin') as bigint)
)
select l.run_id, l.round, l.node_id, concat('is called in round ', l.round, ' to leave topic ', l.topic, ', and ',
  min(n.name), ' never tells that it has left') as detail
from leaving l
join settled_run s on s.run_id = l.run_id and s.last_round - s.disturbed_round >= l.n_leaving * s.needed_rounds
join topic_service v on v.run_id = l.run_id and v.topic = l.topic and v.n_serving > 0
join remaining m on m.run_id = l.run_id and m.topic = l.topic
join node n on n.run_id = m.run_id and n.node_id = m.node_id
left join told t on t.run_id = m.run_id and t.topic = m.topic and t.node_id = m.node_id and t.departed = l.node_id
where t.run_id is null
group by l.run_id, l.topic, l.node_id, l.round
