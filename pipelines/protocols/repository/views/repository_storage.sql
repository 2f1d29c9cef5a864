-- What does each repository store at the end, and for how many messages does it wait?
-- One row per run, repository and topic (protocol repository).
-- :* state_log
-- :node_id the repository
-- :n_stored sequence numbers with a message
-- :n_reserved reserved sequence numbers; their messages are missing
-- :n_void sequence numbers that will never have a message (rule P2)
-- :n_actions sequence numbers of actions: registrations, and changes of subscriptions
-- :n_orphans stored messages without a sequence number; an earlier message of their incarnation is missing
-- :n_lacking messages that other members have and the repository lacks, as far as the repository knows
with slot as (
  select run_id, node_id, topic, count_if(status = 'stored') as n_stored, count_if(status = 'reserved') as n_reserved,
    count_if(status = 'void') as n_void, count_if(status = 'action') as n_actions
  from state_slot
  group by run_id, node_id, topic
), orphan as (
  select run_id, node_id, topic, count(1) as n_orphans from state_orphan group by run_id, node_id, topic
), lacking as (
  select run_id, node_id, topic, count(1) as n_lacking from state_lacking group by run_id, node_id, topic
)
select l.run_id, l.node_id, n.name, l.topic, l.frontier, l.last_seq, coalesce(s.n_stored, 0) as n_stored,
  coalesce(s.n_reserved, 0) as n_reserved, coalesce(s.n_void, 0) as n_void, coalesce(s.n_actions, 0) as n_actions,
  coalesce(o.n_orphans, 0) as n_orphans, coalesce(k.n_lacking, 0) as n_lacking
from state_log l
join node n on n.run_id = l.run_id and n.node_id = l.node_id
left join slot s on s.run_id = l.run_id and s.node_id = l.node_id and s.topic = l.topic
left join orphan o on o.run_id = l.run_id and o.node_id = l.node_id and o.topic = l.topic
left join lacking k on k.run_id = l.run_id and k.node_id = l.node_id and k.topic = l.topic
