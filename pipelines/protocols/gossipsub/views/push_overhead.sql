-- How many copies of each publication come from the mesh and from gossip, and how many are duplicates?
-- One row per run and publication (protocol gossipsub).
-- :n_pushed PUB messages that carry the publication
-- :n_gossiped IHAVE messages with the id of the publication
-- :n_replies REPLY messages that carry the publication
-- :n_first nodes that received the publication
-- :n_duplicates copies whose receiver had an earlier copy
-- :duplicates_per_node n_duplicates / n_first
with told as (
  select run_id, explode(from_json(get_json_object(body, '$.ids'), 'array<struct<source:bigint,source_seq:bigint>>')) as id
  from sent_message
  where kind = 'IHAVE'
), gossiped as (
  select run_id, id.source as source, id.source_seq as source_seq, count(1) as n_gossiped
  from told
  group by run_id, id.source, id.source_seq
), copy as (
  select run_id, source, source_seq, count_if(kind = 'PUB') as n_pushed, count_if(kind = 'REPLY') as n_replies,
    count(distinct case when fate = 'delivered' then dst end) as n_first, count_if(fate = 'duplicate') as n_duplicates
  from sent_message
  where kind in ('PUB', 'REPLY')
  group by run_id, source, source_seq
)
select c.run_id, c.source, n.name as source_name, c.source_seq, c.n_pushed, coalesce(g.n_gossiped, 0) as n_gossiped,
  c.n_replies, c.n_first, c.n_duplicates, c.n_duplicates / nullif(c.n_first, 0) as duplicates_per_node
from copy c
join node n on n.run_id = c.run_id and n.node_id = c.source
left join gossiped g on g.run_id = c.run_id and g.source = c.source and g.source_seq = c.source_seq
