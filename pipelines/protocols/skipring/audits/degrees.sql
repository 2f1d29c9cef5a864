-- audit: a legitimate topic has the edges, degrees and diameter of the skip ring
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq, detail
from broken_topic
where guarantee = 'degrees'
