-- audit: once a topic is legitimate, its explicit state does not change until a node joins, leaves or crashes
select run_id, round, node_id, detail
from broken_topic
where guarantee = 'closure'
