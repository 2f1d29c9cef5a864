-- Which members of each bundle crashed permanently, and were not removed?
-- One row per run, topic and repository (protocol repository). The bundle waits for messages that only these members
-- may have, until they recover, or a call remove names them.
-- :node_id the member
-- :crash_round round of its last crash
with removed as (
  select distinct c.run_id, l.topic, c.peer as node_id
  from issued_call c
  join state_log l on l.run_id = c.run_id and l.node_id = c.node_id
  where c.kind = 'remove'
), departed as (
  select distinct run_id, get_json_object(body, '$.topic') as topic, src as node_id
  from message
  where kind = 'Gossip-LEAVE' and src = cast(get_json_object(body, '$.origin') as bigint)
), called as (
  select distinct run_id, node_id from control_call where kind = 'join'
), joined as (
  select distinct run_id, node_id from issued_call where kind = 'join'
)
select l.run_id, l.topic, l.node_id, n.name, c.crash_round
from state_log l
join parameter a on a.run_id = l.run_id and not a.protocol_baseline
join node n on n.run_id = l.run_id and n.node_id = l.node_id
join node_recovery c on c.run_id = l.run_id and c.node_id = l.node_id and c.recovery_round is null
left join removed r on r.run_id = l.run_id and r.topic = l.topic and r.node_id = l.node_id
left join departed d on d.run_id = l.run_id and d.topic = l.topic and d.node_id = l.node_id
left join called k on k.run_id = l.run_id and k.node_id = l.node_id
left join joined j on j.run_id = l.run_id and j.node_id = l.node_id
where r.run_id is null and d.run_id is null and (k.run_id is null or j.run_id is not null)
