-- audit: once a topic is legitimate, no node refers to a node that has left or crashed
select run_id, round, node_id, detail
from broken_topic
where guarantee = 'departed'
