-- How many events does each dispatcher send again?
-- One row per run and node (protocol epidemic). Publisher-based pull would show here an acknowledgement implosion at
-- sources.
-- :is_source whether it published
-- :n_retransmissions REPLY messages that it sent
-- :share its share of the run's
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
