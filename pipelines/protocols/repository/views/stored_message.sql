-- Which messages does each repository have on its disk at the end, and under which numbers?
-- One row per run, repository, topic and message (protocol repository).
-- :node_id the repository
-- :incarnation round of the publisher's start
-- :n catenation number of the message
-- :seq sequence number of the message; null: the message is an orphan of a closed incarnation (rule P2)
-- :is_filled whether seq precedes the first reserved number of the repository (rule P5); only then are subscribers
--   notified
with stored as (
  select s.run_id, s.node_id, s.topic, s.publisher as source, s.source_seq, s.incarnation, s.n, s.seq,
    s.seq <= l.frontier as is_filled
  from state_slot s
  join state_log l on l.run_id = s.run_id and l.node_id = s.node_id and l.topic = s.topic
  where s.status = 'stored'
  union all
  select run_id, node_id, topic, publisher as source, publication.source_seq as source_seq, incarnation, n,
    cast(null as bigint) as seq, false as is_filled
  from state_orphan
)
select s.run_id, s.node_id, n.name, s.topic, s.source, p.name as source_name, s.source_seq, s.incarnation, s.n, s.seq,
  s.is_filled
from stored s
join node n on n.run_id = s.run_id and n.node_id = s.node_id
join node p on p.run_id = s.run_id and p.node_id = s.source
