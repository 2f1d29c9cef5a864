-- Which members of each bundle crashed permanently, and were not removed?
-- One row per run, topic and repository (protocol repository). The bundle waits for messages that only these members
-- may have, until they recover, or a call remove names them.
-- :node_id the member
-- :crash_round round of its last crash
-- :names names of all dead members of the topic, each with its crash_round
with departed as (
  select distinct run_id, get_json_object(body, '$.topic') as topic, src as node_id
  from message
  where kind = 'Gossip-LEAVE' and src = cast(get_json_object(body, '$.origin') as bigint)
), dead as (
  select l.run_id, l.topic, l.node_id, n.name, c.crash_round
  from state_log l
  join parameter a on a.run_id = l.run_id and not a.protocol_baseline
  join node n on n.run_id = l.run_id and n.node_id = l.node_id
  join node_recovery c on c.run_id = l.run_id and c.node_id = l.node_id and c.recovery_round is null
  left join moved_member m on m.run_id = l.run_id and m.topic = l.topic and m.node_id = l.node_id
    and (m.kind = 'remove' or m.kind = 'join' and not m.is_issued)
  left join departed d on d.run_id = l.run_id and d.topic = l.topic and d.node_id = l.node_id
  where m.run_id is null and d.run_id is null
)
select run_id, topic, node_id, name, crash_round, array_join(array_sort(collect_list(
  concat(name, ' (down since round ', crash_round, ')')) over (partition by run_id, topic)), ', ') as names
from dead
