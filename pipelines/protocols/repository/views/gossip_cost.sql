-- How much of the traffic is gossip within bundles?
-- One row per run and repository (protocol repository).
-- :n_gossips Gossip-ACKs that the repository sent
-- :n_entries storage entries in these Gossip-ACKs
-- :n_bytes length of the bodies of these Gossip-ACKs
-- :n_links number of messages in which these Gossip-ACKs crossed links
-- :n_fetched publications that the repository sent to other members
-- :gossip_share proportion of Gossip-ACKs, of all repositories, among the messages on links of the run
with row_on_link as (
  select run_id, kind, src, cast(get_json_object(body, '$.origin') as bigint) as origin, body
  from sent_message
  where kind in ('Gossip-ACK', 'R2R-Retransmit')
), total as (
  select run_id, count(1) as n_messages, count_if(kind = 'Gossip-ACK') as n_gossip from sent_message group by run_id
), cost as (
  select run_id, origin, count_if(kind = 'Gossip-ACK' and src = origin) as n_gossips,
    sum(case when kind = 'Gossip-ACK' and src = origin
      then size(from_json(get_json_object(body, '$.entries'), 'array<struct<seq:bigint>>')) else 0 end) as n_entries,
    sum(case when kind = 'Gossip-ACK' and src = origin then length(body) else 0 end) as n_bytes,
    count_if(kind = 'Gossip-ACK') as n_links,
    sum(case when kind = 'R2R-Retransmit' and src = origin
      then size(from_json(get_json_object(body, '$.copies'), 'array<struct<n:bigint>>')) else 0 end) as n_fetched
  from row_on_link
  group by run_id, origin
)
select c.run_id, c.origin as node_id, n.name, c.n_gossips, c.n_entries, c.n_bytes, c.n_links, c.n_fetched,
  t.n_gossip / t.n_messages as gossip_share
from cost c
join node n on n.run_id = c.run_id and n.node_id = c.origin
join total t on t.run_id = c.run_id
