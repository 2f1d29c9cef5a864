-- audit: a publisher keeps its copy until every member of the bundle has the message
-- Rule P3. A row is a message of a publisher's last incarnation that a member lacks and that the publisher has deleted.
-- Members that join, leave or are removed are left out.
with life as (
  select run_id, node_id, max(coalesce(recovery_round, 9223372036854775807)) as first_round
  from node_recovery
  group by run_id, node_id
), kept as (
  select run_id, node_id, topic, publication.source_seq as source_seq from state_unstable
  union all
  select run_id, node_id, topic, publication.source_seq as source_seq from state_queued
), dropped as (
  select p.run_id, coalesce(p.topic, '') as topic, p.source, p.source_seq, p.issued_round
  from publication p
  left join life l on l.run_id = p.run_id and l.node_id = p.source
  left join kept k on k.run_id = p.run_id and k.node_id = p.source and k.source_seq = p.source_seq
  where k.source_seq is null and p.issued_round >= coalesce(l.first_round, 0)
)
select d.run_id, d.issued_round as round, d.source as node_id, d.source, d.source_seq,
  concat('its publisher keeps no copy, and ', n.name, ' does not have it') as detail
from dropped d
join topic_service v on v.run_id = d.run_id and v.topic = d.topic
join state_log l on l.run_id = d.run_id and l.topic = d.topic
join node n on n.run_id = l.run_id and n.node_id = l.node_id
left join moved_member m on m.run_id = l.run_id and m.topic = l.topic and m.node_id = l.node_id
left join stored_message s on s.run_id = d.run_id and s.node_id = l.node_id and s.topic = d.topic
  and s.source = d.source and s.source_seq = d.source_seq
where m.node_id is null and s.node_id is null
