-- audit: farther from a subscriber, routing entries name the node δ+1 hops towards the subscriber
select * from broken_level_2
