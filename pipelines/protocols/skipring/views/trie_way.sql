-- Which proportion of the publications reached tries by flooding, and which by the comparison of tries?
-- One row per run, topic and way (protocol skipring). Only tries of nodes that are up at the end count.
-- :via way of a publication into a trie; publish: the node issued it; flooding: PublishNew; trie: comparison of tries;
--   start: stored before the first round
-- :n_publications publications in the tries of subscribers; a publication in n tries counts n times
-- :share n_publications, divided by its sum over all ways of the topic
select run_id, topic, via, count(1) as n_publications,
  count(1) / sum(count(1)) over (partition by run_id, topic) as share
from state_trie_node
where via is not null
group by run_id, topic, via
