-- audit: the n subscribers of a legitimate topic have the first n labels, each a different one
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq, detail
from broken_topic
where guarantee = 'labels'
