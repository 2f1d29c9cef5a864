-- How often is a requested event in the cache of the dispatcher that receives the request?
-- One row per run and dispatcher that received a request (protocol epidemic).
-- :n_asked events that the dispatcher was asked for: entries in the digests of the REQUEST messages and pull GOSSIP
--   messages that it handled
-- :n_found events that it found in its cache: REPLY messages that it sent, at most one per round, event and requester
-- :hit_rate n_found / n_asked
with asked as (
  select run_id, dst as node_id, sum(json_array_length(get_json_object(body, '$.digest'))) as n_asked
  from message
  where fate = 'delivered'
    and (kind = 'REQUEST' or (kind = 'GOSSIP' and get_json_object(body, '$.style') <> 'push'))
  group by run_id, dst
), answered as (
  select run_id, src as node_id, count(1) as n_found
  from sent_message
  where kind = 'REPLY'
  group by run_id, src
)
select a.run_id, a.node_id, n.name, a.n_asked, coalesce(f.n_found, 0) as n_found,
  coalesce(f.n_found, 0) / a.n_asked as hit_rate
from asked a
join node n on n.run_id = a.run_id and n.node_id = a.node_id
left join answered f on f.run_id = a.run_id and f.node_id = a.node_id
