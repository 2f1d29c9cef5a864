-- The entries of the judged nodes (SUBS_SET). n_entries: the number of entries of the node for the subscription.
select e.run_id, e.node_id, e.subscription_id, j.delta, e.origin, e.distance as entry_distance,
  e.first_hop as entry_hop, e.responsible as entry_responsible,
  count(1) over (partition by e.run_id, e.node_id, e.subscription_id) as n_entries
from state_routing_entry e
join judged j on j.run_id = e.run_id and j.node_id = e.node_id
