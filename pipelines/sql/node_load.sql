-- How many messages did each node send, and how many did it receive?
-- Timers (from a node to itself) are not messages.
-- :n_sent messages that the node put on a link, including lost ones
-- :n_received messages that the node received, including duplicates and excluding lost messages and messages in flight
with sent as (
  select run_id, src as node_id, count(1) as n_sent
  from sent_message
  where src <> dst
  group by run_id, src
), received as (
  select run_id, dst as node_id, count(1) as n_received
  from message
  where fate in ('delivered', 'duplicate') and src <> dst
  group by run_id, dst
)
select n.run_id, n.node_id, n.name, coalesce(s.n_sent, 0) as n_sent, coalesce(r.n_received, 0) as n_received
from node n
left join sent s on s.run_id = n.run_id and s.node_id = n.node_id
left join received r on r.run_id = n.run_id and r.node_id = n.node_id
