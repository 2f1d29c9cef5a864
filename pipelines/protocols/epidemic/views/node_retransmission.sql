-- How many events does each dispatcher retransmit?
-- One row per run and node (protocol epidemic). If sources send most of the REPLY messages, the run shows the
-- acknowledgement implosion that the paper discusses for publisher-based pull.
-- :is_source whether the node published an event
-- :n_retransmissions REPLY messages that the node sent
-- :share n_retransmissions / the number of REPLY messages of the run
with sent as (
  select run_id, src as node_id, count(1) as n_retransmissions
  from sent_message
  where kind = 'REPLY'
  group by run_id, src
), source as (
  select distinct run_id, source as node_id
  from publication
)
select n.run_id, n.node_id, n.name, p.node_id is not null as is_source,
  coalesce(s.n_retransmissions, 0) as n_retransmissions,
  coalesce(s.n_retransmissions, 0) / sum(s.n_retransmissions) over (partition by n.run_id) as share
from node n
left join sent s on s.run_id = n.run_id and s.node_id = n.node_id
left join source p on p.run_id = n.run_id and p.node_id = n.node_id
