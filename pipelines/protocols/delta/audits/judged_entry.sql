-- The unique entries of live subscriptions, with the path to their origin; the path is null if the origin is farther
-- than δ+1 hops. is_right: whether the entry satisfies Level 1 at a near node, or rule R1 at a far node.
select e.run_id, e.node_id, e.subscription_id, e.delta, s.subscriber, e.origin, e.entry_distance, e.entry_hop,
  e.entry_responsible, o.distance, o.path, o.first_hop, o.responsible, n.run_id is not null as is_near,
  coalesce(case when n.run_id is not null then e.origin = s.subscriber else o.distance = e.delta + 1 end
    and e.entry_responsible <=> o.responsible and e.entry_hop <=> o.first_hop and e.entry_distance <=> o.distance,
    false) as is_right
from entry e
join due_subscription s on s.run_id = e.run_id and s.subscription_id = e.subscription_id and s.is_live
left join judged_path o on o.run_id = e.run_id and o.node_id = e.node_id and o.target = e.origin
left join near n on n.run_id = e.run_id and n.node_id = e.node_id and n.subscription_id = e.subscription_id
where e.n_entries = 1
