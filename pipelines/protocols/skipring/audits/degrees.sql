-- audit: a legitimate topic has the edges, degrees and diameter of the skip ring
select run_id, round, node_id, detail
from broken_topic
where guarantee = 'degrees'
