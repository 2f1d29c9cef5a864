-- Messages that no repository has acknowledged, because no repository of the topic is up, or because all live
-- repositories of the topic wait for a dead member. They have never been operational, and the dead member may have been
-- (rule P22).
with waiting as (
  select run_id, topic, publication.source as source, publication.source_seq as source_seq from state_queued
  union all
  select run_id, topic, publication.source as source, publication.source_seq as source_seq
  from state_unstable
  where not is_acknowledged
), dead as (
  select distinct run_id, topic, names from dead_member
), live as (
  select distinct l.run_id, l.topic
  from state_log l
  left join node_recovery c on c.run_id = l.run_id and c.node_id = l.node_id and c.recovery_round is null
  where l.is_member and not l.is_left and c.run_id is null
), serving as (
  select distinct run_id, topic from state_duty where is_operational
)
select w.run_id, d.node_id, w.source, w.source_seq, concat('the recovery waits for ', m.names,
  ', which may have stored messages: let this member recover, or remove it') as reason
from waiting w
join dead m on m.run_id = w.run_id and m.topic = w.topic
join state_duty d on d.run_id = w.run_id and d.topic = w.topic
join state_log l on l.run_id = d.run_id and l.node_id = d.node_id and l.topic = d.topic and not l.is_complete
  and not l.is_left
left join serving s on s.run_id = w.run_id and s.topic = w.topic
where s.run_id is null
union all
select w.run_id, w.source as node_id, w.source, w.source_seq,
  concat('its publisher waits for ', m.names, ': no repository of the topic is up') as reason
from waiting w
join dead m on m.run_id = w.run_id and m.topic = w.topic
left join live v on v.run_id = w.run_id and v.topic = w.topic
where v.run_id is null
