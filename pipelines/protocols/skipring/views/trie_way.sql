-- Which proportion of the publications arrived by flooding, and which by the comparison of tries?
-- One row per run, topic and source of publications (protocol skipring). Only tries of nodes that are up count.
-- :topic the topic
-- :via source: publish (the node's own), flooding, trie, or start (stored before the first round)
-- :n_publications publications at subscribers
-- :share proportion of the topic's publications that have this source
select run_id, topic, via, count(1) as n_publications,
  count(1) / sum(count(1)) over (partition by run_id, topic) as share
from state_trie_node
where via is not null
group by run_id, topic, via
