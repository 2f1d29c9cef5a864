-- audit: within δ+1 hops of a subscriber, routing entries name the subscriber
select * from broken_level_1
