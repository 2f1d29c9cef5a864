-- Which share of the publications at subscribers came by flooding, and which by comparing tries?
-- One row per run, topic and way (protocol skipring). It counts what is in the tries of nodes that are up.
-- :topic the topic
-- :via how they came: publish (its own), flooding, trie, or start (there before the first round)
-- :n_publications publications at subscribers
-- :share their share of those of the topic
select run_id, topic, via, count(1) as n_publications,
  count(1) / sum(count(1)) over (partition by run_id, topic) as share
from state_trie_node
where via is not null
group by run_id, topic, via
