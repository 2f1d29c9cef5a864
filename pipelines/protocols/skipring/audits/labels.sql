-- audit: the subscribers of a legitimate topic have the first labels, each a label of its own
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq, detail
from broken_topic
where guarantee = 'labels'
