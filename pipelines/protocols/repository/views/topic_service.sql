-- Who serves each topic to the end, and which of those that it needs are gone?
-- One row per run and topic (protocol repository). Nobody serves any with best effort (protocol.baseline).
-- :topic the topic
-- :n_serving repositories that serve it from the start, are not asked to leave, not removed, and are up or come back
-- :n_gone repositories of the topic that crashed for good
-- :n_gone_publishers clients that publish on it and crashed for good: a number that is set aside for a message that
--   only they had blocks the topic
with gone as (
  select distinct run_id, node_id from node_recovery where recovery_round is null
), moved as (
  select run_id, node_id from control_call where kind in ('join', 'leave')
  union
  select run_id, peer as node_id from control_call where kind = 'remove'
), serving as (
  select l.run_id, l.topic, count_if(g.node_id is null and m.node_id is null) as n_serving,
    count_if(g.node_id is not null) as n_gone
  from state_log l
  join parameter a on a.run_id = l.run_id and not a.protocol_baseline
  left join gone g on g.run_id = l.run_id and g.node_id = l.node_id
  left join moved m on m.run_id = l.run_id and m.node_id = l.node_id
  group by l.run_id, l.topic
), publishing as (
  select p.run_id, coalesce(p.topic, '') as topic, count(distinct p.source) as n_gone_publishers
  from publication p
  join gone g on g.run_id = p.run_id and g.node_id = p.source
  group by p.run_id, coalesce(p.topic, '')
)
select s.run_id, s.topic, s.n_serving, s.n_gone, coalesce(p.n_gone_publishers, 0) as n_gone_publishers
from serving s
left join publishing p on p.run_id = s.run_id and p.topic = s.topic
