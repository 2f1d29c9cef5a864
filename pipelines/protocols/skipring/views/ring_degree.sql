-- How many neighbours does each node have on the ring of a topic, and how many over shortcuts?
-- One row per run, node, topic and round in which an edge of the node changed (protocol skipring).
-- :round first round with these values; -1: the initial state
-- :until_round first round with other values; null: the values did not change until the end
-- :label label of the node; null: no label
-- :n_on_ring neighbours on the ring
-- :n_shortcuts neighbours over shortcuts that are not neighbours on the ring
-- :degree number of different neighbours
with held as (
  select run_id, node_id, topic, round, label,
    lead(round) over (partition by run_id, node_id, topic order by round) as until_round,
    array_distinct(filter(array(`left`.node, `right`.node, ring.node), one -> one is not null)) as ring_nodes,
    array_distinct(filter(transform(slots, slot -> slot.node), one -> one is not null)) as short_nodes
  from state_configuration_change
)
select h.run_id, h.node_id, n.name, h.topic, h.round, h.until_round, h.label, size(h.ring_nodes) as n_on_ring,
  size(array_except(h.short_nodes, h.ring_nodes)) as n_shortcuts,
  size(array_union(h.ring_nodes, h.short_nodes)) as degree
from held h
join node n on n.run_id = h.run_id and n.node_id = h.node_id
