-- audit: a topic becomes legitimate: after enough time its number of problems still decreases, or is zero
select run_id, round, node_id, detail
from broken_topic
where guarantee = 'convergence'
