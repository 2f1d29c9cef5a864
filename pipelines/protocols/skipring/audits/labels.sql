-- audit: the n subscribers of a legitimate topic have the first n labels, each a different one
select run_id, round, node_id, detail
from broken_topic
where guarantee = 'labels'
