-- audit: within δ+1 hops of a subscriber, routing entries name the subscriber
select run_id, node_id, detail from broken_entry where is_near
