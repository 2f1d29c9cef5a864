-- audit: a topic becomes legitimate: with enough time it neither repeats a state nor stops to improve
select run_id, round, node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq, detail
from broken_topic
where guarantee = 'convergence'
