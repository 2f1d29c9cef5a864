-- How many neighbours does each node have in the mesh of a topic, and how many have announced the topic?
-- One row per run, node and topic that the node has joined at the end of the run (protocol gossipsub).
-- :n_peers neighbours of the node that have announced the topic
-- :degree neighbours in the node's mesh of the topic
-- :n_backoff neighbours that the node may not graft yet (backoff)
select t.run_id, t.node_id, n.name, t.topic, size(t.peers) as n_peers, size(t.mesh) as degree,
  size(t.backoff) as n_backoff
from state_topic t
join node n on n.run_id = t.run_id and n.node_id = t.node_id
where t.is_joined
