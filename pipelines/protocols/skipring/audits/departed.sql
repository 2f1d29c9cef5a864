-- audit: once a topic is legitimate, no node refers to a node that has left or crashed
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq, detail
from broken_topic
where guarantee = 'departed'
