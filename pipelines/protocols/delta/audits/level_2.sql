-- audit: farther from a subscriber, routing entries name the node δ+1 hops towards the subscriber
select run_id, node_id, detail from broken_entry where not is_near
