-- Which share of the publications at subscribers came by flooding, and which by comparing tries?
-- One row per run, topic and way (protocol skipring): publish (its own), flooding, trie, or start (there before the
-- first round). It counts what is in the tries of nodes that are up.
select run_id, topic, via, count(1) as n_publications,
  count(1) / sum(count(1)) over (partition by run_id, topic) as share
from state_trie_node
where via is not null
group by run_id, topic, via
